"""The judge's hold on the store: settlements go in by batches, and are answered for only once they are committed.

House rules. One commit at a time, off the event loop; everything that came meanwhile is the next batch. When the store cannot take a batch its
records are lost and its counts are not: they are kept as ``shed{store}`` and go in with the next batch that succeeds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from proxy import logs
from proxy.config import Config
from proxy.counters import is_alive
from proxy.exchange import Exchange
from proxy.judge.cpu import COMPARE, STORE
from proxy.judge.desk import Done
from proxy.judge.evidence import KEY, Evidence
from proxy.judge.finish import Finish
from proxy.judge.floors import FloorBook
from proxy.judge.knowing import Knowing
from proxy.judge.noise import NoiseBook
from proxy.judge.spool import Kept, Spool
from proxy.ledger import totals
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.reconcile import SETTLED, Arm
from proxy.ledger.record import Settlement, shed_of
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError
from proxy.ledger.tallies import Fresh, Scope
from proxy.traffic.wire import Payload

logger = logging.getLogger("parhelion")
T = TypeVar("T")

_NOISE, _FLOORS = "noise", "floors"
_NOISE_EVERY = 5.0
_RETRY = 1.0
#: Settlements gather for one commit, which costs as much as some ten records: so many times so many seconds, or until there are enough.
_GATHERINGS, _GATHER, _ENOUGH = 4, 0.01, 128
_HOLD = 0.001  # seconds of learning after which the event loop has its turn
_BURIALS, _BURIAL_PAUSE = 240, 0.5  # a drain may take minutes


class _Settling(NamedTuple):
    """An exchange on its way into the store."""

    done: Done
    incarnation: str
    id: str
    told: Callable[[], None]


class Ledger:
    """Settlements in, word of their being written out."""

    def __init__(self, config: Config, metrics: JudgeMetrics, spool: Spool | None = None) -> None:
        self.store = Store.open(config.records.url)
        self.spool = spool or Spool(None)
        self.metrics = metrics
        self.floors = FloorBook(self.store.get_state(_FLOORS))
        self._configure(config, self.store.get_state(_NOISE))
        self.evidence = Evidence(config, self.store, metrics)
        self._pending: list[Settlement] = []
        self._owed: Counter[Settlement] = Counter()  # counts of what the store could not take
        self._retry_at = 0.0
        self._waiting: list[_Settling] = []
        self._owed_ids: list[str] = []
        self._buried: set[str] = set()
        self._learning = 0
        self._something = asyncio.Event()
        self._closing = False
        self._noise_due = 0.0
        self._kept: dict[str, Callable[[], bytes]] = {KEY: self.evidence.encode}
        self.in_flight: Counter[str] = Counter()
        self._writing = asyncio.Lock()
        self._writer: asyncio.Future[None] | None = None
        # The store does one thing at a time; more threads would wait for it, each with a heap of its own.
        self._thread = ThreadPoolExecutor(1, "store")
        self._finish = Finish(config, metrics, self._thread)
        self._knowing = Knowing(config, metrics)

    @property
    def backlog(self) -> int:
        """How many exchanges wait to be written, or for their turn to be learned from."""
        return len(self._waiting) + self._learning

    @property
    def owes(self) -> bool:
        """Whether the store could not take what it was given; that is counted as shed as soon as it can."""
        return bool(self._owed)

    def configure(self, config: Config) -> None:
        """Work by another configuration; what was learned stays."""
        self._configure(config, self.noise.encode())
        self._finish.configure(config)
        self.evidence.configure(config)

    def _configure(self, config: Config, noise: bytes | None) -> None:
        self._keep, self._max_bytes = config.records.keep, config.records.max_bytes
        near_tie = config.verdict.near_tie
        self.noise = NoiseBook(None if near_tie == "auto" else near_tie, noise)
        self._arms = {Arm(shadow.name, mode) for shadow in config.shadows for mode in shadow.modes}
        self.floors.only({shadow.name for shadow in config.shadows})

    def took(self, exchanges: Sequence[Exchange], payloads: Sequence[Payload]) -> Sequence[Exchange]:
        """Note that exchanges have come into the judge's hands, where they are until settled; they are kept on disk as they came.

        Returns those that are new: a judge that was killed before it could acknowledge what it had kept is sent it again.
        """
        if self.spool.recent:
            fresh = [number for number, one in enumerate(exchanges) if one.id not in self.spool.recent]
            exchanges, payloads = [exchanges[number] for number in fresh], [payloads[number] for number in fresh]
        self.spool.write([exchange.id for exchange in exchanges], payloads)
        for exchange in exchanges:
            self.in_flight[exchange.incarnation] += 1
        return exchanges

    def take_up(self) -> list[Kept]:
        """Take what earlier lives have left on disk into our hands. Raises StoreError."""
        kept = self.spool.open(self.store.spooled())
        self.store.forget_spooled(0, self.spool.oldest() - 1)
        for one in kept:
            self.in_flight[one.incarnation] += 1
        return kept

    def dropped(self, kept: Kept) -> None:
        """Give up what cannot be read any more: it is accounted for as lost."""
        self._let_go(kept.incarnation)
        self.spool.settled(kept.id)

    def outlives_us(self, exchange: Exchange) -> bool:
        """Whether an exchange that we leave unsettled is taken up by the next life."""
        return self.spool.number(exchange.id) is not None

    def hand_in(self, done: Done, exchange: Exchange, told: Callable[[], None]) -> None:
        """Hand an exchange's settlements to the writer; ``told`` is called when they are in the store, or counted as lost to it."""
        if done.examined is not None:
            self.metrics.mirror_lag(max(0.0, time.time() - exchange.started - exchange.end_us / 1e6))
        self._finish.take(done, exchange)
        number = self.spool.number(exchange.id)
        self._pending += done.settlements
        self._pending.append(Settlement(exchange.incarnation, "", "", SETTLED, spooled=number, trials=done.trials))
        self._waiting.append(_Settling(done, exchange.incarnation, exchange.id, told))
        self._something.set()

    def _take_in(self, done: Done) -> None:
        """Learn and count only what has settled."""
        examined = done.examined
        if examined is None:
            return
        if examined.source is not None:
            self.metrics.primary_tokens_source(examined.source)
        records = [one.record for one in done.settlements if one.record is not None]
        for record in records:
            self.metrics.observe_comparison(record)
            self._knowing.count(record)
        self.floors.take_exchange(records)
        for outcome in examined.outcomes:
            if outcome.comparison is not None and examined.asked is not None:
                self.noise.learn(examined.asked.model, outcome.comparison, control=outcome.role == "control")

    async def run(self) -> None:
        """Write batches until closed and empty."""
        self._writer = asyncio.current_task()
        while not (self._closing and not self._waiting):
            if not self._waiting:
                await self._wait()
                if not self._waiting and not self._owed:
                    continue
            for _ in range(_GATHERINGS):
                if not self._closing and len(self._waiting) < _ENOUGH:
                    await asyncio.sleep(_GATHER)
            batch, self._pending = self._pending, []
            waiting, self._waiting = self._waiting, []
            self._learning = len(waiting)
            async with self._writing:
                committed = await self._write(batch)
                self._release(waiting, committed=committed)
            await self._learn(waiting)

    async def _learn(self, settled: list[_Settling]) -> None:
        """Count and learn from what has settled, and say so; the event loop runs after each millisecond of it."""
        todo = iter(settled)
        while self._learning:
            self._learn_some(todo)
            await asyncio.sleep(0)

    def _learn_some(self, todo: Iterator[_Settling]) -> None:
        until = time.monotonic() + _HOLD
        with COMPARE:
            for done, _, _, told in todo:
                try:
                    self._take_in(done)
                except Exception:  # what has settled must not settle again because of what was to be learned from it
                    logger.exception("learning_failed")
                self._learning -= 1
                told()
                if time.monotonic() > until:
                    return

    def _release(self, settled: list[_Settling], *, committed: bool) -> None:
        """What is in the store, or owed to it, is in our hands no more; on disk it stays until it is in the store."""
        for one in settled:
            self._let_go(one.incarnation)
        self._owed_ids += [one.id for one in settled]
        if committed:
            for id_ in self._owed_ids:
                self.spool.settled(id_)
            self._owed_ids.clear()

    def _let_go(self, incarnation: str) -> None:
        self.in_flight[incarnation] -= 1
        if not self.in_flight[incarnation]:
            del self.in_flight[incarnation]

    async def _wait(self) -> None:
        """Until there is something to write, or it is time to try again with what is owed."""
        self._something.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_RETRY if self._owed else None):
                await self._something.wait()

    async def _write(self, batch: list[Settlement]) -> bool:
        """Commit a batch and what is owed from before; true when that is done. While the store is away it is asked once a second, not for every exchange."""
        if self._owed and time.monotonic() < self._retry_at:
            self._finish.give_up(batch)
            self._owed.update(shed_of(batch))
            return False
        if lost := self.evidence.losses(time.time()):
            batch = [*batch, Settlement("", "", "", "", trials=lost)]
        try:
            try:
                counted = await self._aside(self._commit, [*self._owed.elements(), *batch], self._learned())
            finally:
                self._finish.say()
            self._owed.clear()
            self.evidence.take(counted)
            await self._say_alarms()
        except StoreError as error:
            logs.say(logger, logging.ERROR, "store_failed", reason=error.reason, settlements=len(batch))
            self._owed.update(shed_of(batch))
            self._retry_at = time.monotonic() + _RETRY
            return False
        return True

    def _commit(self, batch: list[Settlement], state: dict[str, bytes]) -> Fresh:
        with STORE:
            return self.store.settle(self._finish.finished(batch), state=state)

    async def _say_alarms(self) -> None:
        """Write down what the drift detectors say, with the state that has said it: a judge that dies in between says it again, one that dies later does not."""
        while (alarm := self.evidence.next_alarm(time.time())) is not None:
            try:
                await self._aside(self.store.add_event, alarm, {KEY: self.evidence.encode()})
            except StoreError:  # said with the next batch
                self.evidence.put_back(alarm)
                return
            self.metrics.drift_alarm(alarm.detail["shadow"])
            logs.say(logger, logging.WARNING, "drift_alarm", **alarm.detail)

    def _learned(self) -> dict[str, bytes]:
        """What others keep here, each time; the books of noise now and then, since they only have to survive a restart nearly up to date."""
        state = {key: value() for key, value in self._kept.items()}
        now = time.monotonic()
        if now >= self._noise_due or self._closing:
            self._noise_due = now + _NOISE_EVERY
            state |= {_NOISE: self.noise.encode(), _FLOORS: self.floors.encode()}
        return state

    def keep(self, key: str, value: Callable[[], bytes]) -> None:
        """Write ``value`` with every batch from now on."""
        self._kept[key] = value

    async def adopt(self) -> None:
        """Account for shadows and modes that came under way, once nothing is worked on without them."""
        await self._account(lambda: self.store.adopt(self._arms))

    async def reconcile(self, incarnation: str, handed_over: int) -> None:
        """Count as shed what this incarnation handed over and is neither settled nor in our hands."""
        await self._reconcile({incarnation: handed_over})

    async def reconcile_all(self, counters: Path) -> None:
        """The same at start, for every traffic process of this replica, dead ones included."""
        try:
            known = totals.handed_over(counters)
        except OSError:
            logs.say(logger, logging.WARNING, "counters_unreadable")
            return
        await self._reconcile(known)

    async def bury(self, incarnation: str, counters: Path) -> None:
        """Wait until a traffic process that hung up has ended, then account for what it still held. One that lives on will greet us again."""
        path = counters / f"{incarnation}.bin"
        for _ in range(_BURIALS):
            try:
                if not is_alive(path):
                    known = totals.handed_over(counters)
                    await self._reconcile({incarnation: known.get(incarnation, 0)})
                    return
            except OSError:  # folded away by the supervisor: the next start of a judge accounts for it
                return
            await asyncio.sleep(_BURIAL_PAUSE)

    async def bury_strays(self, counters: Path, connected: Collection[str]) -> None:
        """Account for traffic processes that died without being connected here, as those do that die while there is no judge."""
        for path in sorted(counters.glob("*.bin")):  # noqa: ASYNC240 - a handful of files in memory
            if path.stem in self._buried or path.stem in connected:
                continue
            try:
                gone = not is_alive(path)
            except OSError:
                continue
            if gone:
                self._buried.add(path.stem)
                await self.bury(path.stem, counters)

    async def _reconcile(self, known: dict[str, int]) -> None:
        missing = await self._account(lambda: self.store.reconcile(known, self._arms, dict(self.in_flight)))
        if missing:
            logs.say(logger, logging.WARNING, "lost_on_crash", exchanges=max(missing.values()))

    async def _account(self, work: Callable[[], T]) -> T | None:
        """Do sums over the store while nothing is committed; None when it cannot be reached."""
        while True:
            async with self._writing:
                if not self._owed or self._closing:  # what is owed is settled, though the store does not know it yet
                    try:
                        return await self._aside(work)
                    except StoreError as error:
                        logs.say(logger, logging.ERROR, "store_failed", reason=error.reason, settlements=0)
                        return None
            await asyncio.sleep(_RETRY)

    async def _aside(self, work: Callable[..., T], *given: object) -> T:
        """Do something with the store off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    async def look(self, shed: Mapping[str, int], scopes: Mapping[str, Scope]) -> None:
        """See that the store is still there and still ours, and what was lost on the way here (see ``Evidence.look``)."""
        try:
            await self._aside(self._knowing.look, time.time())
            await self._aside(self.store.check)
            self.evidence.look(shed, await self._aside(self.store.counts), scopes)
        except StoreError as error:
            logs.say(logger, logging.ERROR, "store_failed", reason=error.reason, settlements=0)

    async def tidy(self) -> None:
        """Leave nothing on disk that is settled, and nothing in the store about what is not on disk."""
        self.spool.tidy()
        gone, self.spool.gone = self.spool.gone, []
        for number, (first, last) in enumerate(gone):
            try:
                await self._aside(self.store.forget_spooled, first, last)
            except StoreError:
                self.spool.gone += gone[number:]
                return

    async def too_large(self) -> bool:
        """Whether the store has passed its bound by so much that it should not wait for its turn."""
        try:
            return await self._aside(self.store.over, self._max_bytes)
        except StoreError:
            return False

    async def purge(self) -> None:
        """Apply retention."""
        try:
            gone = await self._aside(self.store.purge, time.time(), self._keep, self._max_bytes)
        except StoreError as error:
            logs.say(logger, logging.ERROR, "purge_failed", reason=error.reason)
            return
        if gone:
            logs.say(logger, logging.INFO, "purged", records=gone)

    async def close(self) -> None:
        """Write what is pending, and close the store."""
        self._closing = True
        self._something.set()
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=30.0)
        async with self._writing:
            await self._write([])  # what is owed, and what was learned last
        self.store.close()
        self._finish.close()
