"""The few HTTP calls a test makes itself: standard library only, so no test depends on what it tests."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_MERGE_PATCH = "application/merge-patch+json"


class ApiError(Exception):
    """The API server said no."""

    def __init__(self, method: str, path: str, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{method} {path}: {status} {body.get('reason', '')}: {body.get('message', body)}")
        self.status = status
        self.body = body


class Client:
    """One keep-alive connection. Not for several threads at once."""

    def __init__(self, server: str, certificate_authority: Path, token: str) -> None:
        url = urlsplit(server)
        trust = ssl.create_default_context(cafile=str(certificate_authority))
        self._connection = http.client.HTTPSConnection(url.netloc, timeout=30, context=trust)
        self._token = token

    def call(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        self._connection.request(method, path, payload, headers)
        response = self._connection.getresponse()
        text = response.read()
        try:
            answer: dict[str, Any] = json.loads(text)
        except ValueError:
            answer = {"message": text.decode(errors="replace")}
        if response.status >= 400:
            raise ApiError(method, path, response.status, answer)
        return answer

    def get(self, path: str) -> dict[str, Any]:
        return self.call("GET", path)

    def create(self, collection: str, item: dict[str, Any]) -> dict[str, Any]:
        return self.call("POST", collection, item)

    def patch(self, path: str, change: dict[str, Any]) -> dict[str, Any]:
        return self.call("PATCH", path, change, content_type=_MERGE_PATCH)

    def delete(self, path: str) -> dict[str, Any]:
        return self.call("DELETE", path)

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """What a scheduler does last: the pod runs on that node from now on."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        self.create(f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", binding)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
