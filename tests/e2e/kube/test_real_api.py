"""The client, the reflector, events and leases against a real kube-apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.engine.planner import PodCondition
from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError, CredentialsError, UncertainError
from stowplan.kube.kubeconfig import load_access
from stowplan.kube.leases import LeaderElector
from stowplan.kube.planner import KubePlanner
from stowplan.kube.recorder import Recorder
from stowplan.kube.reflector import NOT_FINISHED, Reflector
from stowplan.objects import Pod, kind_of_record
from tests.control_plane import binaries
from tests.control_plane.plane import ControlPlane, Options, start
from tests.unit.kube.authority import Authority
from tests.unit.kube.fakeserver import eventually

pytestmark = pytest.mark.control_plane

PODS = kind_of_record(Pod)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def plane(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One that knows client certificates."""
    known = tmp_path_factory.mktemp("authority") / "clients.crt"
    known.write_bytes(authority.pem)
    with start(Options(apiserver_arguments=(f"--client-ca-file={known}",))) as running:
        yield running


@pytest.fixture
def namespace(plane: ControlPlane) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    with plane.client() as admin:
        admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


Test = Callable[[ApiClient], Awaitable[None]]


def run(kubeconfig: Path, test: Test, **options: Any) -> None:
    async def main() -> None:
        client = ApiClient(load_access(str(kubeconfig), environ={}), **options)
        try:
            async with asyncio.timeout(120):
                await test(client)
        finally:
            await client.close()

    asyncio.run(main())


