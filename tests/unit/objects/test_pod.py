import pytest

from stowplan.objects import HostPort, Pod
from stowplan.objects.pod import NO_STATUS
from stowplan.testing.builders import PodBuilder, make_pod


def test_pods_of_one_shape_share_their_spec_and_what_follows_from_it() -> None:
    first = make_pod("a").requests(cpu="1").on_node("n1").build()
    second = make_pod("b").requests(cpu="1").on_node("n2").build()
    assert first.spec is second.spec
    assert first.spec.request is second.spec.request
    assert (first.node_name, second.node_name) == ("n1", "n2")


def test_what_a_spec_asks_for_cannot_be_changed_for_all_its_pods() -> None:
    spec = make_pod("p").requests(cpu=1).build().spec
    for amounts in (spec.request, spec.scoring_request, spec.nonzero_request):
        with pytest.raises(TypeError):
            amounts["cpu"] = 0  # type: ignore[index]


def test_pods_that_a_scheduler_can_tell_apart_have_different_shapes() -> None:
    base = make_pod("a").build()
    for other in (
        make_pod("b").requests(cpu="1"),
        make_pod("b").priority(1),
        make_pod("b").tolerate("x"),
        make_pod("b").pvc("data"),
        make_pod("b").spec(nodeSelector={}),
    ):
        assert other.build().spec is not base.spec


@pytest.mark.parametrize(
    "other",
    [
        make_pod("b").priority(1),
        make_pod("b").tolerate("x"),
        make_pod("b").pvc("data"),
        make_pod("b").spec(nodeSelector={}),
        make_pod("b").spec(hostNetwork=True),
        make_pod("b").spec(overhead={"cpu": "1"}),
        make_pod("b").spec(resources={"requests": {"cpu": "1"}}),
        make_pod("b").container().container(),
        make_pod("b").container(init=True),
        make_pod("b").image("other"),
        make_pod("b").host_port(80),
        make_pod("b").requests(cpu="1"),
        make_pod("b").requests({"example.com/gpu": 1}),
        make_pod("b").prefer_nodes(5, "disk", "ssd"),
        make_pod("b").spread("zone", app="a"),
        make_pod("b").pod_affinity("zone", app="a"),
    ],
)
def test_pods_are_of_different_templates_by_anything_but_amounts(other: PodBuilder) -> None:
    assert other.build().spec.template != make_pod("a").build().spec.template


def test_amounts_of_resources_do_not_make_a_template() -> None:
    def pod(cpu: str) -> PodBuilder:
        builder = make_pod("a").container(resources={"requests": {"cpu": cpu}, "limits": {"cpu": cpu}})
        builder.container(init=True, resources={"requests": {"cpu": cpu}})
        return builder.spec(overhead={"cpu": cpu}, resources={"requests": {"cpu": cpu}})

    one, two = pod("1").build().spec, pod("2").build().spec
    assert one is not two
    assert one.template == two.template


def test_volumes_that_do_not_matter_do_not_make_a_shape() -> None:
    first = make_pod("a").volume("kube-api-access-x1", projected={"sources": []}).pvc("data").build()
    second = make_pod("b").volume("kube-api-access-x2", projected={"sources": []}).pvc("data").build()
    assert first.spec is second.spec
    assert [volume.name for volume in first.spec.volumes] == ["data"]


def test_absent_and_empty_node_selector_differ() -> None:
    assert make_pod("a").build().spec.node_selector is None
    assert make_pod("a").spec(nodeSelector={}).build().spec.node_selector == {}


def test_priority_that_is_absent_is_zero() -> None:
    assert make_pod("a").build().spec.priority == 0
    assert make_pod("a").spec(priority=None).build().spec.priority == 0


def test_host_ports_of_containers_and_sidecars_with_defaults_filled_in() -> None:
    pod = (
        make_pod("a")
        .container(ports=[{"containerPort": 1}, {"containerPort": 80, "hostPort": 80}])
        .container(init=True, ports=[{"hostPort": 81}])
        .container(
            init=True,
            restartPolicy="Always",
            ports=[{"hostPort": 82, "protocol": "UDP", "hostIP": "10.0.0.1"}],
        )
        .build()
    )
    assert pod.spec.host_ports == (("TCP", "0.0.0.0", 80), ("UDP", "10.0.0.1", 82))


@pytest.mark.parametrize(
    ("other", "conflict"),
    [
        (HostPort("TCP", "10.0.0.1", 80), True),
        (HostPort("TCP", "0.0.0.0", 80), True),
        (HostPort("TCP", "10.0.0.2", 80), False),
        (HostPort("UDP", "10.0.0.1", 80), False),
        (HostPort("TCP", "10.0.0.1", 81), False),
    ],
)
def test_ports_conflict_on_the_same_or_every_address(other: HostPort, conflict: bool) -> None:
    port = HostPort("TCP", "10.0.0.1", 80)
    assert port.conflicts(other) is conflict
    assert other.conflicts(port) is conflict


def test_required_node_affinity_joins_selector_and_terms() -> None:
    spec = (
        (
            make_pod("a")
            .node_selector(disk="ssd")
            .require_nodes("zone", "a", "b")
            .require_nodes("gpu", operator="Exists")
        )
        .build()
        .spec
    )
    assert spec.required_node_affinity is spec.required_node_affinity
    demands = spec.required_node_affinity
    assert demands.matches({"disk": "ssd", "zone": "b"}, "n")
    assert demands.matches({"disk": "ssd", "gpu": ""}, "n")
    assert not demands.matches({"disk": "ssd", "zone": "c"}, "n")
    assert not demands.matches({"zone": "b"}, "n")


def test_pod_without_demands_fits_any_node() -> None:
    assert make_pod("a").build().spec.required_node_affinity.matches({}, "n")


def test_status_that_is_absent_costs_nothing() -> None:
    pod = make_pod("a")
    del pod.manifest["status"]
    assert pod.build().status is NO_STATUS
    assert Pod().status is NO_STATUS
