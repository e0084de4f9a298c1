"""What can go wrong between here and the API server, told apart by what it means for the request."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from stowplan.objects import Record


class ApiError(Exception):
    """The API server did not do what was asked; `status` is the HTTP status, 0 when there was no answer."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        request: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.request = request
        """Method and path, for people."""
        self.retry_after = retry_after
        """Seconds after which the server wants to be asked again, within reason."""

    def __str__(self) -> str:
        return f"{self.request}: {self.message}" if self.request else self.message

    @property
    def is_not_found(self) -> bool:
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def is_conflict(self) -> bool:
        return self.status == HTTPStatus.CONFLICT and self.reason != "AlreadyExists"

    @property
    def already_exists(self) -> bool:
        return self.status == HTTPStatus.CONFLICT and self.reason == "AlreadyExists"

    @property
    def is_forbidden(self) -> bool:
        return self.status == HTTPStatus.FORBIDDEN

    @property
    def is_expired(self) -> bool:
        """The version or the continue token is too old: list again."""
        return self.status == HTTPStatus.GONE

    @property
    def is_passing(self) -> bool:
        """Whether the same request may well succeed in a moment."""
        return self.status in _PASSING


class UnreachableError(ApiError):
    """No connection could be made: the server has not seen the request, so it can be sent again."""

    def __init__(self, message: str, *, request: str = "") -> None:
        super().__init__(0, "Unreachable", message, request=request)


class UncertainError(ApiError):
    """The request was sent and no whole answer came: it may or may not have been carried out.

    Whoever asked for a change has to look at the object before asking again.
    """

    def __init__(self, message: str, *, request: str = "") -> None:
        super().__init__(0, "Uncertain", message, request=request)


class CredentialsError(ApiError):
    """There are no credentials to make a request with: an exec plugin failed, a token file is gone."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Credentials", message)


_PASSING = frozenset({0, 408, 429, 500, 502, 503, 504})


class _Details(Record, frozen=True):
    retry_after_seconds: int = 0


class StatusBody(Record, frozen=True):
    """The object that the API server answers with when it says no."""

    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


_decoder = msgspec.json.Decoder(StatusBody)
_MOST_TEXT = 400
_LONGEST_PAUSE = 60.0
"""Whoever asks for more than this is not believed: nothing here may sleep for a day."""


def status_error(status: int, body: Any, *, request: str = "", retry_after: str = "") -> ApiError:
    """What an answer of 400 or more says; not all of them come from the API server itself."""
    try:
        said = _decoder.decode(body)
    except (msgspec.MsgspecError, ValueError):
        said = StatusBody()
    message, reason = said.message, said.reason
    if not message:
        text = bytes(body[: 4 * _MOST_TEXT]).decode(errors="replace").strip()
        message = " ".join(text.split())[:_MOST_TEXT] or _phrase(status)
    seconds = _seconds(retry_after)
    if seconds is None and said.details is not None and said.details.retry_after_seconds > 0:
        seconds = float(said.details.retry_after_seconds)
    if seconds is not None:
        seconds = min(seconds, _LONGEST_PAUSE)
    return ApiError(status, reason or _phrase(status), message, request=request, retry_after=seconds)


def _seconds(retry_after: str) -> float | None:
    """The header's seconds. The form with a date is not used by API servers."""
    return float(retry_after) if retry_after.isdecimal() else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"HTTP status {status}"
