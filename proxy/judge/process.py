"""The judge process: takes exchanges in, examines them, settles them in the store, keeps its metrics; stops in order.

House rules. The composition of the judge's parts, with their lifetimes; it decides nothing about a comparison. Everything taken from the intake is
settled exactly once, whatever happens to it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path

from proxy import logs
from proxy.config import Config
from proxy.counters import Slot
from proxy.judge.cpu import Meter
from proxy.judge.desk import Desk
from proxy.judge.engines import Engines
from proxy.judge.examine import Examiner
from proxy.judge.intake import Intake
from proxy.judge.ledger import Ledger
from proxy.judge.pipeline import Pipeline
from proxy.judge.probing import Probing
from proxy.judge.settle import Policy
from proxy.judge.spool import Spool
from proxy.judge.trials import Trials
from proxy.ledger import totals
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.tallies import Scope
from proxy.switch import ON, Switch
from proxy.traffic.heap import Heap

logger = logging.getLogger("parhelion")

_SNAPSHOT_EVERY = 1.0
_PURGE_EVERY, _PURGE_SOONEST = 600.0, 5.0
#: This part of limits.queue_bytes holds what has been mirrored and waits to be compared, and the rest what waits to be mirrored and what is under way,
#: of which the latter may be so much.
_COMPARED_LATER, _UNDER_WAY = 4, 2
_COLLECT = (
    50_000,
    20,
    100,
)  # what is read and compared makes no cycles, and many objects: looking for some at every 700 costs a tenth of it
_SWITCH = 0.0005  # seconds the event loop may wait while a large exchange is compared beside it; Python's own is 5 ms
_DRAIN = 10.0  # seconds to finish what waits when told to stop; the rest is shed and counted
_LATER = 0.1
_ENGINES, _SHADOWS = 15.0, 3.0  # seconds that exchanges wait for the primary to be known, then for the others


class Judge:
    """One judge process; ``reconfigure`` may be called at any time. Raises StoreError when there is no store to write to."""

    def __init__(self, config: Config, incarnation: str, switch: Switch = ON) -> None:
        self.config, self.incarnation = config, incarnation
        self.state = Path(config.state)
        self.metrics = JudgeMetrics.resumed(config)
        self.cpu = Meter()
        self.spool = Spool(config.spool)
        self.ledger = Ledger(config, self.metrics, self.spool)
        self._kept = self.ledger.take_up()
        self.engines = Engines(config, self.ledger, self.metrics)
        queue, under_way, room = _bounds(config)
        self.intake = Intake(
            queue,
            self.state / "counters",
            self.ledger.took,
            self.ledger.reconcile,
            lambda name: self.ledger.bury(name, self.state / "counters"),
        )
        self.desk = self._desk()
        self.pipeline = Pipeline(
            self.intake, self.desk, self.ledger, at_once=config.limits.in_flight, under_way=under_way, room=room
        )
        self._heap = Heap()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop: asyncio.Event | None = None
        self._broken = False
        self._watching: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._turn(switch)

    def _desk(self) -> Desk:
        config = self.config
        salt = (config.sampling.salt or "").encode()
        examiner = Examiner(
            primary=self.engines.primary,
            shadows=self.engines.shadows,
            policy=Policy(config.records.content, salt),
            rescore=config.primary.logprobs == "rescore",
            capture_bytes=config.limits.capture_bytes,
            noise=self.ledger.noise,
        )
        return Desk(config, examiner, Trials(self.engines.primary, self.engines.shadows, salt))

    async def run(self, ready: Callable[[], None], stop: asyncio.Event) -> int:
        """Serve until ``stop``; then finish what is left, or leave it on disk, or shed it."""
        await self.ledger.reconcile_all(self.state / "counters")
        self.pipeline.holding = True
        server = await self.intake.listen(self.state / "judge.sock")
        for part in (self.ledger.run(), self.pipeline.compare(), self._housekeeping()):
            self._keep(part)
        self._watch()
        self._keep(self._begin())
        taking_up = self._keep(self._take_up())
        gc.freeze()
        gc.set_threshold(*_COLLECT)
        sys.setswitchinterval(_SWITCH)
        ready()
        self._stop = stop
        if self._broken:
            stop.set()
        try:
            await stop.wait()
        finally:
            server.close()
            self.intake.close()
            taking_up.cancel()
            await self.pipeline.finish(_DRAIN)
            await self.ledger.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.spool.close()
            await self.engines.close()
            self._snapshot()
        return 1 if self._broken else 0

    def reconfigure(self, config: Config, switch: Switch) -> None:
        """Work by another configuration or switch from the next exchange on; what is begun ends as it began, unless it was switched off.

        Raises ValueError for a URL that cannot be used, and then goes on as before.
        """
        if config != self.config:
            engines = Engines(config, self.ledger, self.metrics, self.engines)
            old, self.engines, self.config = (self.desk, self.engines), engines, config
            self.metrics.configure(config)
            self.ledger.configure(config)
            self.intake.capacity, under_way, room = _bounds(config)
            self.desk = self._desk()
            self.pipeline.configure(self.desk, at_once=config.limits.in_flight, under_way=under_way, room=room)
            self._watch()
            self._keep(self._retire(*old))
        self._turn(switch)

    def _turn(self, switch: Switch) -> None:
        self.pipeline.enable(switch.enabled)
        self.engines.turn(switch)

    async def _begin(self) -> None:
        """Take nothing until the engines are known, some seconds after a start: what comes before that could not be compared, and waits.

        But for ever for none, and for a shadow not long once the primary is known, nor for one that has failed to answer: its absence is to be counted.
        """
        until = time.monotonic() + _ENGINES
        while self.engines.primary.dialect is None and time.monotonic() < until:  # noqa: ASYNC110 - as below
            await asyncio.sleep(_LATER)
        until = time.monotonic() + _SHADOWS
        while not self.engines.tried() and time.monotonic() < until:  # noqa: ASYNC110 - as below
            await asyncio.sleep(_LATER)
        self.pipeline.holding = False
        self.pipeline.pull()

    async def _take_up(self) -> None:
        """Queue what earlier lives have left on disk, as there is room; what comes now does not wait for it.

        It waits for the engines to be known, but for ever for none: it could not be compared sooner, and they were there when it came.
        """
        until = time.monotonic() + _ENGINES
        while self._kept and not self.engines.known() and time.monotonic() < until:  # noqa: ASYNC110 - as below
            await asyncio.sleep(_LATER)
        for kept in self._kept:
            while self.intake.crowded:  # noqa: ASYNC110 - in no hurry
                await asyncio.sleep(_LATER)
            exchange = self.spool.read(kept)
            if exchange is None:
                self.ledger.dropped(kept)
            else:
                self.intake.put_back(exchange)
            self.metrics.spool_replayed()
        self._kept = []

    async def _retire(self, desk: Desk, engines: Engines) -> None:
        """When all that was begun under an earlier configuration has ended: account for what it ended without, and let its engines go."""
        while self.pipeline.busy(desk):  # noqa: ASYNC110 - a change of configuration is rare, and in no hurry
            await asyncio.sleep(_LATER)
        await self.ledger.adopt()
        await engines.close(keeping=self.engines)

    def _watch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self._watching = self._keep(self.engines.watch())
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        if self.config.probes is not None:
            arms = self.engines.with_models()
            self._probing = self._keep(Probing(self.config.probes, self.state, arms, self.ledger, self.metrics).run())

    def _keep(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Stop when a part of the judge has failed: half a judge would go on for ever doing nothing, a new one takes up what is in the spool."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # Where it failed, without its words: they may quote what a client sent.
            where = "".join(traceback.format_tb(error.__traceback__))
            logs.say(logger, logging.ERROR, "judge_broken", error=type(error).__name__, where=where)
            self._broken = True
            if self._stop is not None:
                self._stop.set()

    async def _housekeeping(self) -> None:
        purged = time.monotonic()
        while True:
            await asyncio.sleep(_SNAPSHOT_EVERY)
            try:
                purged = await self._look_after(purged)
            except Exception:  # what fails once must not end it: without it nothing is shown or purged any more
                logger.exception("housekeeping_failed")

    async def _look_after(self, purged: float) -> float:
        """Everything that is due; returns when the store was purged last (monotonic seconds)."""
        self._snapshot()
        self._heap.holds(self.intake.held)
        await self.ledger.look(*self._lost())
        await self.ledger.tidy()
        await self.ledger.bury_strays(self.state / "counters", self.intake.connected())
        since = time.monotonic() - purged
        if since > _PURGE_EVERY or (since > _PURGE_SOONEST and await self.ledger.too_large()):
            await self.ledger.purge()
            return time.monotonic()
        return purged

    def _lost(self) -> tuple[dict[str, int], dict[str, Scope]]:
        """Return what the traffic processes have shed, by reason, and of which stacks it would have told."""
        scopes = {} if self.desk.trials is None else self.desk.trials.scopes()
        try:
            with totals.read(self.state / "counters") as sums:
                return {"queue": sums[Slot.SHED_QUEUE], "capture": sums[Slot.SHED_CAPTURE]}, scopes
        except OSError:
            return {}, scopes

    def _snapshot(self) -> None:
        self.engines.report()
        self.ledger.evidence.report()
        for shadow in self.config.shadows:
            for mode in shadow.modes:
                self.metrics.in_flight(shadow.name, mode, self.pipeline.held)
        self.metrics.spool(self.spool.size, self.spool.waiting(), self.spool.skipped)
        self.spool.skipped.clear()
        self.metrics.measured(self.ledger.floors.measured())
        for stage, seconds in self.cpu.since_last().items():
            self.metrics.cpu(stage, seconds)
        try:
            self.metrics.write(self.state)
        except OSError:
            logs.say(logger, logging.WARNING, "snapshot_failed")


def _bounds(config: Config) -> tuple[int, int, int]:
    """Bytes that may wait to be mirrored or be under way; that may be under way; that may wait to be compared."""
    most = config.limits.queue_bytes
    compared_later = most // _COMPARED_LATER
    return most - compared_later, most // _UNDER_WAY, compared_later
