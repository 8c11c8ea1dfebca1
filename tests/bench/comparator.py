"""Tokens compared per second of processor time: what is compared, the judge's own work on it in its parts, and how that is measured.

House rules. One thread's processor time, parse of both sides included; the parts are the product's own functions on the product's own values. All that is measured
is measured in turn in each round, beside a parse of JSON by orjson, by which the figures are scaled to the machine of the goals.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from engines import alike
from engines.alike import Known
from engines.dialect import Answer, Defaults, Endpoint
from engines.registry import dialect
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Comparison, Mode, Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Reply
from proxy.config import Config, Primary, Shadow
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.case import Got, Mirrored, ShadowArm
from proxy.judge.desk import Desk
from proxy.judge.examine import Examiner
from proxy.judge.floors import FloorBook
from proxy.judge.noise import NoiseBook
from proxy.judge.request import read_request
from proxy.judge.settle import Policy
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.store import Store
from proxy.traffic.shadow_client import Client
from tests.bench.replies import TOKENS, Case, cases

REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Tell me about halos."}],
    "temperature": 0,
    "max_tokens": TOKENS,
}
#: Records in one transaction.
BATCH = 32
TAU = Tau(1e-3, TauOrigin.CONFIGURED)


def answer(case: Case, body: bytes) -> Answer:
    """As the mirror holds it: a stream in one piece for each event, a body in one."""
    kind = "text/event-stream" if case.stream else "application/json"
    parts = [part + b"\n\n" for part in body.split(b"\n\n")[:-1]] if case.stream else [body]
    return Answer(200, (("content-type", kind),), tuple(enumerate(parts)))


def compared(case: Case) -> Callable[[], Comparison]:
    """Read both sides and compare."""
    vllm, request = dialect("vllm"), {**REQUEST, "stream": case.stream}
    mine, theirs = answer(case, case.primary), answer(case, case.shadow)

    def work() -> Comparison:
        body = alike.in_one(mine)
        primary: Reply = vllm.read(Endpoint.CHAT, request, body)
        shadow = alike.read(vllm, Endpoint.CHAT, request, theirs, Known(vllm, request, body, primary))
        source = Source.REPLY if primary.choices[0].tokens else Source.TEXT
        doubt = None if case.mode == "raw" else "logprob_mode"
        return compare_free(primary, shadow, source=source, tau=TAU, greedy=True, values_incomparable=doubt)

    return work


class Judge:
    """All that the judge does with one exchange, in its parts: ``judged`` up to the record's bytes, ``learned`` and ``stored`` apart."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._config = Config(
            primary=Primary(url="http://p"), shadows=(Shadow("c", "http://c", modes=("free",)),), state="/nonexistent"
        )
        arms = {name: _arm(name, case.mode) for name in ("primary", "c")}
        shadow = ShadowArm(arms["c"], "candidate", (Mode.FREE,), {}, 20)
        policy = Policy("hash", b"salt")
        self._noise, self._floors, self._metrics = NoiseBook(None), FloorBook(), JudgeMetrics(self._config)
        examiner = Examiner(arms["primary"], (shadow,), policy, rescore=False, capture_bytes=1 << 23, noise=self._noise)
        self._desk = Desk(self._config, examiner)
        self._mirrored = _mirrored(case)
        self.done = self._desk.judge_now(self._mirrored)
        self._store = Store.open(f"sqlite:///{folder / 'records.db'}")
        self._numbers = count()
        self._encoder = msgspec.msgpack.Encoder()

    def judged(self) -> object:
        """From captured bytes to what is written of them."""
        done = self._desk.judge_now(self._mirrored)
        return [self._encoder.encode(one.record) for one in done.settlements]

    def learned(self) -> None:
        """Metrics, and the noise and floors of the arms."""
        for one in self.done.settlements:
            assert one.record is not None
            self._metrics.observe_comparison(one.record)
            self._floors.take(one.record)
            self._noise.learn("m", one.record.comparison, control=False)

    def stored(self) -> None:
        """One transaction of as many exchanges as gather for one under load, each with its record."""
        [one] = self.done.settlements
        assert one.record is not None
        batch = [replace(one, record=replace(one.record, id=str(next(self._numbers)))) for _ in range(BATCH)]
        self._store.settle(batch)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


