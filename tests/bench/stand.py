"""Where rows are measured: a fake engine with a primary and a shadow port, peers started as they are needed and kept until the end, the settings of a run.

House rules. Owns lifetimes. A peer that cannot be installed or started is said so once and left out; the rows go on without it.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.measure import Sample, in_turn
from tests.bench.native import Engine, Reply, Work, engine
from tests.bench.payloads import json_reply
from tests.bench.peers.peer import Peer, Setting, Start
from tests.bench.ratio import Interval, Verdict, at_least, at_most, of_pairs
from tests.bench.table import Result
from tests.programs import Missing


@dataclass
class Stand:
    """One run. ``pairs``: rounds a row is measured in; ``seconds``: how long one measurement lasts."""

    engine: Engine
    folder: Path
    pairs: int
    seconds: float
    _stack: contextlib.ExitStack
    _peers: dict[str, Peer | None] = field(default_factory=dict)

    def peer(self, start: Start) -> Peer | None:
        """The running peer; None when it cannot be had."""
        key = f"{start.__module__}.{start.__name__}"
        if key not in self._peers:
            self._peers[key] = self._begin(start, key)
        return self._peers[key]

    def _begin(self, start: Start, key: str) -> Peer | None:
        self.engine.answer(json_reply(1300))  # peers look at their engines before they serve
        folder = self.folder / key
        folder.mkdir()
        try:
            return self._stack.enter_context(
                start(Setting(folder, self.engine.port["primary"], self.engine.port["shadow"]))
            )
        except (Missing, RuntimeError) as error:
            self.say(f"left out: {key}: {error}")
            return None

    def compare(
        self, starts: Sequence[Start], reply: Reply, work: Work, pairs: int | None = None
    ) -> dict[str, list[Sample]]:
        """Measure those peers in turn with this reply and work; samples by name, without the peers that cannot be had."""
        peers = [peer for peer in map(self.peer, starts) if peer is not None]
        self.engine.answer(reply)
        try:
            return in_turn(peers, self.engine, work, pairs or self.pairs)
        finally:
            self.engine.answer(json_reply(1300))

    @staticmethod
    def say(line: str) -> None:
        """Progress, beside the table."""
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def stand(pairs: int, seconds: float) -> Iterator[Stand]:
    """A stand in a temporary folder."""
    with (
        tempfile.TemporaryDirectory(prefix="parhelion-bench-") as folder,
        engine("primary", "shadow") as fake,
        contextlib.ExitStack() as stack,
    ):
        yield Stand(fake, Path(folder), pairs, seconds, stack)


def medians(samples: Sequence[Sample], figure: Callable[[Sample], float]) -> float:
    """The median of a figure."""
    values = sorted(map(figure, samples))
    return values[len(values) // 2]


def versus(
    found: dict[str, list[Sample]],
    goal: int,
    row: str,
    bounds: dict[str, float],
    *,
    ours: str = "parhelion",
    figure: Callable[[Sample], float] = lambda one: one.cpu,
    unit: str = "us",
    least: bool = False,
    mirrored: bool = True,
) -> Iterator[Result]:
    """Ratios of ours to each peer in ``bounds`` that was measured. ``least``: the bound is one from below."""
    mine = found.get(ours, [])
    for peer, bound in bounds.items():
        theirs = found.get(peer, [])
        if not mine or not theirs:
            continue
        interval: Interval = of_pairs([figure(one) for one in mine], [figure(one) for one in theirs])
        share = min(one.share for one in mine) if mirrored else None
        judge = at_least if least else at_most
        verdict: Verdict = judge(interval, bound, 1.0 if share is None else share)
        note = f"{medians(mine, figure):,.4g} / {medians(theirs, figure):,.4g} {unit}"
        if any(one.live for one in mine):
            note += f", live path {medians(mine, lambda one: one.live):,.4g} us"
        if any(one.apart for one in mine):
            note += f", apart {medians(mine, lambda one: one.apart):,.4g} us"
        sign = ">=" if least else "<="
        yield Result(goal, f"{row} / {peer}", f"{sign} {bound:g}", verdict, interval, share=share, note=note)
