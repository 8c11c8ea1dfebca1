"""One sampled exchange as the live path captured it: bytes with arrival times, nothing interpreted.

House rules. This is the only thing that crosses from a traffic process to a judge, over a local socket or a queue, so it is
versioned and self-contained. It never holds a credential: the live path copies an allow-list of headers.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

WIRE_VERSION = 1


class Ended(StrEnum):
    """How the primary's reply ended, as seen on the live path."""

    COMPLETE = "complete"
    CLIENT_GONE = "client_gone"
    PRIMARY_CUT = "primary_cut"
    NO_REPLY = "no_reply"
    CAPTURE_CUT = "capture_cut"


class Exchange(Struct, frozen=True, array_like=True):
    """One client request and the primary's reply.

    ``incarnation`` names the life of the traffic process that took it (its counters file); ``started`` is Unix time in
    seconds; ``u`` the sampling position in [0, 1) (None when the key needs the body); ``pieces`` are the reply's body
    bytes after transfer decoding with the microseconds since ``started`` at which each arrived. ``target`` is the raw
    path, without its query. ``injected`` says that the primary was asked for logprobs on our account (``request_body`` is still
    what the client sent, ``pieces`` what the primary answered before stripping). ``offered`` says that it was counted as
    offered, not as sampled: a sampling rule or key needs the body, and the judge settles it. ``request_whole`` is False where the exchange
    ended before its request did (an early refusal, a client that left), so that ``request_body`` is a part of one. Header names are lower-cased;
    ``x-parhelion-key`` stands for the value of the sampling header as a keyed hash.
    """

    id: str
    incarnation: str
    started: float
    u: float | None
    method: str
    target: str
    request_headers: tuple[tuple[bytes, bytes], ...]
    request_body: bytes
    status: int
    response_headers: tuple[tuple[bytes, bytes], ...]
    pieces: tuple[tuple[int, bytes], ...]
    head_us: int
    end_us: int
    ended: Ended
    injected: bool = False
    in_flight: int = 0
    version: int = WIRE_VERSION
    offered: bool = False
    request_whole: bool = True
