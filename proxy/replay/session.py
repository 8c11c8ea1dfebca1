"""One run of a replay from its store to its report: begun, or gone on with; the judge's parts put together in one process.

House rules. The composition, and nothing of what a request becomes. One run at a time writes a store (a lock beside it says so). Everything that was opened is closed, however it ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from engines.registry import dialect
from engines.unasked import unasked
from proxy.compare.verdict import State, judge
from proxy.config import Config
from proxy.judge.engines import Engines
from proxy.judge.ledger import Ledger
from proxy.judge.spec import PRIMARY
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.store import Store
from proxy.ledger.verdicts import latest, terms_of
from proxy.replay import progress
from proxy.replay.asking import LivePrimary, recorded
from proxy.replay.line import Line, TrafficError
from proxy.replay.pace import Pace
from proxy.replay.plan import Wanted, plan
from proxy.replay.progress import Begun
from proxy.replay.runner import PAUSES, UNWRITABLE, Course, Replay
from proxy.replay.traffic import Traffic

_READY = (
    120.0  # seconds for the engines to answer: a large model is loaded in minutes, and waited for before this is called
)
_LOOK = 0.05
_SLOWEST = 120.0  # seconds for a reply of the primary, as of a shadow
_FEWEST = 16  # requests of a block


class Choices(Struct, frozen=True):
    """How to replay.

    ``since``: an age in seconds; ``recorded``: the file's replies stand for the primary's; ``model``: in place of each request's; ``rate`` in requests a second;
    ``speed``: recorded gaps, so many times as fast; ``repeats``: how often each request is asked;
    ``draws``: ask shadows for sampled ones, too; ``ready``: seconds in which the engines must have answered; ``pauses``: see ``runner``.
    """

    wanted: Wanted = Wanted()
    since: float | None = None
    recorded: bool = False
    model: str | None = None
    concurrency: int = 8
    rate: float | None = None
    speed: float | None = None
    until_decided: bool = False
    repeats: int = 1
    draws: bool = False
    ready: float = _READY
    pauses: tuple[float, ...] = PAUSES


class Session:
    """A replay with its store open. ``before``: requests that an earlier run has settled."""

    def __init__(
        self, config: Config, traffic: Traffic, choices: Choices, out: Path, begun: Begun, before: int
    ) -> None:
        self.config, self.traffic, self.choices, self.out, self.before = config, traffic, choices, out, before
        self._begun = begun
        self._plan = _planned(traffic, choices, begun.since)
        self.course = Course(len(self._plan), before)
        self._replay: Replay | None = None

    def stop(self) -> None:
        """Begin no further request."""
        if self._replay is None:
            self.course.ended = "interrupted"
        else:
            self._replay.stop("interrupted")

    async def run(self) -> None:
        """Replay what is left. Raises TrafficError where an engine is not there to begin with, and StoreError."""
        config, loop = self.config, asyncio.get_running_loop()
        metrics = JudgeMetrics(config)
        ledger = Ledger(config, metrics)
        near_tie = config.verdict.near_tie
        book, memory = progress.learned_again(
            ledger.store, None if near_tie == "auto" else near_tie, self._begun.block, self.before
        )
        ledger.noise = book
        engines = Engines(config, ledger, metrics)
        if self.choices.recorded:
            await _without_primary(engines, config)
        writer, parts = loop.create_task(ledger.run()), [loop.create_task(engines.watch())]
        primary = LivePrimary(config, engines.primary, connections=self.choices.concurrency, deadline=_deadline(config))
        try:
            await self._ready(engines)
            self._replay = Replay(
                config,
                engines,
                ledger,
                recorded if self.choices.recorded else primary.ask,
                self._line,
                self._begun.identity.file,
                self._begun.at,
                self.course,
                self._begun.block,
                self.choices.concurrency,
                memory,
                timed=not self.choices.recorded,
                draws=self.choices.draws,
                pauses=self.choices.pauses,
                decided=lambda: self.choices.until_decided and decided(config, ledger.store),
            )
            if not self.course.ended:
                parts.append(loop.create_task(self._replay.run(self._pace())))
                await _first([writer, *parts])
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            if self.course.ended != UNWRITABLE:  # else what it owes would be counted as shed, and done
                await ledger.close()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            ledger.store.close()
            await primary.aclose()
            await engines.close()

    async def _ready(self, engines: Engines) -> None:
        until = time.monotonic() + self.choices.ready
        while not engines.known() and not self.course.ended:
            if time.monotonic() > until:
                names = [name for name, (_, arm) in engines.made.items() if arm.dialect is None]
                raise TrafficError(
                    f"{', '.join(names)}: not there, or no engine we know, for {self.choices.ready:.0f} s; `parhelion check` says more"
                )
            await asyncio.sleep(_LOOK)

    def _line(self, position: int) -> Line:
        line = self.traffic.read(self._plan[position])
        said = orjson.loads(line.body)
        more: dict[str, Any] = {} if self.choices.model is None else {"model": self.choices.model}
        if (again := position % self.choices.repeats) and isinstance(said.get("seed"), int):
            more["seed"] = said["seed"] + again
        return replace(line, body=orjson.dumps(said | more)) if more else line

    def _pace(self) -> Pace:
        limit = self.config.limits.requests_per_second
        if self.choices.speed is None:
            return Pace(self.choices.rate or limit)
        times = [self.traffic.time(index) or 0.0 for index in self._plan]
        return Pace(self.choices.rate or limit, times, self.choices.speed)


def _planned(traffic: Traffic, choices: Choices, since: float | None) -> list[int]:
    """The plan with each request as often as it is to be asked."""
    once = plan(traffic, replace(choices.wanted, since=since, answered=choices.recorded))
    return [index for index in once for _ in range(choices.repeats)]


@contextmanager
def opened(config: Config, traffic: Traffic, choices: Choices, out: Path, *, fresh: bool) -> Iterator[Session]:
    """Begin a replay, or go on with it. Raises TrafficError for a store of another one, StoreError for one that cannot be used."""
    _planned(traffic, choices, None if choices.since is None else time.time() - choices.since)
    progress.refuse_foreign(out)
    with _locked(out):
        if fresh:
            for end in ("", "-wal", "-shm"):
                out.with_name(out.name + end).unlink(missing_ok=True)
        said = {
            "order": choices.wanted.order,
            "seed": choices.wanted.seed,
            "sample": choices.wanted.sample,
            "since": choices.since,
            "limit": choices.wanted.limit,
            "recorded": choices.recorded,
            "model": choices.model,
            "repeats": choices.repeats,
            "draws": choices.draws,
        }
        now = progress.identity(config, traffic.digest, said)
        with Store.open(f"sqlite:///{out}") as store:
            begun = progress.begun(store)
            if begun is None:
                at = time.time()
                since = None if choices.since is None else at - choices.since
                begun = Begun(now, at, max(_FEWEST, choices.concurrency), since)
                progress.begin(store, begun)
            progress.refuse_another(begun.identity, now, str(out))
            before = progress.settled(store)
        yield Session(private(config, choices, out, now.file), traffic, choices, out, begun, before)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    lock = out.with_name(f"{out.name}.lock")
    try:
        file = lock.open("ab")
    except OSError as error:
        raise TrafficError(f"{out}: cannot be written: {error.strerror}; name another store with --out") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), lock.stat()):  # of one that has ended since we opened it
                raise BlockingIOError
        except OSError:
            raise TrafficError(
                f"{out}: another replay is writing it; wait for it, or name another store with --out"
            ) from None
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def private(config: Config, choices: Choices, out: Path, digest: str) -> Config:
    """The configuration of a replay: everything is compared and kept, in a store of its own. The rate is the replay's own business: a shadow that shed for it would only be asked again."""
    ages = 100 * 365 * 86400.0
    return replace(
        config,
        records=replace(config.records, url=f"sqlite:///{out}", keep=ages, max_bytes=1 << 50),
        spool=None,
        sampling=replace(config.sampling, rate=1.0, rules=(), salt=config.sampling.salt or digest),
        limits=replace(
            config.limits, in_flight=max(choices.concurrency, config.limits.in_flight), requests_per_second=None
        ),
    )


