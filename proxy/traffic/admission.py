"""At the head: count the request, and decide whether a copy of it is taken.

House rules. Every accepted head is counted here exactly once, as not sampled, sampled or offered, in one step: received = not_sampled +
sampled + offered holds whenever a reader looks between two events. Only a POST to an inference route can be sampled.
"""

from __future__ import annotations

import time
from random import random

from proxy.counters import Slot
from proxy.traffic.capture import Capture
from proxy.traffic.known_head import KnownHead
from proxy.traffic.request_head import RequestHead
from proxy.traffic.sample import Standing, decide, fingerprint, position
from proxy.traffic.service import Service, Snapshot

KEY_HASH = b"x-parhelion-key"
# Members of an enumeration cost a lookup each time they are named.
_RECEIVED, _NOT_SAMPLED, _TAKEN, _OFFERED = map(int, (Slot.RECEIVED, Slot.NOT_SAMPLED, Slot.SAMPLED, Slot.OFFERED))
_NOT, _SAMPLED = Standing.NOT_SAMPLED, Standing.SAMPLED


def admit(service: Service, snapshot: Snapshot, known: KnownHead, clock: float) -> Capture | None:
    """Count a request and open its capture; None when it is not sampled. ``clock`` is the monotonic clock now."""
    counters = service.counters
    slots = counters.slots
    slots[_RECEIVED] += 1
    head = known.head
    if not snapshot.samples or not known.route.mirrored or head.method != b"POST":
        slots[_NOT_SAMPLED] += 1
        return None
    if head.skip:
        counters.add(Slot.OPTED_OUT)
        slots[_NOT_SAMPLED] += 1
        return None
    sampling = snapshot.sampling
    value = None if snapshot.key_header is None else _header(head, snapshot.key_header)
    if value is not None:
        u: float | None = position(snapshot.salt, value)
    elif sampling.by == "conversation":
        u = None
    else:
        # It has no key to share with others: any even draw is as good as the hash of a number that nobody else knows.
        u = random()  # noqa: S311 - nobody can learn, let alone choose, what is drawn
    if u is not None and not sampling.rules:
        standing = _SAMPLED if u < sampling.rate else _NOT
    else:
        standing = decide(sampling, u, head.path.decode("latin-1"))
    if standing is _NOT:
        slots[_NOT_SAMPLED] += 1
        return None
    slots[_TAKEN if standing is _SAMPLED else _OFFERED] += 1
    return Capture(
        counters, service.handoff, known, standing, service.incarnation, service.number(), u,
        snapshot.capture_bytes, time.time(), clock, service.open_exchanges,
        None if value is None else (KEY_HASH, fingerprint(snapshot.salt, value)),
    )  # fmt: skip


def _header(head: RequestHead, name: bytes) -> bytes | None:
    for lower, _, value in head.fields:
        if lower == name:
            return value.strip(b" \t")
    return None
