"""Host ports in use: sparse, because few pods ask for one."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.objects import HostPort

ANY_ADDRESS = "0.0.0.0"


class PortIndex:
    """For each protocol and port, the rows where it is taken and by which addresses."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def add(self, ports: Iterable[HostPort], row: int, amount: int) -> None:
        """A pod with these ports came to a row (amount 1) or left it (-1)."""
        for protocol, address, port in ports:
            rows = self._taken.setdefault((protocol, port), {})
            addresses = rows.setdefault(row, {})
            addresses[address] = addresses.get(address, 0) + amount
            if not addresses[address]:
                del addresses[address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._taken[protocol, port]

    def rows_in_conflict(self, wanted: HostPort) -> Iterable[int]:
        """The rows where the port is taken by the same address, or by or for every address."""
        rows = self._taken.get((wanted.protocol, wanted.port), {})
        return [row for row in rows if self.conflicts(wanted, row)]

    def conflicts(self, wanted: HostPort, row: int) -> bool:
        addresses = self._taken.get((wanted.protocol, wanted.port), {}).get(row)
        if not addresses:
            return False
        return wanted.ip == ANY_ADDRESS or ANY_ADDRESS in addresses or wanted.ip in addresses
