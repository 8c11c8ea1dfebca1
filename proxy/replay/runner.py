"""The replay itself: lines are asked side by side, compared at the judge's desk, and settled in the plan's order.

Near-tie thresholds are learned from earlier requests only, and must not depend on which of several requests under way ended first. So requests count in blocks: those of a block are
compared by what the blocks up to the last but one have taught. A request waits for that, which bounds how far the asking may run ahead of the slowest.

House rules. Every request of the plan is settled once, or left for the next run; a fault of an engine is tried again a few times, and never waited for without end. An engine that answers nothing any more
ends the replay, and the requests it left are asked when the replay goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from proxy.config import Config
from proxy.exchange import Exchange
from proxy.judge.case import Got, Mirrored
from proxy.judge.desk import Desk, Done
from proxy.judge.engines import Engines
from proxy.judge.examine import Examiner
from proxy.judge.ledger import Ledger
from proxy.judge.noise import NoiseBook
from proxy.judge.settle import Policy
from proxy.judge.trials import Trials
from proxy.ledger.record import Settlement, Timing
from proxy.replay.asking import INCARNATION, Ask, unanswered
from proxy.replay.draws import drawn
from proxy.replay.line import Line, TrafficError
from proxy.replay.pace import Pace
from proxy.replay.progress import exchange_id

#: Seconds before each further try of a request that an engine has failed.
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: Requests in a row that were tried in vain before the replay ends.
_GONE = 3
#: Sheds that say something of the moment, not of the request.
_MOMENTARY = frozenset({"circuit_open", "shadow_unready", "rate_limit"})
_SPENT = "token_budget"
#: How a replay ends whose store fails. What it could not take is asked when the replay goes on.
UNWRITABLE = "the store cannot be written (the log says why): see to it, then run the same command again"
_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(slots=True)
class Course:
    """How a replay goes. ``settled``: a beginning of the plan; ``asking``: under way; ``ended``: why it ended before its plan did, "" when it did not."""

    planned: int
    settled: int = 0
    asking: int = 0
    retried: int = 0
    ended: str = ""


@dataclass(slots=True)
class Replay:
    """What is replayed, with what.

    ``lines``: the plan's request at a place; ``began``: stands for the time of lines that say none; ``load``: how many requests are kept under way, which is what records say of it (how
    many there were at one moment differs from run to run); ``memory``: what was known after each finished block, see ``progress``; ``timed``: whether the primary's replies came just now; ``draws``: see ``draws``.
    """

    config: Config
    engines: Engines
    ledger: Ledger
    ask: Ask
    lines: Callable[[int], Line]
    digest: str
    began: float
    course: Course
    block: int
    load: int = 1
    memory: dict[int, bytes] = field(default_factory=dict)
    timed: bool = True
    draws: bool = False
    decided: Callable[[], bool] = bool
    pauses: Sequence[float] = PAUSES
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _results: dict[int, tuple[Exchange, Done]] = field(default_factory=dict)
    _in_vain: set[int] = field(default_factory=set)
    _handed: int = 0
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _desks: dict[int, Desk] = field(default_factory=dict)
    _trials: Trials = field(init=False)

    def __post_init__(self) -> None:
        self._handed = self.course.settled
        self._trials = Trials(self.engines.primary, self.engines.shadows, (self.config.sampling.salt or "").encode())

    def stop(self, why: str) -> None:
        """Begin no further request; what is under way ends as it does."""
        self.course.ended = self.course.ended or why
        self._stop.set()
        self._moved.set()

    async def run(self, pace: Pace) -> None:
        """Replay what is left of the plan."""
        room = asyncio.Semaphore(self.load)
        async with asyncio.TaskGroup() as group:
            for position in range(self.course.settled, self.course.planned):
                await self._until_near(position)
                await room.acquire()
                await self._sleep(pace.wait(position, time.monotonic()))
                if self._stop.is_set():
                    break
                group.create_task(self._one(position, room))
        if not self.course.ended:
            self._in_vain.clear()  # nothing can show any more that the engines are well: it counts as it is
        self._drain()
        while self.course.settled < self._handed:
            await self._move()

    async def _until_near(self, position: int) -> None:
        """Wait until what the request is to be compared by is known, or the replay is to end."""
        known = (position // self.block - 1) * self.block
        while self.course.settled < known and not self._stop.is_set():
            if not self.course.asking:  # nothing under way can show any more that the engines are well
                self._in_vain.clear()
                self._drain()
            await self._move()

    async def _move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0 and not self._stop.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._stop.wait()
            except TimeoutError:
                pass

    async def _one(self, position: int, room: asyncio.Semaphore) -> None:
        self.course.asking += 1
        try:
            try:
                line = self.lines(position)
            except TrafficError as error:
                self.stop(str(error))
                return
            exchange, done, in_vain = await self._settled(line, position)
            self._results[position] = exchange, self._stamped(line, exchange, done, position)
            self._heard(position, in_vain=in_vain)
            self._drain()
        finally:
            self.course.asking -= 1
            room.release()
            self._moved.set()

    async def _settled(self, line: Line, position: int) -> tuple[Exchange, Done, str]:
        """Ask and compare, again where an engine failed; and which engine failed to the last, "" when none did."""
        desk = self._desk(position // self.block)
        id_ = exchange_id(self.digest, position)
        pauses = iter(self.pauses)
        while True:
            faults = {one.arm.name: one.arm.guard.faults for one in self.engines.shadows}
            exchange = await self.ask(line, id_, self.load)
            mirrored = await _mirrored(desk, exchange)
            done = mirrored if isinstance(mirrored, Done) else await desk.judge(mirrored)
            failed = self._failed(exchange, mirrored, done, faults)
            pause = next(pauses, None)
            if not failed and self.draws:
                done = await drawn(done, self.engines.primary, self.engines.shadows, id_)
            if not failed or pause is None or failed == _SPENT or self._stop.is_set():
                return exchange, done, failed
            self.course.retried += 1
            await self._sleep(pause)

    def _failed(self, exchange: Exchange, mirrored: Mirrored | Done, done: Done, faults: Mapping[str, int]) -> str:
        """Name the arm that another try may make answer. ``faults``: heard of each shadow before: what was refused for its own sake is not refused by an engine that is ill."""
        if self.timed and unanswered(exchange):  # what the file has of it stays as it is
            return "primary"
        for outcome in () if done.examined is None else done.examined.outcomes:
            if outcome.shed == _SPENT:
                return _SPENT
            if outcome.shed in _MOMENTARY:
                return outcome.shadow
            got = mirrored.answers.get(outcome.shadow) if isinstance(mirrored, Mirrored) else None
            if isinstance(got, Got) and (got.answer.failure is not None or got.answer.status in _AGAIN):
                return outcome.shadow
            guard = next(one.arm.guard for one in self.engines.shadows if one.arm.name == outcome.shadow)
            if outcome.incomparable == "shadow_error" and guard.faults > faults[outcome.shadow]:
                return outcome.shadow
        return ""

    def _heard(self, position: int, *, in_vain: str) -> None:
        """Keep what was asked in vain until another request shows that the engines are well: then it counts. Where none does, it is asked when the replay goes on."""
        if in_vain:
            self._in_vain.add(position)
        elif not self.course.ended:
            self._in_vain.clear()
        if not in_vain or self.course.ended:
            return
        if in_vain == _SPENT:
            self.stop("limits.tokens_per_day is spent: run the same command again when the day is over")
        elif len(self._in_vain) >= _GONE:
            self.stop(f"{in_vain} does not answer any more: see to it, then run the same command again")

    def _drain(self) -> None:
        """Hand in what is next in the plan's order."""
        while self._handed in self._results and self._handed not in self._in_vain:
            exchange, done = self._results.pop(self._handed)
            self._handed += 1
            self.ledger.hand_in(done, exchange, self._learned)

    def _learned(self) -> None:
        """One more request is settled, and learned from."""
        if self.ledger.owes:
            self.course.ended = UNWRITABLE  # whatever it ended of before: nothing more is kept
            self._stop.set()
        self.course.settled += 1
        blocks, rest = divmod(self.course.settled, self.block)
        if rest == 0:
            self.memory[blocks] = self.ledger.noise.encode()
            self.memory.pop(blocks - 3, None)
            self._desks.pop(blocks - 1, None)
            if self.decided():
                self.stop("decided")
        self._moved.set()

    def _desk(self, block: int) -> Desk:
        """Where the requests of a block are compared."""
        if block not in self._desks:
            near_tie = self.config.verdict.near_tie
            noise = NoiseBook(None if near_tie == "auto" else near_tie, self.memory.get(block - 1))
            self._desks[block] = Desk(self.config, self._examiner(noise))
        return self._desks[block]

    def _examiner(self, noise: NoiseBook) -> Examiner:
        config = self.config
        return Examiner(
            primary=self.engines.primary,
            shadows=self.engines.shadows,
            policy=Policy(config.records.content, (config.sampling.salt or "").encode()),
            rescore=config.primary.logprobs == "rescore",
            capture_bytes=config.limits.capture_bytes,
            noise=noise,
        )

    def _stamped(self, line: Line, exchange: Exchange, done: Done, position: int) -> Done:
        """Add what the request says towards the verdicts, on the day it was recorded, and its number."""
        then = replace(exchange, started=self.began if line.time is None else line.time)
        if done.examined is not None:
            told = next((one.record.conversation for one in done.settlements if one.record is not None), "")
            trials = self._trials.of(then, done.examined, told)
        else:
            trials = self._trials.given_up(then, next((one.reason for one in done.settlements), ""))
        trials = tuple(replace(one, time=exchange.started) for one in trials)
        ends = done.settlements if self.timed else tuple(_untimed(one) for one in done.settlements)
        number = Settlement(INCARNATION, "", "", "", spooled=position + 1)
        return Done((*ends, number), done.examined, trials)


def _untimed(one: Settlement) -> Settlement:
    """A recorded reply came at no time: not measured is not 0."""
    return one if one.record is None else replace(one, record=replace(one.record, primary_timing=Timing()))


async def _mirrored(desk: Desk, exchange: Exchange) -> Mirrored | Done:
    answered: asyncio.Future[Mirrored | Done] = asyncio.get_running_loop().create_future()

    def then(came: Mirrored | Done) -> None:
        if not answered.done():  # it is when the replay was stopped at once
            answered.set_result(came)

    desk.mirror(exchange, then)
    return await answered
