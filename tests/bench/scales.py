"""How much slower this machine is than the one of the goals, by more than one measure: what one says of the machine, and what of itself.

House rules. Processor time of one thread, each measure in microseconds beside what it took on the goals' machine. Figures are scaled by ``comparator.scale``
alone; these are shown beside it, so that a reader sees whether it speaks of the machine. The last is what ``scale`` would be with another collector than there.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import msgspec
import orjson
from msgspec import Struct

from tests.bench.comparator import as_the_judge_runs, took
from tests.bench.replies import cases

#: Bytes of the body that the goals' figures are of.
_BYTES = 232_000


class Measure(NamedTuple):
    """``name`` for the table; microseconds on the goals' machine and here."""

    name: str
    there: float
    here: float


class _Entry(Struct, gc=False):
    token: str
    logprob: float


class _Row(Struct, gc=False):
    token: str
    logprob: float
    top_logprobs: list[_Entry]


class _Chosen(Struct, gc=False):
    token: str
    logprob: float


class _Rows(Struct):
    content: list[_Row]


class _ChosenRows(Struct):
    content: list[_Chosen]


class _Choice(Struct):
    logprobs: _Rows


class _ChosenChoice(Struct):
    logprobs: _ChosenRows


class _Reply(Struct):
    choices: list[_Choice]


class _ChosenReply(Struct):
    choices: list[_ChosenChoice]


def measures(rounds: int, seconds: float) -> list[Measure]:
    """Measure each in turn in each round."""
    body = cases()[0].primary
    every, chosen = msgspec.json.Decoder(_Reply), msgspec.json.Decoder(_ChosenReply)
    works: list[tuple[str, float, Callable[[], object]]] = [
        ("msgspec on 232 KB of logprobs, all tokens and values", 492.0, lambda: every.decode(body)),
        ("msgspec on 232 KB of logprobs, chosen tokens alone", 316.0, lambda: chosen.decode(body)),
        ("orjson on 232 KB of logprobs, with the judge's collector", 1198.0, lambda: orjson.loads(body)),
    ]
    found: list[list[float]] = [[] for _ in works]
    with as_the_judge_runs():
        for _ in range(rounds):
            for own, (_, _, work) in zip(found, works, strict=True):
                own.append(took(work, seconds) * 1e6 * _BYTES / len(body))
    return [Measure(name, there, median(own)) for own, (name, there, _) in zip(found, works, strict=True)]
