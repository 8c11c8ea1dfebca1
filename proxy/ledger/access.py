"""Who may read what on the admin port.

On loopback reading is open, and the Host must name this machine, so that a page in a browser cannot read it through a name of its own that
points here (DNS rebinding). Elsewhere a token is needed for all but ``admin_public``: as a bearer token from programs, as the session that it opened from
browsers. Health is always open: it says nothing but yes or no. A change needs either everywhere, on loopback too, and must not come from a page of another
origin; with a session, which a browser sends by itself, it must name its origin. House rules. Pure; a token is compared in constant time and never appears in an answer.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address

from msgspec import Struct

#: Open to everybody, whatever is configured.
OPEN = frozenset({"healthz", "readyz"})
#: Every name that ``admin_public`` may hold; ``records`` includes each single record.
PAGES = OPEN | {"index", "metrics", "report", "records", "mirror", "engines", "openapi"}


class Rules(Struct, frozen=True):
    """How the port is guarded. ``public``: the names of pages readable without a token."""

    loopback: bool
    token: str | None
    public: frozenset[str]


class Refusal(Struct, frozen=True):
    """Why a request is not answered; ``status`` 401 asks for a token."""

    status: int
    text: str


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be this machine: 127.0.0.0/8, ::1, localhost and names below it (RFC 6761)."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        name = host.rstrip(".").lower()
        return name == "localhost" or name.endswith(".localhost")


def refusal(
    rules: Rules, page: str, host: str, authorization: str | None, *, signed_in: bool = False
) -> Refusal | None:
    """None when ``page`` may be read. ``host``: the Host header's value; ``authorization``: that header's, None without one."""
    if page in OPEN:
        return None
    if rules.loopback:
        return door_refusal(rules, host)
    if page in rules.public:
        return None
    if not rules.token:
        return Refusal(
            403, "admin_token is not set: set it to read this over the network, or name the page in admin_public"
        )
    return None if signed_in else _token_refusal(rules.token, authorization)


def door_refusal(rules: Rules, host: str) -> Refusal | None:
    """None when this port answers to that name: on loopback to loopback names only, else to any."""
    if not rules.loopback or is_loopback(hostname(host)):
        return None
    return Refusal(421, "this port answers for loopback names only: ask for it as 127.0.0.1 or localhost")


def origin_refusal(host: str, origin: str | None) -> Refusal | None:
    """None unless a browser says that a page of another origin asks."""
    if origin is None or origin.partition("://")[2].lower() == host.lower():
        return None
    return Refusal(403, "a page of another origin may change nothing here")


def change_refusal(
    rules: Rules, host: str, origin: str | None, authorization: str | None, *, signed_in: bool = False
) -> Refusal | None:
    """None when something may be changed. ``origin``: the Origin header's value, None without one, as from anything but a browser."""
    refused = door_refusal(rules, host) or origin_refusal(host, origin)
    if refused is not None:
        return refused
    if not rules.token:
        return Refusal(
            403,
            "changes need admin_token, and none is configured: export PARHELION_ADMIN_TOKEN, set admin_token: ${PARHELION_ADMIN_TOKEN}, and restart",
        )
    if signed_in and origin is not None:
        return None
    return _token_refusal(rules.token, authorization)


def is_token(token: str, given: str) -> bool:
    """Whether what was given is the token, in constant time."""
    return hmac.compare_digest(_bytes(given.strip()), _bytes(token))


def _token_refusal(token: str, authorization: str | None) -> Refusal | None:
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() == "bearer" and is_token(token, given):
        return None
    return Refusal(401, "a bearer token is needed: send Authorization: Bearer <admin_token>")


def hostname(host: str) -> str:
    """Return a Host header's value without its port and brackets."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name if rest[:1] in ("", ":") else host
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _bytes(text: str) -> bytes:
    # Header bytes that are no UTF-8 arrive as lone surrogates.
    return text.encode("utf-8", "surrogatepass")
