"""Who may read what on the admin port.

On loopback reading is open, and the Host must name this machine, so that a page in a browser cannot read it through a name of its own that
points here (DNS rebinding). Elsewhere a bearer token is needed for all but ``admin_public``. Health is always open: it says nothing but yes
or no. A change needs the token everywhere, on loopback too, and must not come from a page of another origin. House rules. Pure; a token is compared in constant time and never appears in an answer.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address

from msgspec import Struct

#: Open to everybody, whatever is configured.
OPEN = frozenset({"healthz", "readyz"})
#: Every name that ``admin_public`` may hold; ``records`` includes each single record.
PAGES = OPEN | {"index", "metrics", "report", "records", "mirror"}


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


def refusal(rules: Rules, page: str, host: str, authorization: str | None) -> Refusal | None:
    """None when ``page`` may be read. ``host``: the Host header's value; ``authorization``: that header's, None without one."""
    if page in OPEN:
        return None
    if rules.loopback:
        if is_loopback(hostname(host)):
            return None
        return Refusal(421, "this port answers for loopback names only: ask for it as 127.0.0.1 or localhost")
    if page in rules.public:
        return None
    if not rules.token:
        return Refusal(
            403, "admin_token is not set: set it to read this over the network, or name the page in admin_public"
        )
    return _token_refusal(rules.token, authorization)


def change_refusal(rules: Rules, host: str, origin: str | None, authorization: str | None) -> Refusal | None:
    """None when something may be changed. ``origin``: the Origin header's value, None without one, as from anything but a browser."""
    if rules.loopback and not is_loopback(hostname(host)):
        return Refusal(421, "this port answers for loopback names only: ask for it as 127.0.0.1 or localhost")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return Refusal(403, "a page of another origin may change nothing here")
    if not rules.token:
        return Refusal(
            403,
            "changes need admin_token, and none is configured: export PARHELION_ADMIN_TOKEN, set admin_token: ${PARHELION_ADMIN_TOKEN}, and restart",
        )
    return _token_refusal(rules.token, authorization)


def _token_refusal(token: str, authorization: str | None) -> Refusal | None:
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(_bytes(given.strip()), _bytes(token)):
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
