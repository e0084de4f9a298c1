"""A plugin of somebody else's package, in a scheduler of its own: it holds pods back in Permit until all of
their party are there, or the time is up. And what becomes of pods that are deleted on their way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.e2e.stage import CONFIG, Stage, eventually
from tests.e2e.test_run import PODS, scheduler

pytestmark = pytest.mark.control_plane

PLUGIN = """
from stowplan.framework import PermitPlugin, PluginArgs, PostBindPlugin, ReservePlugin, Wait


class PartyArgs(PluginArgs, frozen=True):
    timeout_seconds: float = 60.0


class Party(ReservePlugin, PermitPlugin, PostBindPlugin):
    Args = PartyArgs

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self._seconds = args.timeout_seconds
        self._handle = handle

    def reserve(self, state, pod, node_name):
        print(f"reserve {pod.name}", flush=True)

    def unreserve(self, state, pod, node_name):
        print(f"unreserve {pod.name}", flush=True)

    def permit(self, state, pod, node_name):
        party = pod.labels.get("party")
        if party is None:
            return None
        others = [one for one in self._handle.waiting if one.pod.labels.get("party") == party]
        if len(others) + 1 < int(pod.labels["size"]):
            return Wait(self._seconds)
        for other in others:
            other.allow(self.name)
        return None

    async def post_bind(self, state, pod, node_name):
        print(f"bound {pod.name}", flush=True)
"""

PROFILES = """
profiles:
- schedulerName: patient
  plugins: {multiPoint: {enabled: [{name: Party}]}}
- schedulerName: hasty
  plugins: {multiPoint: {enabled: [{name: Party}]}}
  pluginConfig:
  - name: Party
    args: {timeoutSeconds: 0.5}
"""


@pytest.fixture(scope="module")
def party_scheduler(long_running_stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A scheduler that has found the plugin's package, beside the one that all tests share."""
    plane = long_running_stage.plane
    site = tmp_path_factory.mktemp("site")
    (site / "party.py").write_text(PLUGIN)
    about = site / "party-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: party\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[stowplan.plugins]\nParty = party:Party\n")
    config = site / "config.yaml"
    text = CONFIG[: CONFIG.index("profiles:")] + PROFILES
    config.write_text(text.replace("KUBECONFIG", str(plane.kubeconfig)))
    with (
        pytest.MonkeyPatch.context() as patch,
        plane.client() as api,
    ):
        patch.setenv("PYTHONPATH", str(site))
        with (
            scheduler(plane, site / "log", f"--config={config}") as running,
            closing(Stage(plane, api, running, scheduler="patient")) as stage,
        ):
            yield stage
            log = running.log.read_text()
            assert "Traceback" not in log, log


@pytest.fixture
def stage(party_scheduler: Stage) -> Iterator[Stage]:
    yield party_scheduler
    party_scheduler.clear()


def held_back(stage: Stage) -> float:
    """How many pods have a node and are not bound."""
    return stage.cached("assumed_pods")


def test_a_party_waits_until_all_are_there(stage: Stage) -> None:
    stage.node("one")
    party = {"party": "blue", "size": "3"}
    stage.pod("b0", labels=party)
    stage.pod("b1", labels=party)
    stage.pod("alone")
    assert stage.placed("alone") == "one"
    eventually(lambda: held_back(stage) == 2)
    stage.pod("red", labels={"party": "red", "size": "2"})
    eventually(lambda: held_back(stage) == 3)
    assert [stage.node_of(name) for name in ("b0", "b1", "red")] == ["", "", ""]
    stage.pod("b2", labels=party)
    assert {stage.placed(f"b{number}") for number in range(3)} == {"one"}
    assert stage.node_of("red") == ""
    assert stage.metric("scheduler_permit_wait_duration_seconds_count", result="allowed") >= 2
    eventually(lambda: "bound b2" in stage.running.log.read_text())


