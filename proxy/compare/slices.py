"""Where among the traffic a candidate is worse: its conversations cut by what was asked and how, and which cut stands out.

A slice is named when its conversations are bad more often than the control's *and* by more than those of the rest. Each has its e-value, and the smaller of the two
is one against "at least one of them is not so". Over all slices the names are given by e-BH (``e_bh``).

The second compares two samples of bounded numbers: conversations of the slice and of the rest are dealt into blocks, as many as the smaller has, and one bets on the difference D
of a block's two means: 1 + lambda D has a mean of at most 1 while the slice's mean is not larger, so its product is an e-value, and so is a mean of these over
lambda (Waudby-Smith and Ramdas, arXiv 2010.09686; pairs of samples as in Shekhar and Ramdas, "Nonparametric two-sample testing by betting", arXiv 2112.09162; blocks
as in Turner, Ly and Grünwald, arXiv 2106.02693).

House rules. Pure. A cut knows only what the candidate cannot change: the request, the primary's reply and load. A conversation counts once in a slice, by its first exchange there, and is in
the rest only where it is never in the slice. Values of a cut are few, whatever clients send.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import log1p

from msgspec import Struct
from msgspec.structs import replace

from proxy.compare.betting import worse_than_control
from proxy.compare.e_bh import named
from proxy.compare.turning import log_mean

#: Bets of the grid, evenly spaced up to nearly what would be ruin.
_GRID = 20
#: So many models have slices of their own; the rest is ``other``.
MOST_MODELS = 20
OTHER = "other"


class Setting(Struct, frozen=True):
    """What a slice may be cut by: the request, the primary's reply and load. None where it is not known. ``temperature`` is the effective one."""

    model: str = ""
    endpoint: str = ""
    stream: bool = False
    tools: bool = False
    logprobs: bool = False
    n: int = 1
    temperature: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    in_flight: int = 0


class Case(Struct, frozen=True):
    """One exchange: whether the candidate was bad, and the control (None without one)."""

    conversation: str
    bad: bool
    control_bad: bool | None
    setting: Setting


class Slice(Struct, frozen=True):
    """One cut of the conversations. ``log_e`` is what names it: the smaller of the two beside it, of which ``log_e_worse_than_control`` is None without a control."""

    dimension: str
    value: str
    conversations: int
    candidate_bad: int
    control_bad: int | None
    log_e: float
    log_e_worse_than_control: float | None
    log_e_more_than_rest: float
    named: bool = False


def _ranged(edges: Sequence[int], number: int | None) -> str | None:
    """Name a range by its first and last number: ``257-1024``, ``>16384``."""
    if number is None:
        return None
    at = bisect_left(edges, number)
    if at == len(edges):
        return f">{edges[-1]}"
    return f"{edges[at - 1] + 1 if at else 0}-{edges[at]}"


def _cached(one: Setting) -> str | None:
    if one.cached_tokens is None:
        return None
    if not one.cached_tokens:
        return "none"
    return "most" if one.prompt_tokens and 2 * one.cached_tokens >= one.prompt_tokens else "some"


def _temperature(one: Setting) -> str | None:
    if one.temperature is None:
        return None
    if one.temperature <= 0:
        return "0"
    return "0-1" if one.temperature < 1 else "1" if one.temperature == 1 else ">1"


def _said(answer: bool) -> str:
    return "yes" if answer else "no"


_PROMPT, _OUTPUT, _LOAD = (256, 1024, 4096, 16384), (15, 63, 255, 1023), (1, 7, 31)
#: What is cut by, and how a case's value is called; None leaves the case out of the cut.
DIMENSIONS: Mapping[str, Callable[[Setting], str | None]] = {
    "prompt_tokens": lambda one: _ranged(_PROMPT, one.prompt_tokens),
    "output_tokens": lambda one: _ranged(_OUTPUT, one.output_tokens),
    "cached_tokens": _cached,
    "in_flight": lambda one: _ranged(_LOAD, one.in_flight),
    "tools": lambda one: _said(one.tools),
    "temperature": _temperature,
    "endpoint": lambda one: one.endpoint,
    "stream": lambda one: _said(one.stream),
    "model": lambda one: one.model,
    "several_choices": lambda one: _said(one.n > 1),
    "logprobs_asked": lambda one: _said(one.logprobs),
}


