"""Pods of every kind of constraint, each placed where only one node is right.

Every case makes its nodes and a pod `target`, and returns the node where the target must go. Where a wrong
node is not excluded by the constraint alone, it is the one that looks better without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tests.e2e.stage import HOST, ZONE, Stage, apart, near, selected_by

pytestmark = pytest.mark.control_plane

Case: TypeAlias = Callable[[Stage], str]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def on_nodes_where(*expressions: dict[str, Any], field: str = "matchExpressions") -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{field: list(expressions)}]}}}


def generations(stage: Stage) -> None:
    for number in (3, 5, 7):
        stage.node(f"g{number}", labels={"generation": str(number)})


def zones(stage: Stage, *names: str) -> None:
    for name in names:
        stage.node(f"in-{name}", labels={ZONE: name})


def node_selector(stage: Stage) -> str:
    generations(stage)
    stage.pod("target", nodeSelector={"generation": "5"})
    return "g5"


def affinity_in(stage: Stage) -> str:
    generations(stage)
    rule = {"key": "generation", "operator": "In", "values": ["4", "5", "6"]}
    stage.pod("target", affinity=on_nodes_where(rule))
    return "g5"


def affinity_not_in_and_exists(stage: Stage) -> str:
    generations(stage)
    stage.node("unlabelled")
    stage.pod(
        "target",
        affinity=on_nodes_where(
            {"key": "generation", "operator": "NotIn", "values": ["3", "7"]},
            {"key": "generation", "operator": "Exists"},
        ),
    )
    return "g5"


def affinity_greater_and_less(stage: Stage) -> str:
    generations(stage)
    stage.pod(
        "target",
        affinity=on_nodes_where(
            {"key": "generation", "operator": "Gt", "values": ["3"]},
            {"key": "generation", "operator": "Lt", "values": ["7"]},
        ),
    )
    return "g5"


def affinity_to_a_name(stage: Stage) -> str:
    generations(stage)
    rule = {"key": "metadata.name", "operator": "In", "values": ["g7"]}
    stage.pod("target", affinity=on_nodes_where(rule, field="matchFields"))
    return "g7"


def preferred_affinity(stage: Stage) -> str:
    generations(stage)
    stage.running_pod("tenant", "g7", cpu="1")  # the others would be emptier
    rule = {"key": "generation", "operator": "Gt", "values": ["5"]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [rule]}}]
    stage.pod("target", affinity={"nodeAffinity": {PREFERRED: preferred}})
    return "g7"


def tolerations(stage: Stage) -> str:
    for name, effect in (("red", "NoSchedule"), ("blue", "NoSchedule"), ("green", "NoExecute")):
        stage.node(name, taints=[{"key": "team", "value": name, "effect": effect}])
    toleration = {"key": "team", "operator": "Equal", "value": "green", "effect": "NoExecute"}
    stage.pod("target", tolerations=[toleration])
    return "green"


def soft_taints(stage: Stage) -> str:
    stage.node("disliked", taints=[{"key": "old", "effect": "PreferNoSchedule"}])
    stage.node("liked")
    stage.running_pod("tenant", "liked", cpu="1")
    stage.pod("target")
    return "liked"


def cordoned_nodes(stage: Stage) -> str:
    stage.node("cordoned", unschedulable=True)
    stage.node("open", cpu="1")
    stage.pod("target", cpu="100m")
    return "open"


def cpu(stage: Stage) -> str:
    stage.node("small", cpu="2")
    stage.node("full", cpu="8")
    stage.node("large", cpu="8")
    stage.running_pod("tenant", "full", cpu="6")
    stage.pod("target", cpu="3")
    return "large"


def init_containers_and_sidecars(stage: Stage) -> str:
    """A sidecar of 1 CPU runs beside an init container of 4 and a container of 2: 5 in all."""
    stage.node("four", cpu="4")
    stage.node("five", cpu="5")

    def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "image": "pause", "resources": {"requests": {"cpu": cpu}}, **more}

    stage.pod(
        "target",
        initContainers=[container("proxy", "1", restartPolicy="Always"), container("load", "4")],
        containers=[container("main", "2")],
    )
    return "five"


def memory_and_ephemeral_storage(stage: Stage) -> str:
    stage.node("no-disk", room={"memory": "16Gi", "ephemeral-storage": "1Gi"})
    stage.node("no-memory", room={"memory": "2Gi", "ephemeral-storage": "50Gi"})
    stage.node("both", room={"memory": "16Gi", "ephemeral-storage": "50Gi"})
    stage.pod("target", requests={"memory": "4Gi", "ephemeral-storage": "10Gi"})
    return "both"


def extended_resources(stage: Stage) -> str:
    stage.node("none")
    stage.node("used", room={"example.com/gpu": "2"})
    stage.node("free", room={"example.com/gpu": "2"})
    stage.running_pod("tenant", "used", requests={"example.com/gpu": "1"})
    stage.pod("target", requests={"example.com/gpu": "2"})
    return "free"


def number_of_pods(stage: Stage) -> str:
    stage.node("taken", room={"pods": "1"}, cpu="64")
    stage.node("free")
    stage.running_pod("tenant", "taken")
    stage.pod("target")
    return "free"


def host_ports(stage: Stage) -> str:
    def port(protocol: str = "TCP") -> dict[str, Any]:
        return {"ports": [{"containerPort": 53, "hostPort": 53, "protocol": protocol}]}

    stage.node("tcp", cpu="1")
    stage.node("udp", cpu="64")
    stage.running_pod("over-tcp", "tcp", container=port("TCP"))
    stage.running_pod("over-udp", "udp", container=port("UDP"))
    stage.pod("target", container=port("UDP"))
    return "tcp"


def near_another(stage: Stage) -> str:
    zones(stage, "a", "b", "c")
    stage.running_pod("store", "in-b", cpu="1", labels={"app": "store"})
    stage.pod("target", affinity=near(ZONE, app="store"))
    return "in-b"


def near_another_of_a_namespace(stage: Stage) -> str:
    zones(stage, "a", "b")
    stage.running_pod("store", "in-a", labels={"app": "store"})
    stage.make("/api/v1/namespaces", "shops", metadata={"labels": {"kind": "shop"}})
    pods = "/api/v1/namespaces/shops/pods"
    container = {"name": "main", "image": "pause"}
    spec = {"containers": [container], "nodeName": "in-b", "schedulerName": "somebody-else"}
    stage.make(pods, "store", metadata={"labels": {"app": "store"}}, spec=spec)
    term = {"topologyKey": ZONE, "namespaceSelector": {"matchLabels": {"kind": "shop"}}}
    terms = [term | selected_by(app="store")]
    stage.pod("target", affinity={"podAffinity": {REQUIRED: terms}})
    return "in-b"


def the_first_of_its_kind(stage: Stage) -> str:
    """Nothing is there that it could be near to but itself."""
    zones(stage, "a")
    stage.node("nowhere", cpu="64")
    stage.pod("target", labels={"app": "store"}, affinity=near(ZONE, app="store"))
    return "in-a"


def apart_from_others(stage: Stage) -> str:
    zones(stage, "a", "b", "c")
    for zone in ("a", "c"):
        stage.running_pod(f"store-{zone}", f"in-{zone}", labels={"app": "store"})
    stage.running_pod("tenant", "in-b", cpu="2")
    stage.pod("target", affinity=apart(ZONE, app="store"))
    return "in-b"


def unwanted_by_others(stage: Stage) -> str:
    zones(stage, "a", "b")
    stage.running_pod("recluse", "in-a", affinity=apart(ZONE, noise="yes"))
    stage.running_pod("tenant", "in-b", cpu="2")
    stage.pod("target", labels={"noise": "yes"})
    return "in-b"


def preferably_near(stage: Stage) -> str:
    zones(stage, "a", "b")
    stage.running_pod("store", "in-b", cpu="1", labels={"app": "store"})
    term = {"topologyKey": ZONE, **selected_by(app="store")}
    weighted = [{"weight": 100, "podAffinityTerm": term}]
    stage.pod("target", affinity={"podAffinity": {PREFERRED: weighted}})
    return "in-b"


def spread(stage: Stage) -> str:
    zones(stage, "a", "b", "c")
    for number, zone in enumerate("aab"):
        stage.running_pod(f"web-{number}", f"in-{zone}", labels={"app": "web"})
    stage.running_pod("tenant", "in-c", cpu="3")
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    stage.pod(
        "target",
        labels={"app": "web"},
        topologySpreadConstraints=[rule | selected_by(app="web")],
    )
    return "in-c"


def spread_over_revisions(stage: Stage) -> str:
    """With matchLabelKeys, pods of another revision do not count."""
    zones(stage, "a", "b")
    stage.running_pod("old", "in-b", labels={"app": "web", "revision": "1"})
    stage.running_pod("new", "in-a", labels={"app": "web", "revision": "2"})
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["revision"],
    }
    stage.pod(
        "target",
        labels={"app": "web", "revision": "2"},
        topologySpreadConstraints=[rule | selected_by(app="web")],
    )
    return "in-b"


def softly_spread(stage: Stage) -> str:
    zones(stage, "a", "b")
    for number in range(3):
        stage.running_pod(f"web-{number}", "in-a", labels={"app": "web"})
    stage.running_pod("tenant", "in-b", cpu="1")
    rule = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}
    stage.pod(
        "target",
        labels={"app": "web"},
        topologySpreadConstraints=[rule | selected_by(app="web")],
    )
    return "in-b"


def overhead(stage: Stage) -> str:
    stage.node("tight", cpu="2")
    stage.node("wide", cpu="3")
    body = {"handler": "runsc", "overhead": {"podFixed": {"cpu": "1"}}}
    stage.make("/apis/node.k8s.io/v1/runtimeclasses", "sandboxed", **body)
    stage.pod("target", cpu="2", runtimeClassName="sandboxed")
    return "wide"


CASES: tuple[Case, ...] = (
    node_selector,
    affinity_in,
    affinity_not_in_and_exists,
    affinity_greater_and_less,
    affinity_to_a_name,
    preferred_affinity,
    tolerations,
    soft_taints,
    cordoned_nodes,
    cpu,
    init_containers_and_sidecars,
    memory_and_ephemeral_storage,
    extended_resources,
    number_of_pods,
    host_ports,
    near_another,
    near_another_of_a_namespace,
    the_first_of_its_kind,
    apart_from_others,
    unwanted_by_others,
    preferably_near,
    spread,
    spread_over_revisions,
    softly_spread,
    overhead,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_only_one_node_is_right(stage: Stage, case: Case) -> None:
    expected = case(stage)
    assert stage.placed("target") == expected


def test_nodes_that_come_and_go(stage: Stage) -> None:
    """What is bound fills the nodes there are; what does not fit takes the next one that comes."""
    for number in range(6):
        stage.pod(f"p{number}", cpu="1")
    stage.node("first", cpu="2")
    names = [f"p{number}" for number in range(6)]
    stage.placed_in_all(names, ["", "", "", "", "first", "first"])
    on_first = [name for name in names if stage.node_of(name)]
    stage.node("second", cpu="2")
    stage.placed_in_all(names, ["", "", "first", "first", "second", "second"])
    stage.refused_in_all(2)

    stage.delete("/api/v1/nodes/first")
    stage.settle()
    for name in on_first:  # as the garbage collector of pods does
        stage.delete_pod(name)
    stage.settle()
    assert stage.waiting("unschedulable") + stage.waiting("backoff") == 2

    stage.node("first", cpu="2")  # the same name again, another node
    left = [name for name in names if name not in on_first]
    stage.placed_in_all(left, ["first", "first", "second", "second"])


def test_a_node_that_goes_while_pods_are_placed_on_it(stage: Stage) -> None:
    stage.node("leaving", cpu="8")
    stage.node("staying", cpu="8")
    for number in range(10):
        stage.pod(f"before-{number}", cpu="100m")
    stage.delete("/api/v1/nodes/leaving")
    for number in range(10):
        stage.pod(f"after-{number}", cpu="100m")
    for number in range(10):
        assert stage.placed(f"before-{number}") in ("leaving", "staying")
    stage.settle()
    stage.pod("last", cpu="100m")
    assert stage.placed("last") == "staying"


def test_pods_that_others_bind_are_counted(stage: Stage) -> None:
    stage.node("one", cpu="2")
    stage.pod("theirs", cpu="2", scheduler="somebody-else")
    stage.settle()
    assert stage.node_of("theirs") == ""
    stage.api.bind("default", "theirs", "one")
    stage.pod("ours", cpu="1")
    stage.refused("ours", "1 Insufficient cpu.")
    stage.delete_pod("theirs")
    assert stage.placed("ours") == "one"
