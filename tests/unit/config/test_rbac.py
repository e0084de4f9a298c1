"""What a scheduler must be allowed, as follows from its profiles."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from stowplan.config.load import Loaded, load_configuration
from stowplan.config.profiles import known_plugins
from stowplan.config.rbac import manifests, sections, to_yaml, unknown_plugins
from stowplan.framework import BindPlugin, CycleState, PostFilterPlugin, PostFilterResult, unschedulable
from stowplan.framework.decision import Rejections
from stowplan.framework.registry import register
from stowplan.objects import Pod
from stowplan.plugins import IN_TREE

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
READ = frozenset({"list", "watch"})

Allowed = dict[tuple[str, str], frozenset[str]]


class Foreign(BindPlugin, PostFilterPlugin):
    """A plugin of another package."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def post_filter(self, state: CycleState, pod: Pod, rejections: Rejections) -> PostFilterResult:
        return PostFilterResult(unschedulable("no"))


def load(body: str = "") -> Loaded:
    registry = {**IN_TREE, **register([Foreign])}
    return load_configuration((HEAD + body).encode(), "config", known_plugins(registry))


def multi_point(*plugins: str) -> str:
    """A profile with just these plugins, and what every profile must have."""
    enabled = ", ".join(f"{{name: {name}}}" for name in ("PrioritySort", "DefaultBinder", *plugins))
    return f"profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: '*'}}], enabled: [{enabled}]}}}}}}]"


