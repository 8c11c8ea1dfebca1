"""At the head: count the request, and decide whether a copy of it is taken.

House rules. Every accepted head is counted here exactly once, as not sampled, sampled or offered, in one step: received = not_sampled +
sampled + offered holds whenever a reader looks between two events. Only a POST to an inference route can be sampled.
"""

from __future__ import annotations

import time

from proxy.counters import Slot
from proxy.traffic.capture import Capture
from proxy.traffic.request_head import RequestHead
from proxy.traffic.routes import Route
from proxy.traffic.sample import Standing, decide, fingerprint, position
from proxy.traffic.service import Service, Snapshot

KEY_HASH = b"x-parhelion-key"


def admit(service: Service, snapshot: Snapshot, head: RequestHead, route: Route, clock: float) -> Capture | None:
    """Count a request and open its capture; None when it is not sampled. ``clock`` is the monotonic clock now."""
    counters = service.counters
    counters.add(Slot.RECEIVED)
    if not route.mirrored or head.method != b"POST" or not snapshot.samples:
        counters.add(Slot.NOT_SAMPLED)
        return None
    if head.skip:
        counters.add(Slot.OPTED_OUT)
        counters.add(Slot.NOT_SAMPLED)
        return None
    sampling = snapshot.sampling
    number = service.number()
    value = _header(head, snapshot.key_header)
    # A request without the sampling header has no key to share with others: it stands for itself.
    u = None if sampling.by == "conversation" else position(snapshot.salt, number.encode() if value is None else value)
    standing = decide(sampling, u, head.path.decode("latin-1"))
    match standing:
        case Standing.NOT_SAMPLED:
            counters.add(Slot.NOT_SAMPLED)
            return None
        case Standing.SAMPLED:
            counters.add(Slot.SAMPLED)
        case Standing.OFFERED:
            counters.add(Slot.OFFERED)
    return Capture(
        counters, service.handoff, head, standing, incarnation=service.incarnation, number=number, u=u,
        limit=snapshot.capture_bytes, started=time.time(), zero=clock, in_flight=service.open_exchanges,
        key_hash=None if value is None else (KEY_HASH, fingerprint(snapshot.salt, value)),
    )  # fmt: skip


def _header(head: RequestHead, name: bytes | None) -> bytes | None:
    if name is None:
        return None
    for lower, _, value in head.fields:
        if lower == name:
            return value.strip(b" \t")
    return None
