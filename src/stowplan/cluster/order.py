"""The order in which upstream walks the nodes: one of every zone in turn.

Only a search that looks at a part of the nodes can tell the order, so it is made when asked for.
"""

from __future__ import annotations

from stowplan.objects import Labels

_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")


def zone_key(labels: Labels) -> str:
    """Region and zone in one string; the beta labels win, no label at all gives ""."""
    region = labels.get(_REGION[0]) or labels.get(_REGION[1], "")
    zone = labels.get(_ZONE[0]) or labels.get(_ZONE[1], "")
    return f"{region}:\x00:{zone}" if region or zone else ""


class ZoneOrder:
    """Node names by zone, zones in the order in which they were first seen."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}
        self._listed: tuple[str, ...] | None = None

    def copy(self) -> ZoneOrder:
        """For undoing a removal."""
        twin = ZoneOrder()
        twin._zones = {zone: dict(members) for zone, members in self._zones.items()}
        twin._zone_of = dict(self._zone_of)
        twin._listed = self._listed
        return twin

    def add(self, name: str, labels: Labels) -> None:
        self._place(name, zone_key(labels))
        self._listed = None

    def update(self, name: str, labels: Labels) -> None:
        """A changed zone puts the node at the end of the new one, but by itself the list stays as it is,
        as upstream's snapshot does until a node comes or goes."""
        zone = zone_key(labels)
        if zone != self._zone_of[name]:
            self._take_out(name)
            self._place(name, zone)

    def remove(self, name: str) -> None:
        self._take_out(name)
        self._listed = None

    def names(self) -> tuple[str, ...]:
        """Index 0 of every zone, then index 1 of every zone, and so on."""
        if self._listed is None:
            zones = [list(zone) for zone in self._zones.values()]
            longest = max(map(len, zones), default=0)
            self._listed = tuple(zone[i] for i in range(longest) for zone in zones if i < len(zone))
        return self._listed

    def _place(self, name: str, zone: str) -> None:
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone

    def _take_out(self, name: str) -> None:
        zone = self._zone_of.pop(name)
        members = self._zones[zone]
        del members[name]
        if not members:
            del self._zones[zone]