def allowed(body: str = "") -> Allowed:
    """The verbs per group and resource in the whole cluster."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for section in sections(load(body).profiles):
        for rule in section.rules:
            verbs.setdefault((rule.group, rule.resource), set()).update(rule.verbs)
    return {resource: frozenset(some) for resource, some in verbs.items()}


def made(body: str = "", name: str = "stowplan", namespace: str = "kube-system") -> list[dict[str, Any]]:
    loaded = load(body)
    return manifests(loaded.configuration, loaded.profiles, name=name, namespace=namespace)


LEAST: Allowed = {
    ("", "nodes"): READ,
    ("", "pods"): READ | {"get"},
    ("", "pods/status"): frozenset({"patch"}),
    ("", "pods/binding"): frozenset({"create"}),
    ("events.k8s.io", "events"): frozenset({"create", "patch"}),
    ("authentication.k8s.io", "tokenreviews"): frozenset({"create"}),
    ("authorization.k8s.io", "subjectaccessreviews"): frozenset({"create"}),
}
ADDED: dict[str, Allowed] = {
    "InterPodAffinity": {("", "namespaces"): READ},
    "DefaultPreemption": {
        ("", "pods"): READ | {"get", "delete"},
        ("policy", "poddisruptionbudgets"): READ,
    },
    "VolumeBinding": {
        ("", "persistentvolumes"): READ | {"patch"},
        ("", "persistentvolumeclaims"): READ | {"patch"},
        ("storage.k8s.io", "storageclasses"): READ,
        ("storage.k8s.io", "csinodes"): READ,
        ("storage.k8s.io", "csidrivers"): READ,
        ("storage.k8s.io", "csistoragecapacities"): READ,
    },
    "VolumeZone": {
        ("", "persistentvolumes"): READ,
        ("", "persistentvolumeclaims"): READ,
        ("storage.k8s.io", "storageclasses"): READ,
    },
    "DynamicResources": {
        ("resource.k8s.io", "resourceclaims"): READ | {"create", "delete", "patch"},
        ("resource.k8s.io", "resourceclaims/status"): frozenset({"patch"}),
        ("resource.k8s.io", "resourceclaims/binding"): frozenset({"patch"}),
        ("resource.k8s.io", "resourceslices"): READ,
        ("resource.k8s.io", "deviceclasses"): READ,
    },
    "TaintToleration": {},
    # of another package: what its points may do through the client that plugins are given
    "Foreign": {("", "pods"): READ | {"get", "delete"}},
}


def test_the_least_profile_needs_the_least() -> None:
    assert allowed(multi_point()) == LEAST


@pytest.mark.parametrize("plugin", sorted(ADDED))
def test_a_plugin_adds_what_it_needs_and_no_more(plugin: str) -> None:
    assert allowed(multi_point(plugin)) == LEAST | ADDED[plugin]


def test_profiles_add_up() -> None:
    one, other = (
        multi_point(name).removeprefix("profiles: [{") for name in ("VolumeZone", "InterPodAffinity")
    )
    both = f"profiles: [{{schedulerName: a, {one.removesuffix(']')}, {{schedulerName: b, {other}"
    assert allowed(both) == LEAST | ADDED["VolumeZone"] | ADDED["InterPodAffinity"]


def test_whoever_may_not_preempt_may_not_delete_pods() -> None:
    body = "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]"
    assert "delete" in allowed()["", "pods"]
    assert "delete" not in allowed(body)["", "pods"]


def test_nothing_is_allowed_that_a_scheduler_never_does() -> None:
    for (_, resource), verbs in allowed().items():
        assert resource not in ("secrets", "configmaps", "serviceaccounts", "pods/exec", "nodes/proxy")
        assert not verbs & {"*", "deletecollection", "impersonate", "escalate", "bind", "update"}
    assert allowed()["", "nodes"] == READ


def test_rules_stand_under_their_reasons() -> None:
    loaded = load(multi_point("VolumeZone", "VolumeBinding"))
    text = to_yaml(made(multi_point("VolumeZone", "VolumeBinding")), loaded.profiles)
    reasons = [line.strip().removeprefix("# ") for line in text.splitlines() if line.strip().startswith("#")]
    assert reasons == [
        "every scheduler",
        "DefaultBinder",
        "VolumeZone, VolumeBinding",
        "VolumeBinding",
        "checking who asks for metrics",
    ]
    assert list(yaml.safe_load_all(text)) == made(multi_point("VolumeZone", "VolumeBinding"))


def test_the_lease_is_one_lease_in_its_namespace() -> None:
    body = "leaderElection: {resourceName: own, resourceNamespace: here}"
    role = next(each for each in made(body) if each["kind"] == "Role")
    assert role["metadata"] == {"name": "stowplan-leader-election", "namespace": "here"}
    create, use = role["rules"]
    assert create["verbs"] == ["create"]
    assert use["resourceNames"] == ["own"] and use["verbs"] == ["get", "update"]


def test_without_leader_election_there_is_no_lease_to_touch() -> None:
    texts = [str(each) for each in made("leaderElection: {leaderElect: false}")]
    assert not any("leases" in text or "leader-election" in text for text in texts)


def test_a_shadow_may_only_look() -> None:
    loaded = load()
    rules = [rule for section in sections(loaded.profiles, shadow=True) for rule in section.rules]
    assert {rule.verbs for rule in rules} == {("list", "watch"), ("create",)}
    assert {rule.resource for rule in rules if rule.verbs == ("create",)} == {
        "tokenreviews",
        "subjectaccessreviews",
    }
    watched = {key for key, verbs in allowed().items() if verbs >= READ}
    assert {(rule.group, rule.resource) for rule in rules if rule.verbs == ("list", "watch")} == watched
    made = manifests(loaded.configuration, loaded.profiles, name="s", namespace="n", shadow=True)
    assert "leases" not in str(made)
    assert list(yaml.safe_load_all(to_yaml(made, loaded.profiles, shadow=True))) == made


def test_everything_is_bound_to_the_service_account() -> None:
    bindings = [each for each in made(name="mine", namespace="here") if each["kind"].endswith("Binding")]
    account = {"kind": "ServiceAccount", "name": "mine", "namespace": "here"}
    assert len(bindings) == 3
    assert all(each["subjects"] == [account] for each in bindings)
    roles = [(each["kind"], each["metadata"]["name"]) for each in made(name="mine", namespace="here")]
    for each in bindings:
        role = (each["roleRef"]["kind"], each["roleRef"]["name"])
        assert role in roles or role == ("Role", "extension-apiserver-authentication-reader")


def test_plugins_of_other_packages_are_named() -> None:
    assert unknown_plugins(load().profiles) == ()
    assert unknown_plugins(load(multi_point("Foreign")).profiles) == ("Foreign",)
