"""Who has shown the token: a browser's session as a signed value, and how many wrong tries an address has.

House rules. Pure but for one random key that dies with the process. The value in the cookie says nothing of the token and is worth nothing after its
hour, after a sign-out, after the token was changed, or to another process. Compared in constant time; bounded memory.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict, deque
from ipaddress import IPv6Address, IPv6Network, ip_address

#: A working day: the same as GitLab's and Grafana's shorter limits of an idle session; a sign-in is one paste of the token.
LIFETIME = 8 * 3600.0
#: Wrong tries of one address within ``WINDOW`` seconds, after which nothing from there is looked at (OWASP: 5 to 10).
MOST_TRIES = 10
WINDOW = 60.0
_REMEMBERED = 4096


class Sessions:
    """Makes and checks the values; ``token`` is the one in force at that moment, ``now`` Unix seconds."""

    COOKIE = "parhelion_session"

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._ended: OrderedDict[str, float] = OrderedDict()

    def begin(self, token: str, now: float) -> str:
        """Return a value that is good for ``LIFETIME`` seconds."""
        body = f"{secrets.token_urlsafe(12)}.{int(now + LIFETIME)}"
        return f"{body}.{self._mark(body, token)}"

    def good(self, value: str, token: str | None, now: float) -> bool:
        """Whether a value stands for somebody who has shown ``token``."""
        body, _, mark = value.rpartition(".")
        if not token or not value.isascii() or not hmac.compare_digest(mark, self._mark(body, token)):
            return False
        return now < float(body.rpartition(".")[2]) and body not in self._ended

    def end(self, value: str, token: str | None, now: float) -> None:
        """Make a value worthless."""
        if not self.good(value, token, now):  # strangers may not fill the list
            return
        body = value.rpartition(".")[0]
        self._ended[body] = float(body.rpartition(".")[2])
        while self._ended and (len(self._ended) > _REMEMBERED or next(iter(self._ended.values())) < now):
            self._ended.popitem(last=False)

    def _mark(self, body: str, token: str) -> str:
        return hmac.digest(self._key, f"{body}\n{token}".encode("utf-8", "surrogatepass"), "sha256").hex()


class Tries:
    """Wrong tries by address, of the last ``WINDOW`` seconds; IPv6 by network, for one machine has all addresses of a /64 (RFC 6177)."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, address: str, now: float) -> float:
        """Seconds until a try from there is looked at again; 0: now."""
        wrong = self._wrong.get(_neighbours(address))
        if wrong is None or len(wrong) < MOST_TRIES:
            return 0.0
        return max(0.0, wrong[0] + WINDOW - now)

    def wrong(self, address: str, now: float) -> None:
        """Note a wrong try."""
        key = _neighbours(address)
        self._wrong.setdefault(key, deque(maxlen=MOST_TRIES)).append(now)
        self._wrong.move_to_end(key)
        while len(self._wrong) > _REMEMBERED:
            self._wrong.popitem(last=False)


def _neighbours(address: str) -> str:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Network((int(found) >> 64 << 64, 64)))
    return address