def test_who_waits_too_long_gives_its_room_back(stage: Stage) -> None:
    stage.node("one", cpu="2")
    stage.pod("lonely", cpu="2", labels={"party": "few", "size": "2"}, scheduler="hasty")
    message = stage.refused("lonely", "rejected due to timeout after waiting")
    assert message.startswith(
        "0/1 nodes are available: 1 rejected due to timeout after waiting 500ms at plugin Party."
    )
    assert stage.events("lonely", "FailedScheduling") or eventually(
        lambda: stage.events("lonely", "FailedScheduling")
    )
    eventually(lambda: "unreserve lonely" in stage.running.log.read_text())
    stage.delete_pod("lonely")
    stage.pod("next", cpu="2")
    assert stage.placed("next") == "one"


def test_a_pod_is_deleted_while_it_is_held_back(stage: Stage) -> None:
    stage.node("one", cpu="2")
    stage.pod("held", cpu="2", labels={"party": "never", "size": "2"})
    eventually(lambda: held_back(stage) == 1)
    stage.pod("next", cpu="2")
    stage.refused("next", "1 Insufficient cpu.")
    stage.delete_pod("held")
    assert stage.placed("next") == "one"
    eventually(lambda: held_back(stage) == 0)
    eventually(lambda: "unreserve held" in stage.running.log.read_text())


def test_a_pod_that_is_held_back_can_be_preempted(stage: Stage) -> None:
    """It is not deleted for that: it was nowhere yet."""
    stage.node("one", cpu="2")
    stage.make("/apis/scheduling.k8s.io/v1/priorityclasses", "urgent", value=1000)
    stage.pod("held", cpu="2", labels={"party": "none", "size": "2"})
    eventually(lambda: held_back(stage) == 1)
    stage.pod("urgent", cpu="2", priorityClassName="urgent")
    assert stage.placed("urgent") == "one"
    assert "deletionTimestamp" not in stage.get_pod("held")["metadata"]
    stage.refused("held", "1 Insufficient cpu.")


def test_a_pod_is_deleted_while_it_is_gated_or_fits_nowhere(stage: Stage) -> None:
    stage.node("one", cpu="1")
    stage.pod("gated", schedulingGates=[{"name": "example.com/quota"}])
    stage.pod("large", cpu="2")
    stage.refused("large", "1 Insufficient cpu.")
    eventually(lambda: stage.waiting("gated") == 1)
    for name in ("gated", "large"):
        stage.delete_pod(name)
    eventually(lambda: not stage.metric("scheduler_pending_pods"))
    # The same names again: other pods, which nothing of the old ones clings to.
    for name in ("gated", "large"):
        stage.pod(name, cpu="100m")
        assert stage.placed(name) == "one"


def test_a_pod_that_ends_before_it_began_gets_no_node(stage: Stage) -> None:
    stage.pod("ending", schedulingGates=[{"name": "example.com/quota"}])
    eventually(lambda: stage.waiting("gated") == 1)
    stage.change_pod("ending", metadata={"finalizers": ["example.com/later"]})
    stage.api.delete(f"{PODS}/ending")
    stage.node("one")
    stage.change_pod("ending", spec={"schedulingGates": None})
    event = eventually(lambda: stage.events("ending", "FailedScheduling"))[0]
    assert event["note"] == "skip schedule deleting pod: default/ending"
    assert stage.node_of("ending") == ""
    stage.change_pod("ending", metadata={"finalizers": None})
    eventually(lambda: not stage.metric("scheduler_pending_pods"))


def test_pods_that_come_and_go_at_once_leave_nothing(stage: Stage) -> None:
    """Some are bound before they are deleted, some are not: nobody knows which."""
    stage.node("one", cpu="2")
    for number in range(30):
        stage.pod(f"short-{number}", cpu="1")
        stage.delete_pod(f"short-{number}")
    stage.pod("last", cpu="2")
    assert stage.placed("last") == "one"
    eventually(lambda: stage.cached("pods") == 1)
    eventually(lambda: held_back(stage) == 0)
    assert not stage.metric("scheduler_pending_pods")