def _arm(name: str, mode: str) -> Arm:
    client = Client(f"http://{name}", api_key=None, connections=1, connect_timeout=1.0, max_bytes=1 << 20)
    slots, defaults = asyncio.Semaphore(1), Defaults(temperature=1.0)
    return Arm(name, client, 1.0, slots, dialect=dialect("vllm"), defaults=defaults, logprob_mode=mode)


def _mirrored(case: Case) -> Mirrored:
    body = {**REQUEST, "stream": case.stream}
    mine, theirs = answer(case, case.primary), answer(case, case.shadow)
    headers = tuple((name.encode(), value.encode()) for name, value in mine.headers)
    exchange = Exchange(
        "x", "t0", 0.0, 0.5, "POST", "/v1/chat/completions", (), orjson.dumps(body), 200, headers, mine.pieces, 1, 2, Ended.COMPLETE
    )  # fmt: skip
    return Mirrored(exchange, read_request(exchange, 1 << 23), None, True, {"c": Got(body, theirs)})


@dataclass(frozen=True)
class Figures:
    """Medians over rounds. ``compared`` and ``judged``: tokens a CPU second, here and as on the goals' machine; ``learned``, ``stored``: microseconds an exchange, here."""

    case: Case
    compared: tuple[float, float]
    judged: tuple[float, float]
    learned: float
    stored: float


def measured(wanted: Sequence[Case], folder: Path, rounds: int, seconds: float) -> tuple[float, list[Figures]]:
    """Measure the cases in turn in each round, each part for so long. Returns how many times slower than the goals' machine this one was, and the figures."""
    judges = []
    for number, case in enumerate(wanted):
        (folder / str(number)).mkdir()
        judges.append(Judge(case, folder / str(number)))
    reads = [compared(case) for case in wanted]
    slower: list[float] = []
    found: list[list[tuple[float, ...]]] = [[] for _ in wanted]
    with as_the_judge_runs():
        for _ in range(rounds):
            slower.append(scale(seconds))
            for own, read, judge in zip(found, reads, judges, strict=True):
                parts = (read, judge.judged, judge.learned, judge.stored)
                own.append(tuple(took(part, seconds) for part in parts))
    for judge in judges:
        judge.close()
    return median(slower), [_figures(case, slower, own) for case, own in zip(wanted, found, strict=True)]


def _figures(case: Case, slower: list[float], rounds: list[tuple[float, ...]]) -> Figures:
    tokens = [tuple(TOKENS / one for one in round_[:2]) for round_ in rounds]
    here = [median(one[part] for one in tokens) for part in (0, 1)]
    there = [median(one[part] * by for one, by in zip(tokens, slower, strict=True)) for part in (0, 1)]
    learned, stored = (median(one[part] for one in rounds) * 1e6 for part in (2, 3))
    return Figures(case, (here[0], there[0]), (here[1], there[1]), learned, stored / BATCH)


@contextmanager
def as_the_judge_runs() -> Iterator[None]:
    """With the collector set as in the judge's process."""
    gc.collect()
    gc.freeze()
    try:
        with _collecting(50_000, 20, 100):
            yield
    finally:
        gc.unfreeze()


@contextmanager
def _collecting(*thresholds: int) -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def took(work: Callable[[], object], seconds: float) -> float:
    """Processor time of one call, the mean of as many as fit into ``seconds``."""
    work()
    calls, spent, begun = 0, 0.0, time.thread_time()
    while spent < seconds:
        work()
        calls, spent = calls + 1, time.thread_time() - begun
    return spent / calls


def scale(seconds: float) -> float:
    """How much slower this machine is now than the one of the goals: there orjson parses 232 KB of logprobs in 1,198 us.

    With Python's own collector, as there: such a parse makes 5,500 containers, and sets it off eight times.
    """
    body = cases()[0].primary
    with _collecting(700, 10, 10):
        return took(lambda: orjson.loads(body), seconds) * 1e6 / 1198 * 232_000 / len(body)
