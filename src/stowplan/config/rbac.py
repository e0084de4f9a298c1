"""The least a scheduler must be allowed, following from its profiles: every rule names who needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from stowplan.config.reading import ALWAYS_READ, OWN_PLUGINS, kinds_read
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.config.writing import yaml_text
from stowplan.framework.profile import ProfilePlan
from stowplan.objects import KubeObject, kind_of_record

Manifest: TypeAlias = dict[str, Any]

SYSTEM_NAMESPACE: Final = "kube-system"
EVERY_SCHEDULER: Final = "every scheduler"
REQUEST_CHECKS: Final = "checking who asks for metrics"

_RBAC: Final = "rbac.authorization.k8s.io"
_RESOURCE: Final = "resource.k8s.io"
_WATCHED: Final = ("list", "watch")


class Rule(NamedTuple):
    """What may be done to one resource."""

    group: str
    resource: str
    verbs: tuple[str, ...]


class Section(NamedTuple):
    """Rules with the same reason."""

    reason: str
    rules: tuple[Rule, ...]


_ALWAYS: Final = (
    # a single pod is looked up when nobody knows what became of its binding
    Rule("", "pods", ("get",)),
    Rule("", "pods/status", ("patch",)),
    Rule("events.k8s.io", "events", ("create", "patch")),
)
_CHECKS: Final = (
    Rule("authentication.k8s.io", "tokenreviews", ("create",)),
    Rule("authorization.k8s.io", "subjectaccessreviews", ("create",)),
)
_WRITES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "VolumeBinding": (
        Rule("", "persistentvolumeclaims", ("patch",)),
        Rule("", "persistentvolumes", ("patch",)),
    ),
    "DynamicResources": (
        # claims for extended resources are the scheduler's own to make and to delete
        Rule(_RESOURCE, "resourceclaims", ("create", "delete", "patch")),
        Rule(_RESOURCE, "resourceclaims/status", ("patch",)),
        # asked for by the API server besides, from 1.36 on, where an allocation is written
        Rule(_RESOURCE, "resourceclaims/binding", ("patch",)),
    ),
}
_BINDING: Final = Rule("", "pods/binding", ("create",))
_EVICTION: Final = Rule("", "pods", ("delete",))
_NEVER_EVICT: Final = frozenset({"DynamicResources"})


def sections(profiles: Sequence[ProfilePlan], *, shadow: bool = False) -> tuple[Section, ...]:
    """The rules for the whole cluster, by reason; for a `shadow` none that lets it change anything."""
    reasons: dict[Rule, dict[str, None]] = {}
    for rule, reason in _reasoned(profiles):
        if not shadow or rule.verbs == _WATCHED or rule in _CHECKS:
            reasons.setdefault(rule, {})[reason] = None
    by_reason: dict[str, list[Rule]] = {}
    for rule, some in reasons.items():
        by_reason.setdefault(", ".join(some), []).append(rule)
    return tuple(Section(reason, tuple(rules)) for reason, rules in by_reason.items())


def _reasoned(profiles: Sequence[ProfilePlan]) -> Iterator[tuple[Rule, str]]:
    for kind in ALWAYS_READ:
        yield _watching(kind), EVERY_SCHEDULER
    for rule in _ALWAYS:
        yield rule, EVERY_SCHEDULER
    for profile in profiles:
        for plugin in profile.points.get("bind", ()):
            yield _BINDING, plugin
        for plugin in profile.points.get("postFilter", ()):
            if plugin not in _NEVER_EVICT:
                yield _EVICTION, plugin
    for kind, plugins in kinds_read(profiles).items():
        for plugin in plugins:
            yield _watching(kind), plugin
    for profile in profiles:
        for plugin in profile.plugin_names:
            for rule in _WRITES.get(plugin, ()):
                yield rule, plugin
    for rule in _CHECKS:
        yield rule, REQUEST_CHECKS


def _watching(record: type[KubeObject]) -> Rule:
    kind = kind_of_record(record)
    return Rule(kind.group, kind.plural, _WATCHED)


def unknown_plugins(profiles: Iterable[ProfilePlan]) -> tuple[str, ...]:
    """Plugins of other packages: what they need besides is not known here."""
    names = (name for profile in profiles for name in profile.plugin_names)
    return tuple(dict.fromkeys(name for name in names if name not in OWN_PLUGINS))


def manifests(
    configuration: KubeSchedulerConfiguration,
    profiles: Sequence[ProfilePlan],
    *,
    name: str,
    namespace: str,
    shadow: bool = False,
) -> list[Manifest]:
    """Roles, and their bindings to the service account `name` in `namespace`."""
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    everywhere = [rule for section in sections(profiles, shadow=shadow) for rule in _compact(section.rules)]
    made = [
        _object("ClusterRole", name, rules=everywhere),
        _binding("ClusterRoleBinding", name, "", ("ClusterRole", name), account),
    ]
    election = configuration.leader_election
    if election.leader_elect and not shadow:
        role, where = f"{name}-leader-election", election.resource_namespace
        made += [
            _object("Role", role, where, rules=_lease_rules(election.resource_name)),
            _binding("RoleBinding", role, where, ("Role", role), account),
        ]
    # The API server keeps there which certificates it shows when it forwards the requests of others.
    reader = ("Role", "extension-apiserver-authentication-reader")
    made.append(_binding("RoleBinding", f"{name}-authentication", SYSTEM_NAMESPACE, reader, account))
    return made


def to_yaml(made: Sequence[Manifest], profiles: Sequence[ProfilePlan], *, shadow: bool = False) -> str:
    """The manifests as a file, in which the rules of the cluster role carry their reasons."""
    reasons = [
        section.reason for section in sections(profiles, shadow=shadow) for _ in _compact(section.rules)
    ]
    texts = [
        _commented(yaml_text(manifest), reasons) if manifest["kind"] == "ClusterRole" else yaml_text(manifest)
        for manifest in made
    ]
    return "---\n".join(texts)


def _commented(text: str, reasons: Sequence[str]) -> str:
    lines: list[str] = []
    number = 0
    for line in text.splitlines():
        if line.lstrip().startswith("- apiGroups:"):
            if number == 0 or reasons[number] != reasons[number - 1]:
                lines.append(f"  # {reasons[number]}")
            number += 1
        lines.append(line)
    return "\n".join(lines) + "\n"


def _compact(rules: Iterable[Rule]) -> list[Manifest]:
    """Rules that differ in nothing but the resource become one."""
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for rule in rules:
        resources.setdefault((rule.group, rule.verbs), []).append(rule.resource)
    return [
        {"apiGroups": [group], "resources": names, "verbs": list(verbs)}
        for (group, verbs), names in resources.items()
    ]


def _lease_rules(lease: str) -> list[Manifest]:
    """Creating cannot be limited to a name: a lease that is not there yet has none."""
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return [rule | {"verbs": ["create"]}, rule | {"resourceNames": [lease], "verbs": ["get", "update"]}]


def _binding(
    kind: str, name: str, namespace: str, role: tuple[str, str], account: Mapping[str, str]
) -> Manifest:
    reference = {"apiGroup": _RBAC, "kind": role[0], "name": role[1]}
    return _object(kind, name, namespace, roleRef=reference, subjects=[dict(account)])


def _object(kind: str, name: str, namespace: str = "", **fields: Any) -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, **fields}
