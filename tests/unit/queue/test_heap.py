"""Pods come out in order, whatever was taken out in between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan.queue.heap import PodHeap
from stowplan.queue.queued import QueuedPod
from tests.unit.queue.rig import pod

PODS = [pod(f"p{number}") for number in range(8)]


def by_attempts() -> PodHeap:
    return PodHeap(lambda queued: queued.attempts)


@given(
    st.lists(
        st.tuples(st.sampled_from(("push", "pop", "remove", "refresh")), st.integers(0, 7), st.integers(0, 3))
    )
)
def test_it_behaves_like_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    heap = by_attempts()
    model: list[QueuedPod] = []
    for step, which, rank in steps:
        key = PODS[which].key
        held = next((queued for queued in model if queued.key == key), None)
        if step == "push" or (step == "refresh" and held is not None and held.attempts != rank):
            queued = held if held is not None and step == "refresh" else QueuedPod(PODS[which], 0.0)
            queued.attempts = rank
            model = [other for other in model if other.key != key] + [queued]
            heap.push(queued) if step == "push" else heap.refresh(queued)
        elif step == "remove":
            assert heap.remove(key) is held
            model = [other for other in model if other.key != key]
        elif step == "pop":
            first = min(model, key=lambda queued: queued.attempts, default=None)
            assert heap.peek() is first
            assert heap.pop() is first
            model = [other for other in model if other is not first]
        assert len(heap) == len(model)
        assert {queued.key for queued in heap} == {queued.key for queued in model}
        assert (key in heap) == any(queued.key == key for queued in model)


def test_taken_out_pods_are_not_kept_in_memory() -> None:
    heap = by_attempts()
    for number in range(10_000):
        heap.push(QueuedPod(pod("same"), float(number)))
    assert len(heap) == 1
    assert len(heap._entries) < 200
