"""Follows all pods in a thread of its own, straight from the API server and past every proxy."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.control_plane.plane import ControlPlane
from tests.soak.ledger import Ledger

PODS = "/api/v1/namespaces/default/pods"
_PAUSE = 0.3
_QUIET = 20.0


def trust_in(plane: ControlPlane) -> ssl.SSLContext:
    """Trusts this control plane's API server and no other."""
    return ssl.create_default_context(cafile=str(plane.certificate_authority))


class Watcher:
    """Keeps a ledger up to date, whatever happens to the API server."""

    def __init__(
        self, plane: ControlPlane, ledger: Ledger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.ledger = ledger
        self._plane = plane
        self._clock = clock
        self._version = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._connection: http.client.HTTPSConnection | None = None
        self._trust = trust_in(plane)
        self.failure: BaseException | None = None
        """What ended the watcher against its will: then nothing it says is worth anything."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._follow()
                except (OSError, http.client.HTTPException, ValueError, _ExpiredError):
                    self._stopping.wait(_PAUSE)
        except BaseException as problem:  # noqa: BLE001 -- a checker that is gone must not look like one that agrees
            self.failure = problem

    def _follow(self) -> None:
        if not self._version:
            listed = self._call(f"{PODS}?limit=0")
            self.ledger.relisted(listed.get("items") or [], self._clock())
            self._version = listed["metadata"]["resourceVersion"]
        self._watch()

    def _open(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(
            urlsplit(self._plane.server).netloc, timeout=_QUIET, context=self._trust
        )
        self._connection = connection
        return connection

    def _request(self, connection: http.client.HTTPSConnection, path: str) -> http.client.HTTPResponse:
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._plane.token}"})
        response = connection.getresponse()
        if response.status == 410:
            self._version = ""
            raise _ExpiredError
        if response.status != 200:
            raise OSError(f"{path}: {response.status} {response.read(200)!r}")
        return response

    def _call(self, path: str) -> dict[str, Any]:
        with contextlib.closing(self._open()) as connection:
            answer: dict[str, Any] = json.loads(self._request(connection, path).read())
            return answer

    def _watch(self) -> None:
        path = f"{PODS}?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
        with contextlib.closing(self._open()) as connection:
            response = self._request(connection, path)
            while line := response.readline():
                event = msgspec.json.decode(line)
                kind, obj = event["type"], event["object"]
                if kind == "ERROR":
                    self._version = ""
                    raise _ExpiredError
                self._version = obj["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    self.ledger.observe(kind, obj, self._clock())


class _ExpiredError(Exception):
    """The place of the watch is not known any more."""
