"""Where the primary is: the base URL of the configuration, taken apart once.

House rules. The destination comes from the configuration alone; nothing in a request ever reaches this file. Raises ``ValueError`` with the
URL's fault in words (never its user part, which may be a secret).
"""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

from msgspec import Struct

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(Struct, frozen=True):
    """``host`` is the Host header's value; ``prefix`` the base path put before every target, without a trailing slash."""

    address: str
    port: int
    tls: bool
    host: bytes
    prefix: bytes


def read_origin(url: str) -> Origin:
    """Take a base URL apart. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("an engine's URL must start with http:// or https://")
    if not parts.hostname:
        raise ValueError("an engine's URL must name a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an engine's URL must not hold credentials; use api_key")
    if parts.query or parts.fragment:
        raise ValueError("an engine's URL must end with its path: no query, no fragment")
    if not parts.path.isascii() or any(character <= " " for character in parts.path):
        raise ValueError("an engine's URL must be percent-encoded")
    port = parts.port
    address = parts.hostname.encode("idna").decode() if not parts.hostname.isascii() else parts.hostname
    host = f"[{address}]" if ":" in address else address
    if port is not None and port != _DEFAULT_PORTS[parts.scheme]:
        host = f"{host}:{port}"
    return Origin(
        address,
        port or _DEFAULT_PORTS[parts.scheme],
        parts.scheme == "https",
        host.encode(),
        parts.path.rstrip("/").encode(),
    )


def tls_context(origin: Origin) -> ssl.SSLContext | None:
    """Make a verifying client context that speaks HTTP/1.1, None for plain HTTP."""
    if not origin.tls:
        return None
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