def kubeconfig_with(plane: ControlPlane, folder: Path, user: dict[str, Any]) -> Path:
    content = yaml.safe_load(plane.kubeconfig.read_text())
    content["users"] = [{"name": "admin", "user": user}]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def pod(name: str, namespace: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    spec = {"containers": [{"name": "main", "image": "pause"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {"allocatable": room, "capacity": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


async def who_am_i(client: ApiClient) -> tuple[str, list[str]]:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    said = (await client.create(review))["status"]["userInfo"]
    return said["username"], said["groups"]


def service_account_token(plane: ControlPlane, name: str) -> str:
    with plane.client() as admin:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        admin.create(accounts, {"metadata": {"name": name}})
        wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(admin.create(f"{accounts}/{name}/token", wish)["status"]["token"])


# Who we are


def test_a_client_certificate_is_a_user(plane: ControlPlane, authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("jane", "ops")
    (tmp_path / "jane.crt").write_bytes(issued.certificate)
    (tmp_path / "jane.key").write_bytes(issued.key)
    user = {"client-certificate": "jane.crt", "client-key": "jane.key"}

    async def test(client: ApiClient) -> None:
        name, groups = await who_am_i(client)
        assert name == "jane" and "ops" in groups

    run(kubeconfig_with(plane, tmp_path, user), test)


def test_a_token_file_is_followed(plane: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(service_account_token(plane, "first"))

    async def test(client: ApiClient) -> None:
        assert (await who_am_i(client))[0] == "system:serviceaccount:default:first"
        file.write_text("nonsense")
        client._credentials.reject()
        with pytest.raises(ApiError, match="Unauthorized"):
            await who_am_i(client)
        file.write_text(service_account_token(plane, "second"))  # the refused one is read again at once
        assert (await who_am_i(client))[0] == "system:serviceaccount:default:second"

    run(kubeconfig_with(plane, tmp_path, {"tokenFile": "token"}), test)


def test_a_plugin_is_asked_again_when_its_token_is_refused(plane: ControlPlane, tmp_path: Path) -> None:
    token, calls = tmp_path / "token", tmp_path / "calls"
    token.write_text(plane.token)
    script = tmp_path / "plugin.py"
    script.write_text(
        f"""import json, os
open({str(calls)!r}, "a").write("x")
wish = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = open({str(token)!r}).read()
said = {{"kind": "ExecCredential", "apiVersion": wish["apiVersion"], "status": {{"token": token}}}}
print(json.dumps(said))
"""
    )
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script)],
            "interactiveMode": "Never",
        }
    }

    async def test(client: ApiClient) -> None:
        for _ in range(3):
            assert (await who_am_i(client))[0] == "admin"
        assert calls.read_text() == "x"
        token.write_text("nonsense")
        client._credentials.reject()
        with pytest.raises(ApiError, match="Unauthorized"):
            await who_am_i(client)
        token.write_text(plane.token)
        assert (await who_am_i(client))[0] == "admin"
        script.write_text("import sys; sys.exit('out of order')")
        client._credentials.reject()
        with pytest.raises(CredentialsError, match="out of order"):
            await who_am_i(client)

    run(kubeconfig_with(plane, tmp_path, user), test)


def test_acting_as_somebody_else(plane: ControlPlane, tmp_path: Path) -> None:
    user = {"token": plane.token, "as": "jane", "as-groups": ["ops"], "as-user-extra": {"scope": ["all"]}}

    async def test(client: ApiClient) -> None:
        name, groups = await who_am_i(client)
        assert name == "jane" and "ops" in groups
        with pytest.raises(ApiError, match='User "jane" cannot list resource "pods"') as no:
            await client.list_page(PODS)
        assert no.value.is_forbidden

    run(kubeconfig_with(plane, tmp_path, user), test)


# Reading


class Told(list[str]):
    """What was announced."""

    def event(self, kind: Any, old: Any, new: Any) -> None:
        self.append(f"{'+' if old is None else '-' if new is None else '~'}{(new or old).name}")


class Running:
    """A reflector in a task."""

    def __init__(self, reflector: Reflector) -> None:
        self._task = asyncio.ensure_future(reflector.run())

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def test_the_copy_follows_pods_and_finished_ones_leave(plane: ControlPlane, namespace: str) -> None:
    async def test(client: ApiClient) -> None:
        for number in range(7):
            await client.create(pod(f"p{number}", namespace))
        told = Told()
        reflector = Reflector(
            client, PODS, told.event, namespace=namespace, field_selector=NOT_FINISHED, page_size=3
        )
        async with Running(reflector):
            await reflector.settled.wait()
            assert told == [f"+p{number}" for number in range(7)]
            told.clear()
            made = await client.create(pod("new", namespace))
            await client.patch(made, {"metadata": {"labels": {"a": "b"}}})
            await client.patch(made, {"status": {"phase": "Succeeded"}}, subresource="status")
            await client.delete(reflector.objects[f"{namespace}/p0"], grace_period=0)
            await eventually(lambda: "-p0" in told)
            assert [change for change in told if change != "~p0"] == ["+new", "~new", "-new", "-p0"]

    run(plane.kubeconfig, test)


def test_what_the_server_forgot_is_read_anew() -> None:
    """After etcd has compacted, the watch cannot be taken up: 410, a new list, only what changed is told."""
    # With its cache, the server could still tell what etcd has forgotten.
    forgetful = Options(apiserver_arguments=("--watch-cache=false", "--etcd-compaction-interval=1s"))

    async def test(client: ApiClient) -> None:
        for number in range(4):
            await client.create(pod(f"p{number}", "default"))
        told = Told()
        reflector = Reflector(client, PODS, told.event)
        async with Running(reflector):
            await reflector.settled.wait()
            place = reflector._version
        told.clear()
        # While nobody watches: one goes, one comes, one changes, one is another one of the same name.
        objects = reflector.objects
        await client.delete(objects["default/p0"], grace_period=0)
        await client.patch(objects["default/p1"], {"metadata": {"labels": {"a": "b"}}})
        await client.delete(objects["default/p2"], grace_period=0)
        await client.create(pod("p2", "default"))
        await client.create(pod("p4", "default"))
        await _until_forgotten(client, place)
        lines: list[bytes] = []
        await client.stream(f"/api/v1/pods?watch=true&resourceVersion={place}", lines.append, idle_timeout=9)
        event = json.loads(b"".join(lines))
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        async with Running(reflector):
            await eventually(lambda: reflector.lists == 2, seconds=30)
            assert sorted(told) == sorted(["-p0", "~p1", "-p2", "+p2", "+p4"])
            await client.create(pod("p5", "default"))
            await eventually(lambda: told[-1] == "+p5")

    with start(forgetful) as own:
        run(own.kubeconfig, test)


async def _until_forgotten(client: ApiClient, version: str) -> None:
    path = f"/api/v1/pods?resourceVersion={version}&resourceVersionMatch=Exact&limit=1"
    for _ in range(120):
        try:
            await client.get_plain(path)
        except ApiError as error:
            if error.is_expired:
                return
            raise
        await asyncio.sleep(0.25)
    raise AssertionError(f"version {version} was never forgotten")


def test_kinds_that_may_not_be_read_or_do_not_exist_are_reported(plane: ControlPlane, tmp_path: Path) -> None:
    token = service_account_token(plane, "nobody")

    async def test(client: ApiClient) -> None:
        problems: list[ApiError] = []
        reflector = Reflector(
            client, PODS, Told().event, on_unavailable=lambda _, error: problems.append(error)
        )
        async with Running(reflector):
            await reflector.settled.wait()
        assert not reflector.synced
        assert [error.status for error in problems] == [403]
        assert 'cannot list resource "pods"' in str(problems[0])
        assert token not in str(problems[0])

    run(kubeconfig_with(plane, tmp_path, {"token": token}), test)


async def freeze(pid: int) -> None:
    """Returns when it has happened: the signal may have to wait until one of the threads runs again."""

    def frozen(task: Path) -> bool:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"

    os.kill(pid, signal.SIGSTOP)
    await eventually(lambda: all(map(frozen, Path(f"/proc/{pid}/task").iterdir())))


def test_a_server_that_hangs_for_a_while_costs_nothing() -> None:
    """Stopped and continued: the watch falls silent, a request gets no answer, and nothing is missed."""

    async def test(client: ApiClient) -> None:
        told = Told()
        reflector = Reflector(client, PODS, told.event, quiet_limit=2.0)
        async with Running(reflector):
            await reflector.settled.wait()
            await client.create(pod("before", "default"))
            await freeze(own.pids["kube-apiserver"])
            with pytest.raises(UncertainError):
                await client.request("POST", "/api/v1/namespaces", b"{}", timeout=1.0)
            await asyncio.sleep(3)  # longer than the watch may be silent
            os.kill(own.pids["kube-apiserver"], signal.SIGCONT)
            await client.create(pod("after", "default"))
            await eventually(lambda: "+after" in told, seconds=30)
            assert told == ["+before", "+after"]

    with start() as own:
        run(own.kubeconfig, test)


# Writing


def test_a_pod_is_bound_once_and_its_status_written(plane: ControlPlane, namespace: str) -> None:
    async def test(client: ApiClient) -> None:
        recorder = Recorder(client, host="test")
        planner = KubePlanner(client, recorder)
        await client.create(node(f"n-{namespace}"))
        web = await client.create(pod("web", namespace))
        assert isinstance(web, Pod)
        assert await planner.placed_on(web) == ""
        condition = PodCondition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
        await planner.patch_status(web, condition=condition, nominated_node="n-x")
        web = await client.get(PODS, "web", namespace)
        assert isinstance(web, Pod)
        assert web.status.nominated_node_name == "n-x"
        assert [(c.type, c.status, c.reason) for c in web.status.conditions] == [
            ("PodScheduled", "False", "Unschedulable")
        ]
        version = web.resource_version
        await planner.patch_status(web, condition=condition, nominated_node="n-x")
        web = await client.get(PODS, "web", namespace)
        assert isinstance(web, Pod) and web.resource_version == version
        await planner.patch_status(web, nominated_node="")
        await planner.bind(web, f"n-{namespace}")
        web = await client.get(PODS, "web", namespace)
        assert isinstance(web, Pod)
        assert (web.node_name, web.status.nominated_node_name) == (f"n-{namespace}", "")
        assert [(c.type, c.status) for c in web.status.conditions] == [("PodScheduled", "True")]
        with pytest.raises(ApiError, match="already assigned to node") as no:
            await planner.bind(web, "elsewhere")
        assert no.value.is_conflict
        await planner.evict(web)
        with contextlib.suppress(ApiError):  # a busy server may take it for a pod without a node, and be done
            await client.delete(web, grace_period=0)  # there is no kubelet that would let it go
        await planner.evict(web)
        assert await planner.placed_on(web) is None

    run(plane.kubeconfig, test)


def test_a_pod_of_the_same_name_is_not_taken_for_the_one_meant(plane: ControlPlane, namespace: str) -> None:
    async def test(client: ApiClient) -> None:
        planner = KubePlanner(client, Recorder(client, host="test"))
        old = await client.create(pod("web", namespace))
        await client.delete(old, grace_period=0)
        new = await client.create(pod("web", namespace))
        with pytest.raises(ApiError) as no:
            await planner.bind(old, "n-1")
        assert no.value.is_conflict
        await planner.patch_status(old, nominated_node="n-1")
        await planner.evict(old)
        assert await planner.placed_on(old) is None
        now = await client.get(PODS, "web", namespace)
        assert isinstance(now, Pod)
        assert (now.uid, now.node_name, now.status.nominated_node_name) == (new.uid, "", "")

    run(plane.kubeconfig, test)


def test_kubectl_shows_the_events(plane: ControlPlane, namespace: str) -> None:
    async def test(client: ApiClient) -> None:
        recorder = Recorder(client, host="test")
        web = await client.create(pod("web", namespace))
        for _ in range(3):
            recorder.record(
                web,
                reporter="default-scheduler",
                type="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                note="0/1 nodes are available: " + "x" * 2000,
            )
            await asyncio.sleep(0.2)
        await recorder.close(patience=10)
        assert recorder.dropped == 0
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        (event,) = (await client.get_plain(path))["items"]
        assert event["series"]["count"] == 2, "the third is only counted for now"
        assert len(event["note"]) == 1024

    run(plane.kubeconfig, test)
    kubectl = [f"{binaries.folder()}/kubectl", f"--kubeconfig={plane.kubeconfig}", "-n", namespace]
    shown = subprocess.run(
        [*kubectl, "describe", "pod", "web"], check=True, capture_output=True, text=True
    ).stdout
    (line,) = [line for line in shown.splitlines() if "FailedScheduling" in line]
    assert "Warning" in line and "default-scheduler" in line and "0/1 nodes are available" in line


# Leases


def test_the_lease_goes_from_one_to_the_next(plane: ControlPlane, namespace: str) -> None:
    async def test(client: ApiClient) -> None:
        times: dict[str, Any] = {"lease_duration": 3.0, "renew_deadline": 2.0, "retry_period": 0.2}
        one, two = (
            LeaderElector(client, identity=name, namespace=namespace, name="lock", **times)
            for name in ("one", "two")
        )
        order: list[str] = []
        stop = asyncio.Event()

        async def lead(name: str, until: asyncio.Event) -> None:
            order.append(f"{name} leads")
            await until.wait()
            order.append(f"{name} stops")

        first = asyncio.ensure_future(one.run(lambda: lead("one", stop)))
        await eventually(lambda: one.is_leader)
        never = asyncio.Event()
        second = asyncio.ensure_future(two.run(lambda: lead("two", never)))
        await asyncio.sleep(1)
        assert order == ["one leads"]
        stop.set()
        await first
        await eventually(lambda: "two leads" in order)
        assert order == ["one leads", "one stops", "two leads"]
        lease = await client.get_plain(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lock")
        assert lease["spec"]["holderIdentity"] == "two"
        assert lease["spec"]["leaseTransitions"] == 1
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        lease = await client.get_plain(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lock")
        assert lease["spec"].get("holderIdentity", "") == ""

    run(plane.kubeconfig, test)
