"""The judge process: takes exchanges in, examines them, settles them in the store, keeps its metrics; stops in order.

House rules. The composition of the judge's parts, with their lifetimes; it decides nothing about a comparison. Everything taken from the intake is
settled exactly once, whatever happens to it.
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
from proxy.judge.cpu import Meter
from proxy.judge.desk import Desk
from proxy.judge.engines import Engines
from proxy.judge.examine import Examiner
from proxy.judge.intake import Intake
from proxy.judge.ledger import Ledger
from proxy.judge.pipeline import Pipeline
from proxy.judge.settle import Policy
from proxy.ledger.judge_metrics import JudgeMetrics

logger = logging.getLogger("parhelion")

_SNAPSHOT_EVERY = 1.0
_PURGE_EVERY, _PURGE_SOONEST = 600.0, 5.0
_COMPARED_LATER = 4  # this part of limits.queue_bytes holds what has been mirrored and waits to be compared, the rest what waits to be mirrored
_COLLECT = (
    50_000,
    20,
    100,
)  # what is read and compared makes no cycles, and many objects: looking for some at every 700 costs a tenth of it
_DRAIN = 10.0  # seconds to finish what waits when told to stop; the rest is shed and counted


class Judge:
    """One judge process. Raises StoreError when there is no store to write to."""

    def __init__(self, config: Config, incarnation: str) -> None:
        self.config, self.incarnation = config, incarnation
        self.state = Path(config.state)
        self.metrics = JudgeMetrics.resumed(config)
        self.cpu = Meter()
        self.ledger = Ledger(config, self.metrics)
        self.engines = Engines(config, self.ledger, self.metrics)
        compared_later = config.limits.queue_bytes // _COMPARED_LATER
        self.intake = Intake(
            config.limits.queue_bytes - compared_later,
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
        desk = Desk(config, self.examiner, self.metrics)
        at_once = config.limits.in_flight
        self.pipeline = Pipeline(self.intake, desk, self.ledger, at_once=at_once, room=compared_later)
        self._held_said = 0

    async def run(self, ready: Callable[[], None], stop: asyncio.Event) -> int:
        """Serve until ``stop``; then finish or shed what is left."""
        await self.ledger.reconcile_all(self.state / "counters")
        server = await self.intake.listen(self.state / "judge.sock")
        parts = (self.engines.watch(), self.ledger.run(), self.pipeline.compare(), self._housekeeping())
        background = [asyncio.ensure_future(part) for part in parts]
        gc.freeze()
        gc.set_threshold(*_COLLECT)
        ready()
        try:
            await stop.wait()
        finally:
            server.close()
            self.intake.close()
            await self.pipeline.finish(_DRAIN)
            await self.ledger.close()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self.engines.close()
            self._snapshot()
        return 0

    async def _housekeeping(self) -> None:
        purged = time.monotonic()
        while True:
            await asyncio.sleep(_SNAPSHOT_EVERY)
            self._snapshot()
            await self.ledger.look()
            since = time.monotonic() - purged
            if since > _PURGE_EVERY or (since > _PURGE_SOONEST and await self.ledger.too_large()):
                await self.ledger.purge()
                purged = time.monotonic()

    def _snapshot(self) -> None:
        self.engines.report()
        held = self.pipeline.held
        for shadow in self.config.shadows:
            for mode in shadow.modes:
                self.metrics.in_flight(shadow.name, mode, held - self._held_said)
        self._held_said = held
        for stage, seconds in self.cpu.since_last().items():
            self.metrics.cpu(stage, seconds)
        try:
            self.metrics.write(self.state)
        except OSError:
            logs.say(logger, logging.WARNING, "snapshot_failed")
