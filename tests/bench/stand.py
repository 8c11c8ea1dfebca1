"""Where rows are measured: a fake engine with a primary and a shadow port, peers started as they are needed and kept until the end, the settings of a run.

House rules. Owns lifetimes. A peer that cannot be installed or started is said so once and left out; the rows go on without it.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.measure import Sample, in_turn
from tests.bench.native import Engine, Reply, Work, engine
from tests.bench.payloads import json_reply
from tests.bench.peers.peer import Peer, Setting, Start
from tests.bench.ratio import LEAST_SHARE, Interval, Verdict, at_least, at_most, of_pairs
from tests.bench.table import Result
from tests.programs import Missing


@dataclass
class Stand:
    """One run. ``pairs``: rounds a row is measured in; ``seconds``: how long one measurement lasts."""

    engine: Engine
    folder: Path
    pairs: int
    seconds: float
    _running: dict[Start, tuple[Peer | None, contextlib.ExitStack]] = field(default_factory=dict)
    _serial: int = 0

    def peer(self, start: Start, shadow: str = "shadow") -> Peer | None:
        """The running peer, started when it is not; None when it cannot be had."""
        if start not in self._running:
            stack = contextlib.ExitStack()
            self._running[start] = (self._begin(start, stack, shadow), stack)
        return self._running[start][0]

    def _begin(self, start: Start, stack: contextlib.ExitStack, shadow: str) -> Peer | None:
        self.engine.answer(json_reply(1300))  # peers look at their engines before they serve
        self._serial += 1
        folder = self.folder / str(self._serial)
        folder.mkdir()
        folder.chmod(0o777)  # nginx's worker is nobody
        try:
            return stack.enter_context(start(Setting(folder, self.engine.port["primary"], self.engine.port[shadow])))
        except (Missing, RuntimeError) as error:
            self.say(f"left out: {start.__module__}: {error}")
            return None

    def end(self, *starts: Start) -> None:
        """End these peers, or all."""
        for start in starts or tuple(self._running):
            if start in self._running:
                self._running.pop(start)[1].close()

    def compare(
        self, starts: Sequence[Start], reply: Reply, work: Work, *, pairs: int | None = None, warm: bool = True
    ) -> dict[str, list[Sample]]:
        """Measure those peers in turn with this reply and work; samples by name, without the peers that cannot be had."""
        peers = [peer for peer in map(self.peer, starts) if peer is not None]
        self.engine.answer(reply)
        return in_turn(peers, self.engine, work, pairs or self.pairs, warm_up=warm)

    @staticmethod
    def say(line: str) -> None:
        """Progress, beside the table."""
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def stand(pairs: int, seconds: float) -> Iterator[Stand]:
    """A stand in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="parhelion-bench-") as folder, engine("primary", "shadow", "ill") as fake:
        Path(folder).chmod(0o755)
        running = Stand(fake, Path(folder), pairs, seconds)
        try:
            yield running
        finally:
            running.end()


def medians(samples: Sequence[Sample], figure: Callable[[Sample], float]) -> float:
    """The median of a figure."""
    values = sorted(map(figure, samples))
    return values[len(values) // 2]


def versus(
    found: dict[str, list[Sample]],
    goal: int,
    row: str,
    bounds: Mapping[str, float | None],
    *,
    ours: str = "parhelion",
    figure: Callable[[Sample], float] = lambda one: one.cpu,
    unit: str = "us",
    least: bool = False,
    mirrored: bool = True,
    bare: bool = False,
    per: Callable[[Sample], float] = lambda one: one.requests,
) -> Iterator[Result]:
    """Ratios of ours to each peer in ``bounds`` that was measured.

    ``least``: the bound is one from below; ``bare``: the figure is no CPU time, so no parts of it are shown; ``per``: what the parts are divided by.
    """
    mine = found.get(ours, [])
    for peer, bound in bounds.items():
        theirs = found.get(peer, [])
        if not mine or not theirs:
            continue
        interval: Interval = of_pairs([figure(one) for one in mine], [figure(one) for one in theirs])
        share = min(one.share for one in mine) if mirrored else None
        judge = at_least if least else at_most
        verdict = Verdict.SHOWN if bound is None else judge(interval, bound, 1.0 if share is None else share)
        note = (
            f"{medians(mine, figure):,.4g} / {medians(theirs, figure):,.4g} {unit}{'' if bare else _parts(mine, per)}"
        )
        if 0 < (worst := min(one.share for one in theirs)) < LEAST_SHARE:
            note += f", it mirrored {worst:.0%}"
        asked = "" if bound is None else f"{'>=' if least else '<='} {bound:.3g}"
        yield Result(goal, f"{row} / {peer}", asked, verdict, interval, share=share, note=note)


def _parts(samples: Sequence[Sample], per: Callable[[Sample], float]) -> str:
    """What of a CPU figure is the live path's, and what is not in it."""
    if not any(one.live for one in samples):
        return ""
    live = medians(samples, lambda one: one.live * one.requests / per(one))
    apart = medians(samples, lambda one: (one.compared + one.stored) * one.requests / per(one))
    return f" (live path {live:,.4g}; apart {apart:,.4g})"
