"""The bytes of lists and watches, taken apart into events whose objects are still bytes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stowplan.kube.errors import ApiError, StatusBody
from stowplan.objects import ObjectKind, Record


class WatchEvent(msgspec.Struct, gc=False):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class _Meta(Record, frozen=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Outline(Record, frozen=True):
    """The little that is read of an object that is no use otherwise: bookmarks, and malformed ones."""

    metadata: _Meta = _Meta()

    def key(self, kind: ObjectKind) -> str:
        """The key that an object of this kind has with such metadata."""
        metadata = self.metadata
        in_space = kind.namespaced and metadata.namespace
        return f"{metadata.namespace}/{metadata.name}" if in_space else metadata.name


class _ListMeta(Record, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class RawPage(Record, frozen=True):
    """A page of a list whose items are still bytes."""

    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


decode_event = msgspec.json.Decoder(WatchEvent).decode
decode_page = msgspec.json.Decoder(RawPage).decode
_outline_decoder = msgspec.json.Decoder(Outline)
_status_decoder = msgspec.json.Decoder(StatusBody)


def outline(raw: msgspec.Raw) -> Outline | None:
    """Name and version of an object, if there is that much in it."""
    try:
        return _outline_decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def error_in(raw: msgspec.Raw) -> ApiError:
    """What an ERROR event says."""
    try:
        said = _status_decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        said = StatusBody(message="the watch ended with an error that cannot be read")
    return ApiError(said.code, said.reason, said.message, request="watch")


class Lines:
    """Puts pieces together to lines. Nearly always, a piece is a line."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Takes the next bytes."""
        end = data.find(b"\n")
        if end < 0:
            self._rest.append(data)
            return
        if self._rest:
            self._rest.append(data[: end + 1])
            line = b"".join(self._rest)
            self._rest.clear()
        else:
            line = data if end == len(data) - 1 else data[: end + 1]
        self._on_line(line)
        if end != len(data) - 1:
            *lines, rest = data[end + 1 :].split(b"\n")
            for line in lines:
                self._on_line(line)
            if rest:
                self._rest.append(rest)