def slices(cases: Iterable[Case], alpha: float) -> list[Slice]:
    """Cut the cases (in the order of time) every way; named ones first, then by evidence. Cuts with one value have no rest, and are left out."""
    by_conversation: defaultdict[str, list[Case]] = defaultdict(list)
    for one in cases:
        by_conversation[one.conversation].append(one)
    # In the order of their hashes, which no outcome has a part in.
    conversations = [by_conversation[key] for key in sorted(by_conversation)]
    known = _frequent(conversations)
    found: list[Slice] = []
    for dimension, value_of in DIMENSIONS.items():
        valued = partial(_model, known) if dimension == "model" else value_of
        found += _cut(dimension, [_firsts(own, valued) for own in conversations])
    names = named([one.log_e for one in found], alpha)
    marked = [_marked(one, is_named=is_named) for one, is_named in zip(found, names, strict=True)]
    return sorted(marked, key=lambda one: (not one.named, -one.log_e))


def _frequent(conversations: Sequence[Sequence[Case]]) -> frozenset[str]:
    counted = Counter(model for own in conversations for model in {one.setting.model for one in own})
    return frozenset(model for model, _ in counted.most_common(MOST_MODELS))


def _model(known: frozenset[str], one: Setting) -> str:
    return one.model if one.model in known else OTHER


def _firsts(own: Sequence[Case], value_of: Callable[[Setting], str | None]) -> dict[str, Case]:
    """Return a conversation's first case of each value."""
    found: dict[str, Case] = {}
    for one in own:
        value = value_of(one.setting)
        if value is not None:
            found.setdefault(value, one)
    return found


def _cut(dimension: str, conversations: Sequence[Mapping[str, Case]]) -> list[Slice]:
    values = sorted({value for own in conversations for value in own})
    found: list[Slice] = []
    for value in values:
        inside = [own[value] for own in conversations if value in own]
        rest = [next(iter(own.values())) for own in conversations if own and value not in own]
        if rest:
            found.append(_slice(dimension, value, inside, rest))
    return found


def _slice(dimension: str, value: str, inside: Sequence[Case], rest: Sequence[Case]) -> Slice:
    controlled = inside[0].control_bad is not None
    more = more_than_rest([*map(_excess, inside)], [*map(_excess, rest)], widest=2 if controlled else 1)
    worse = better = 0
    for one in inside:
        worse += one.bad and one.control_bad is False
        better += one.control_bad is True and not one.bad
    against = worse_than_control(worse, better) if controlled else None
    return Slice(
        dimension,
        value,
        len(inside),
        sum(one.bad for one in inside),
        sum(bool(one.control_bad) for one in inside) if controlled else None,
        more if against is None else min(more, against),
        against,
        more,
    )


def _excess(one: Case) -> int:
    return one.bad - bool(one.control_bad)


def more_than_rest(inside: Sequence[int], rest: Sequence[int], *, widest: int) -> float:
    """Return the log e-value that one sample's mean is larger than another's; both not empty. ``widest``: the largest difference that two values can have."""
    blocks = min(len(inside), len(rest))
    dealt = Counter(zip(_dealt(inside, blocks), _dealt(rest, blocks), strict=True))
    counted = [(ours[0] / ours[1] - theirs[0] / theirs[1], count) for (ours, theirs), count in dealt.items()]
    bets = [step / (_GRID + 1) / widest for step in range(1, _GRID + 1)]
    return log_mean([sum(count * log1p(bet * difference) for difference, count in counted) for bet in bets])


def _dealt(values: Sequence[int], blocks: int) -> list[tuple[int, int]]:
    """Deal values into blocks; (sum, size) of each."""
    return [(sum(dealt), len(dealt)) for dealt in (values[first::blocks] for first in range(blocks))]


def _marked(one: Slice, *, is_named: bool) -> Slice:
    return replace(one, named=True) if is_named else one
