"""The one thing that the client needs of HTTP: an answer to a request, and a body that goes on and on.

The implementation is chosen by measurement (`benchmarks/transport.py`), and can be another one tomorrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

DataSink = Callable[[bytes], None]
"""Takes the next bytes of a body. Called straight from the event loop: it must not wait."""


class Answer:
    """What came back."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def header(self, name: str) -> str:
        """The value of a header, empty when there is none. Names are compared without case."""
        wanted = name.lower().encode()
        for each, value in self.headers:
            if each.lower() == wanted:
                return value.decode("latin-1")
        return ""


class Transport(Protocol):
    """Requests to one server.

    Raises UnreachableError when the request cannot have been seen by the server, UncertainError when it was
    sent and the answer did not come (whole, in time). Nothing is ever sent twice.
    """

    async def send(
        self, method: str, target: str, headers: bytes, body: bytes = b"", *, timeout: float
    ) -> Answer:
        """One request, one answer. `headers` are complete lines, each with its line end."""
        ...

    async def stream(
        self,
        method: str,
        target: str,
        headers: bytes,
        on_data: DataSink,
        *,
        timeout: float,
        idle_timeout: float,
    ) -> Answer:
        """Feeds the body of a 200 to `on_data` as it comes, and returns at its end. Any other answer is
        returned with its body. `timeout` is for the head, `idle_timeout` for the time between two pieces."""
        ...

    def renew(self) -> None:
        """Has later requests use new connections: who we are has changed."""
        ...

    async def close(self) -> None:
        """Closes all connections; what is under way fails."""
        ...
