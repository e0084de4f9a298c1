"""The account of a decision says where the pod goes, also where scores do not settle that."""

from __future__ import annotations

from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.engine.trace import as_data
from stowplan.framework import CycleState, PostFilterPlugin, PostFilterResult, Rejections, unschedulable
from stowplan.framework.trace import PreemptionTrace
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.deciding import cluster_of, scheduler


def nodes(count: int) -> Cluster:
    return cluster_of(*(make_node(f"n{i}").capacity(cpu=4 + i, memory="8Gi", pods=20) for i in range(count)))


def nominated(node: str) -> Pod:
    return make_pod("p").requests(cpu=1).status(nominatedNodeName=node).build()


def agree(core: Scheduler, pod: Pod) -> tuple[str, ...]:
    """Where the account says that the pod goes, which must be where it goes."""
    trace = core.explain(pod)
    assert core.decide(pod).node_name in trace.goes_to
    return trace.goes_to


def test_a_pod_goes_to_the_node_that_it_is_nominated_to_whatever_the_scores() -> None:
    core = Scheduler(nodes(3))
    trace = core.explain(nominated("n0"))
    assert (trace.best, trace.promised) == (("n2",), "n0")
    assert agree(core, nominated("n0")) == ("n0",)
    assert as_data(trace)["promised"] == "n0"


def test_a_promise_counts_that_only_the_scheduler_knows_of() -> None:
    cluster = nodes(3)
    cluster.nominations.add(make_pod("p").requests(cpu=1).build(), "n1")
    assert agree(Scheduler(cluster), make_pod("p").requests(cpu=1).build()) == ("n1",)


def test_a_promised_node_that_is_full_by_now_does_not_count() -> None:
    cluster = nodes(3)
    cluster.add(make_pod("other").requests(cpu=4).on_node("n0").build())
    core = Scheduler(cluster)
    assert core.explain(nominated("n0")).promised == core.explain(nominated("gone")).promised == ""
    assert agree(core, nominated("n0")) == ("n2",)


def test_a_plugin_that_cannot_account_for_its_preemption_is_named() -> None:
    class MakesRoom(PostFilterPlugin):
        def post_filter(self, state: CycleState, pod: Pod, rejections: Rejections) -> PostFilterResult:
            return PostFilterResult(unschedulable("no crane"))

        def trace_preemption(self, state: CycleState, pod: Pod, rejections: Rejections) -> PreemptionTrace:
            raise RuntimeError("no crane")

    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {postFilter: {enabled: [{name: MakesRoom}], disabled: [{name: "*"}]}}}]
"""
    core = scheduler(nodes(1), plugins=[MakesRoom], config=config)
    trace = core.explain(make_pod("p").requests(cpu=99).build())
    assert trace.error == 'running PostFilter plugin "MakesRoom": RuntimeError: no crane'


def test_a_search_that_looks_at_a_part_of_the_nodes_is_said_to_do_so() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 10
"""
    core = scheduler(nodes(150), config=config)
    assert core.explain(make_pod("anywhere").build()).search_ends_after == 100
    assert core.explain(make_pod("few").requests(cpu=120).build()).search_ends_after == 0
    assert scheduler(nodes(150)).explain(make_pod("anywhere").build()).search_ends_after == 0