def decided(config: Config, store: Store) -> bool:
    """Whether every candidate has a verdict that is PASS or FAIL. Raises StoreError."""
    tallies, terms = store.tallies(), terms_of(config)
    found = [latest(tallies, one.name) for one in config.shadows if one.role == "candidate"]
    return bool(found) and all(
        one is not None and judge(one[1].tally(controlled=bool(one[0].control)), terms).state is not State.WATCH
        for one in found
    )


async def _without_primary(engines: Engines, config: Config) -> None:
    """Nobody asks it: its replies are read as those of the engine that the configuration names and declares."""
    spec, arm = engines.made.pop(PRIMARY)
    arm.dialect = dialect("openai" if config.primary.engine == "auto" else config.primary.engine)
    engines.stacks.found(arm, spec.who, unasked(arm.dialect, config.primary.declare))
    await arm.client.aclose()


def _deadline(config: Config) -> float:
    return max([_SLOWEST, *(one.deadline for one in config.shadows)])


async def _first(parts: list[asyncio.Task[None]]) -> None:
    """Wait for the last of the parts; one of the others that ends before it has failed, and is a defect of ours."""
    done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    for one in done:
        with suppress(asyncio.CancelledError):
            one.result()
    if parts[-1] not in done:
        raise RuntimeError("a part of the judge has ended under way")


def told(session: Session) -> dict[str, Any]:
    """What the report says of the replay itself."""
    course, wanted = session.course, session.choices.wanted
    return {
        "file": session.traffic.name,
        "requests": len(session.traffic),
        "repeats": session.choices.repeats,
        "planned": course.planned,
        "replayed": course.settled,
        "repeated_lines": session.traffic.repeated,
        "order": wanted.order,
        "seed": wanted.seed,
        "recorded": "primary" if session.choices.recorded else None,
        "ended": course.ended or None,
    }
