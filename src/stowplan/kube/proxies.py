"""The proxy that the environment names (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), by the rules of Go programs."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_in(environ: Mapping[str, str], server: str) -> str:
    """The proxy's URL for a server; empty for none."""
    parts = urlsplit(server)
    variable = f"{parts.scheme}_proxy"
    proxy = environ.get(variable.upper()) or environ.get(variable) or ""
    if not proxy or not parts.hostname or _is_near(parts.hostname):
        return ""
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    if any(_excepts(each.strip().lower(), parts.hostname, port) for each in exceptions.split(",")):
        return ""
    return proxy


def _is_near(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _excepts(exception: str, host: str, port: str) -> bool:
    if not exception:
        return False
    if exception == "*":
        return True
    address = _address(host)
    if "/" in exception:
        try:
            return address is not None and address in ipaddress.ip_network(exception, strict=False)
        except ValueError:
            return False
    if _address(exception) is None and ":" in exception:
        exception, _, only_port = exception.rpartition(":")
        if only_port != port:
            return False
        exception = exception.strip("[]")
    if address is not None:
        return address == _address(exception)
    domain = exception.removeprefix("*").removeprefix(".")
    return host.endswith("." + domain) or (host == domain and not exception.startswith("."))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
