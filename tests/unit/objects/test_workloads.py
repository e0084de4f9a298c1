from stowplan.objects import Lease, PodDisruptionBudget, PriorityClass, ReplicationController, Service
from stowplan.testing.builders import make_object


def test_budget_knows_who_is_already_gone() -> None:
    budget = make_object(
        PodDisruptionBudget,
        "web",
        spec={"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
        status={"disruptionsAllowed": 2, "disruptedPods": {"web-0": "2024-05-01T10:00:00Z"}},
    )
    assert budget.spec.selector is not None
    assert budget.status.disruptions_allowed == 2
    assert budget.status.disrupted_pods == {"web-0": 1714557600.0}


def test_map_selectors() -> None:
    assert make_object(Service, "web", spec={"selector": {"app": "web"}}).spec.selector == {"app": "web"}
    assert make_object(ReplicationController, "web", spec={"selector": {"a": "b"}}).spec.selector == {
        "a": "b"
    }


def test_priority_class_and_lease() -> None:
    high = make_object(PriorityClass, "high", value=1000, globalDefault=True, preemptionPolicy="Never")
    assert (high.value, high.global_default, high.preemption_policy) == (1000, True, "Never")
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2024-05-01T10:00:00.500000Z"}
    lease = make_object(Lease, "leader", spec=spec)
    assert (lease.spec.holder_identity, lease.spec.renew_time) == ("me", 1714557600.5)
