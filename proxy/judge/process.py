"""The judge process: takes exchanges in, examines them, settles them in the store, keeps its metrics; stops in order.

House rules. The composition of the judge's parts, with their lifetimes; it decides nothing about a comparison. Everything taken from the intake is
settled exactly once, whatever happens to it: a fault of ours is an outcome too (``incomparable{judge_error}``), and it is logged without its text.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from pathlib import Path

from proxy import logs
from proxy.config import Config
from proxy.exchange import Exchange
from proxy.judge.engines import Engines
from proxy.judge.examine import Examiner
from proxy.judge.intake import Intake
from proxy.judge.ledger import Ledger
from proxy.judge.request import Unreadable, read_request
from proxy.judge.settle import Policy, settlement
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.record import Settlement
from proxy.traffic import sample

logger = logging.getLogger("parhelion")

_SNAPSHOT_EVERY = 1.0
_PURGE_EVERY = 600.0
_DRAIN = 10.0  # seconds to finish what waits when told to stop; the rest is shed and counted


class Judge:
    """One judge process."""

    def __init__(self, config: Config, incarnation: str) -> None:
        self.config, self.incarnation = config, incarnation
        self.state = Path(config.state)
        self.metrics = JudgeMetrics.resumed(config)
        self.ledger = Ledger(config, self.metrics)
        self.engines = Engines(config, self.ledger, self.metrics)
        self.intake = Intake(
            config.limits.queue_bytes,
            self.ledger.reconcile,
            lambda name: self.ledger.bury(name, self.state / "counters"),
        )
        salt = (config.sampling.salt or "").encode()
        self.examiner = Examiner(
            primary=self.engines.primary,
            shadows=self.engines.shadows,
            policy=Policy(config.records.content, salt),
            rescore=config.primary.logprobs == "rescore",
            capture_bytes=config.limits.capture_bytes,
            noise=self.ledger.noise,
        )
        self.arms = tuple((shadow.name, mode) for shadow in config.shadows for mode in shadow.modes)
        self._undecided: set[str] = set()

    async def run(self, ready: Callable[[], None], stop: asyncio.Event) -> int:
        """Serve until ``stop``; then finish or shed what is left."""
        await self.ledger.reconcile_all(self.state / "counters")
        server = await self.intake.listen(self.state / "judge.sock")
        background = [
            asyncio.ensure_future(part) for part in (self.engines.watch(), self.ledger.run(), self._housekeeping())
        ]
        workers = [asyncio.ensure_future(self._work()) for _ in range(self.config.limits.in_flight)]
        gc.freeze()
        ready()
        try:
            await stop.wait()
        finally:
            server.close()
            self.intake.close()
            await asyncio.wait(workers, timeout=_DRAIN)
            for task in workers:
                task.cancel()  # what it held is shed by its own hand
            await asyncio.gather(*workers, return_exceptions=True)
            await self._shed_rest()
            await self.ledger.close()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self.engines.close()
            self._snapshot()
        return 0

    async def _work(self) -> None:
        while (exchange := await self.intake.take()) is not None:
            if exchange.offered:
                self._undecided.add(exchange.id)
            try:
                await self._one(exchange)
            except asyncio.CancelledError:
                await self._shed(exchange, "shutdown")
                raise
            except Exception:
                logger.exception("judge_error")  # the formatter writes where and what kind, never its text
                await self.ledger.settle(
                    [self._same(exchange, *arm, "incomparable", "judge_error") for arm in self.arms], None
                )
            finally:
                self._undecided.discard(exchange.id)
                self.intake.settled(exchange.incarnation)

    async def _one(self, exchange: Exchange) -> None:
        if exchange.offered and not await self._sampled(exchange):
            return
        self.metrics.mirror_lag(max(0.0, time.time() - exchange.started - exchange.end_us / 1e6))
        for shadow, mode in self.arms:
            self.metrics.in_flight(shadow, mode, 1)
        try:
            examined = await self.examiner.examine(exchange)
        finally:
            for shadow, mode in self.arms:
                self.metrics.in_flight(shadow, mode, -1)
        settlements = [
            settlement(exchange, examined.asked, examined.primary, outcome, examined.context)
            for outcome in examined.outcomes
        ]
        await self.ledger.settle(settlements, examined)

    async def _sampled(self, exchange: Exchange) -> bool:
        """Settle a rule that needs the body; what cannot be read fits no rule and is held against the general rate."""
        try:
            body = read_request(exchange, self.config.limits.capture_bytes).body
        except Unreadable:
            body = {}
        path = exchange.target.partition("?")[0]
        salt = self.config.sampling.salt or ""
        chosen = sample.settle(self.config.sampling, u=exchange.u, salt=salt, path=path, body=body)
        self._undecided.discard(exchange.id)
        await self.ledger.settle([self._same(exchange, "", "", "sampled" if chosen else "not_sampled", "")], None)
        return chosen

    @staticmethod
    def _same(exchange: Exchange, shadow: str, mode: str, outcome: str, reason: str) -> Settlement:
        return Settlement(exchange.incarnation, shadow, mode, outcome, reason)

    async def _shed(self, exchange: Exchange, reason: str) -> None:
        settlements = [self._same(exchange, *arm, "shed", reason) for arm in self.arms]
        if exchange.id in self._undecided:  # counted as sampled: nothing says that it was not
            settlements.append(self._same(exchange, "", "", "sampled", ""))
        await self.ledger.settle(settlements, None)

    async def _shed_rest(self) -> None:
        while len(self.intake) and (exchange := await self.intake.take()) is not None:
            if exchange.offered:
                self._undecided.add(exchange.id)
            await self._shed(exchange, "shutdown")
            self.intake.settled(exchange.incarnation)

    async def _housekeeping(self) -> None:
        purged = time.monotonic()
        while True:
            await asyncio.sleep(_SNAPSHOT_EVERY)
            self._snapshot()
            if time.monotonic() - purged > _PURGE_EVERY:
                purged = time.monotonic()
                await self.ledger.purge()

    def _snapshot(self) -> None:
        self.engines.report()
        try:
            self.metrics.write(self.state)
        except OSError:
            logs.say(logger, logging.WARNING, "snapshot_failed")


async def judge(config: Config, *, incarnation: str, ready: Callable[[], None], stop: asyncio.Event) -> int:
    """Run a judge until ``stop`` is set."""
    return await Judge(config, incarnation).run(ready, stop)
