"""What the configuration says of one engine, and the arm made from it: anew, or from the one of the configuration before.

House rules. Connects nowhere. An engine that is still the same one keeps what is known of it, its circuit and what it has spent; where only limits
have changed, it keeps all but its connections.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from msgspec import Struct

from proxy.config import Config, Declared, Shadow
from proxy.judge.arm import Arm
from proxy.judge.guard import Guard
from proxy.traffic.shadow_client import Client

PRIMARY = "primary"
_PRIMARY_AT_ONCE = 2  # what we ask of the primary beside its clients must stay a trickle
_PRIMARY_DEADLINE = 120.0


class Who(Struct, frozen=True):
    """Which engine it is. ``model``: the name to probe it with, None for its first."""

    url: str
    api_key: str | None
    engine: str
    model: str | None
    declared: Declared


class Spec(Struct, frozen=True):
    """One engine: who it is, and within what limits it is asked (seconds, bytes)."""

    name: str
    who: Who
    deadline: float
    at_once: int
    connect: float
    reply_bytes: int
    rate: float | None = None
    tokens_per_day: int | None = None

    def client(self) -> Client:
        """A client for it."""
        return Client(
            self.who.url,
            api_key=self.who.api_key,
            connections=self.at_once,
            connect_timeout=self.connect,
            max_bytes=self.reply_bytes,
        )

    def arm(self, before: tuple[Spec, Arm] | None) -> Arm:
        """Make its arm. ``before``: that of the same name under the configuration before."""
        if before is None:
            return self._new(Guard(self.rate, self.tokens_per_day))
        old, arm = before
        if old.who != self.who:
            guard = Guard(self.rate, self.tokens_per_day)
            now = time.monotonic()
            guard.resume(now, *arm.guard.day(now))  # another engine, but it is the same budget
            return self._new(guard)
        arm.guard.rate, arm.guard.tokens_per_day = self.rate, self.tokens_per_day
        if replaceable(old) == replaceable(self):
            return arm
        slots = asyncio.Semaphore(self.at_once)
        return replace(arm, client=self.client(), deadline=self.deadline, slots=slots, reply_bytes=self.reply_bytes)

    def _new(self, guard: Guard) -> Arm:
        slots = asyncio.Semaphore(self.at_once)
        return Arm(self.name, self.client(), self.deadline, slots, reply_bytes=self.reply_bytes, guard=guard)


def replaceable(spec: Spec) -> tuple[float, ...]:
    """What connections and slots are made with."""
    return spec.deadline, spec.at_once, spec.connect, spec.reply_bytes


def of_primary(config: Config) -> Spec:
    """The primary, as the judge may ask it."""
    one = config.primary
    who = Who(one.url, one.api_key, one.engine, None, one.declare)
    return Spec(PRIMARY, who, _PRIMARY_DEADLINE, _PRIMARY_AT_ONCE, config.timeouts.connect, config.limits.capture_bytes)


def of_shadow(config: Config, one: Shadow) -> Spec:
    """One shadow."""
    limits = config.limits
    return Spec(
        one.name,
        Who(one.url, one.api_key, one.engine, next(iter(one.models.values()), None), one.declare),
        one.deadline,
        limits.in_flight,
        config.timeouts.connect,
        limits.capture_bytes,
        limits.requests_per_second,
        limits.tokens_per_day,
    )
