"""The table of goals: text for a terminal, JSON for programs, Markdown for the README.

House rules. Shows results; measures and judges nothing.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.ratio import Interval, Verdict


@dataclass(frozen=True)
class Result:
    """One line. ``bound`` as text; ``interval`` None where a figure is not a ratio of pairs, and ``figure`` says it; ``note``: the absolute figures."""

    goal: int
    row: str
    bound: str
    verdict: Verdict
    interval: Interval | None = None
    figure: str = ""
    share: float | None = None
    note: str = ""

    @property
    def measured(self) -> str:
        """The ratio and its interval, or the figure."""
        if self.interval is None:
            return self.figure
        one = self.interval
        shown = f"{_short(one.ratio)} [{_short(one.low)}, {_short(one.high)}]"
        return f"{shown} {self.figure}".strip()


def _short(value: float) -> str:
    if math.isinf(value):
        return "inf"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


_HEADINGS = ("goal", "row", "bound", "measured [95 %]", "verdict", "mirrored", "in figures")


def _cells(result: Result) -> tuple[str, ...]:
    share = "" if result.share is None else f"{result.share:.1%}"
    return (
        str(result.goal),
        result.row,
        result.bound,
        result.measured,
        result.verdict.value,
        share,
        result.note,
    )


def as_text(results: Sequence[Result]) -> str:
    """Columns."""
    rows = [_HEADINGS, *(_cells(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def as_markdown(results: Sequence[Result]) -> str:
    """A table."""
    rows = [_HEADINGS, ("---",) * len(_HEADINGS), *(_cells(result) for result in results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def as_json(results: Sequence[Result]) -> str:
    """One object: where it was measured, and the results."""
    listed = [
        {
            "goal": one.goal,
            "row": one.row,
            "bound": one.bound,
            "verdict": one.verdict.value,
            "ratio": one.interval and one.interval.ratio,
            "low": one.interval and one.interval.low,
            "high": one.interval and (None if math.isinf(one.interval.high) else one.interval.high),
            "pairs": one.interval and one.interval.pairs,
            "figure": one.figure,
            "share": one.share,
            "note": one.note,
        }
        for one in results
    ]
    return json.dumps({"where": where(), "results": listed}, indent=1)


def where() -> dict[str, str | int | None]:
    """The machine, the day, the revision and the command: what rows were measured, and how often."""
    revision = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "when": time.strftime("%Y-%m-%d"),
        "revision": revision.stdout.strip() or "unknown",
        "command": " ".join(["python -m tests.bench", *sys.argv[1:]]),
    }
