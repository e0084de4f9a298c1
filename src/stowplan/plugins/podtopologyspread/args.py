"""What PodTopologySpread can be told: the constraints of pods that have none of their own."""

from __future__ import annotations

from typing import Self

import msgspec

from stowplan.framework.args import PluginArgs
from stowplan.objects import TopologySpreadConstraint
from stowplan.objects.names import label_key_problem
from stowplan.plugins.podtopologyspread.rules import HARD, SOFT

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, max_skew=3, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(topology_key=ZONE, max_skew=5, when_unsatisfiable=SOFT),
)


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Which constraints apply to pods that state none: the built-in ones (System) or a list."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"

    def completed(self) -> Self:
        return self if self.defaulting_type else msgspec.structs.replace(self, defaulting_type="System")

    def problems(self) -> list[tuple[str, str]]:
        found = []
        if self.defaulting_type not in ("System", "List"):
            found.append(("defaultingType", f'"{self.defaulting_type}" must be System or List'))
        elif self.defaulting_type == "System" and self.default_constraints:
            found.append(("defaultingType", "must be List when defaultConstraints are given"))
        seen = set()
        for i, constraint in enumerate(self.default_constraints):
            found += [
                (f"defaultConstraints[{i}]{field}", problem) for field, problem in _problems_of(constraint)
            ]
            rule = constraint.topology_key, constraint.when_unsatisfiable
            if rule in seen:
                found.append((f"defaultConstraints[{i}]", f"repeats {{{rule[0]}, {rule[1]}}}"))
            seen.add(rule)
        return found


def _problems_of(constraint: TopologySpreadConstraint) -> list[tuple[str, str]]:
    found = []
    if constraint.max_skew <= 0:
        found.append((".maxSkew", f"{constraint.max_skew} must be greater than zero"))
    if not constraint.topology_key:
        found.append((".topologyKey", "must not be empty"))
    elif problem := label_key_problem(constraint.topology_key):
        found.append((".topologyKey", f'"{constraint.topology_key}" {problem}'))
    if constraint.when_unsatisfiable not in (HARD, SOFT):
        found.append((".whenUnsatisfiable", f'"{constraint.when_unsatisfiable}" must be {HARD} or {SOFT}'))
    if constraint.label_selector is not None:
        found.append((".labelSelector", "must not be given: it follows from what each pod belongs to"))
    return found
