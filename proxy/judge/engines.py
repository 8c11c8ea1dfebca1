"""The engines behind the configured names: found out about at start, and again when they were away.

House rules. An engine that cannot be reached is tried again with growing pauses and meanwhile sheds as ``shadow_unready``; it never keeps the judge
or the live path from starting. What is learned of an engine is written into its arm once, whole.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from engines.capabilities import remedy
from engines.dialect import DialectError
from engines.probe import Probe, probe
from engines.registry import detect, dialect
from proxy import logs
from proxy.compare.comparison import Mode
from proxy.config import Config, Declared
from proxy.judge.arm import Arm
from proxy.judge.case import ShadowArm
from proxy.judge.guard import Guard
from proxy.judge.ledger import Ledger
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.store_error import StoreError
from proxy.traffic.shadow_client import Client

logger = logging.getLogger("parhelion")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 4.0  # an engine that is up again is used within 5 s
_SAY_AGAIN = 60.0  # how often the log repeats the same complaint about an engine
_BUDGETS = "token_budgets"  # key in the store's state: what each shadow has spent of its day
_PRIMARY_AT_ONCE = 2  # what we ask of the primary beside its clients must stay a trickle
_PRIMARY_DEADLINE = 120.0
_ASKED_BY_PROBE = 20  # an engine that gave so many may give more; one that gave fewer has said its most


class Engines:
    """Every arm of a replica."""

    def __init__(self, config: Config, ledger: Ledger, metrics: JudgeMetrics) -> None:
        self.config, self.ledger, self.metrics = config, ledger, metrics
        self.primary = self._arm(
            "primary", config.primary.url, config.primary.api_key, _PRIMARY_DEADLINE, _PRIMARY_AT_ONCE, Guard()
        )
        self.shadows = tuple(
            ShadowArm(
                self._arm(
                    one.name,
                    one.url,
                    one.api_key,
                    one.deadline,
                    config.limits.in_flight,
                    Guard(config.limits.requests_per_second, config.limits.tokens_per_day),
                ),
                one.role,
                tuple(Mode(mode) for mode in one.modes),
                one.models,
                one.top_logprobs,
            )
            for one in config.shadows
        )
        self._resume(ledger.keep(_BUDGETS, self._budgets))

    def _budgets(self) -> bytes:
        """Each shadow's day: when its window began (Unix seconds) and the tokens spent in it."""
        now, clock = time.time(), time.monotonic()
        days = {shadow.arm.name: shadow.arm.guard.day(clock) for shadow in self.shadows}
        return msgspec.msgpack.encode({name: (now - ago, tokens) for name, (ago, tokens) in days.items()})

    def _resume(self, kept: bytes | None) -> None:
        if kept is None:
            return
        now, clock = time.time(), time.monotonic()
        days = msgspec.msgpack.decode(kept, type=dict[str, tuple[float, int]])
        for shadow in self.shadows:
            if (day := days.get(shadow.arm.name)) is not None:
                shadow.arm.guard.resume(clock, now - day[0], day[1])

    def _arm(self, name: str, url: str, key: str | None, deadline: float, at_once: int, guard: Guard) -> Arm:
        timeout, cap = self.config.timeouts.connect, self.config.limits.capture_bytes
        client = Client(url, api_key=key, connections=at_once, connect_timeout=timeout, max_bytes=cap)
        return Arm(name, client, deadline, asyncio.Semaphore(at_once), reply_bytes=cap, guard=guard)

    async def watch(self) -> None:
        """Find out about every engine, each at its own pace."""
        primary = self.config.primary
        todo = [self._until_known(self.primary, primary.url, primary.engine, None, primary.declare)]
        for shadow, one in zip(self.shadows, self.config.shadows, strict=True):
            model = next(iter(one.models.values()), None)
            todo.append(self._until_known(shadow.arm, one.url, one.engine, model, one.declare))
        await asyncio.gather(*todo)

    async def _until_known(self, arm: Arm, url: str, name: str, model: str | None, declared: Declared) -> None:
        pause = _FIRST_PAUSE
        said, said_at = "", 0.0
        while True:
            try:
                fetch = arm.fetch(f"probe-{arm.name}")
                found = dialect(name if name != "auto" else await detect(fetch))
                known = await probe(fetch, found, model, declared)
            except DialectError as error:
                if error.reason != said or time.monotonic() - said_at > _SAY_AGAIN:
                    said, said_at = error.reason, time.monotonic()
                    mend = remedy(said)
                    logs.say(
                        logger, logging.WARNING, "engine_not_ready", arm=arm.name, url=url, reason=said, remedy=mend
                    )
            except Exception:  # whatever an engine makes of us, it is tried again and never forgotten
                logger.exception("probe_failed")
            else:
                self._settle(arm, known)
                arm.dialect = found
                logs.say(logger, logging.INFO, "engine_known", arm=arm.name, engine=found.name, footprint=arm.footprint)
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _settle(self, arm: Arm, known: Probe) -> None:
        """Write what was found into the arm, the store and the metrics."""
        arm.defaults = known.defaults
        top = known.capabilities.top_logprobs
        arm.alternatives = top if 0 < top < _ASKED_BY_PROBE else None
        arm.forced = known.capabilities.forced
        arm.logprob_mode = known.capabilities.logprob_mode
        arm.dtype = known.footprint.value("dtype")
        arm.footprint = known.footprint.id
        try:
            self.ledger.store.put_footprint(arm.footprint, known.footprint.as_json(), time.time())
        except StoreError as error:
            logs.say(logger, logging.ERROR, "store_failed", reason=error.reason, settlements=0)
        self.metrics.footprint(arm.name, known.footprint.as_json())

    def report(self) -> None:
        """Bring the metrics up to date with what the arms have counted."""
        for shadow in self.shadows:
            self.metrics.circuit(shadow.arm.name, is_open=shadow.arm.guard.circuit_open)
            for kind, count in shadow.arm.errors.items():
                self.metrics.shadow_error(shadow.arm.name, kind, count)
            self.metrics.shadow_tokens(shadow.arm.name, **shadow.arm.tokens)
            shadow.arm.errors.clear()
            shadow.arm.tokens.clear()

    async def close(self) -> None:
        """Close every connection."""
        for arm in (self.primary, *(shadow.arm for shadow in self.shadows)):
            await arm.client.aclose()
