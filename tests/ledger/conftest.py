"""Records, settlements and stores for the tests of the ledger."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import strategies as st

from proxy.compare.comparison import (
    ChoiceComparison,
    Comparison,
    Flip,
    FlipClass,
    Mode,
    Pick,
    SeenBy,
    Source,
    Tie,
    TokenRef,
)
from proxy.ledger.record import Content, Record, RequestFacts, Settlement, Timing
from proxy.ledger.store import Store


def flip(kind: FlipClass, index: int = 3, **fields) -> Flip:
    primary = TokenRef(id=11, text=" hello", logprob=-0.5)
    shadow = TokenRef(id=12, text=" world", logprob=-0.5)
    if kind is FlipClass.EXACT_TIE:
        fields = {
            "gap": 0.0,
            "shadow_gap": 0.0,
            "tie_seen_by": SeenBy.BOTH,
            "primary_pick": Pick.LOWEST,
            "shadow_pick": Pick.HIGHEST,
            "lowest": "primary",
            "tie_break_mismatch": True,
        } | fields
    return Flip(index=index, primary=primary, shadow=shadow, kind=kind, **fields)


def free(kind: FlipClass | None = None, **fields) -> Comparison:
    """Five positions; identical, or parted at index 3."""
    n = 5 if kind is None else 4
    choice = ChoiceComparison(
        index=0,
        primary_tokens=5,
        shadow_tokens=5 if kind is None else 7,
        compared=n,
        exposed=n,
        identical=kind is None,
        censored="end" if kind is None else None,
        first=None if kind is None else flip(kind),
        ties=(
            Tie(index=3, arm="primary", size=2, pick=Pick.LOWEST),
            Tie(index=3, arm="shadow", size=2, pick=Pick.HIGHEST),
        ),
        ids=tuple(range(100, 100 + n)),
        primary_logprobs=(-0.1, -0.0001, None, -0.5, -2.0)[:n],
        shadow_logprobs=(-0.11, -0.0002, -1.0, -0.5, -2.5)[:n],
        gaps=(1.0, 5.0, None, 0.0, 0.2)[:n],
        ranks=(1, 1, None, 1, 2)[:n],
        kl_lower_bounds=(1e-5, 0.0, None, 0.0, 0.02)[:n],
        finish_reasons=("stop", "stop" if kind is None else "length"),
    )
    return Comparison(mode=Mode.FREE, source=Source.REPLY, choices=(choice,), **fields)


def forced(*kinds: FlipClass, **fields) -> Comparison:
    choice = ChoiceComparison(
        index=0,
        primary_tokens=4,
        shadow_tokens=4,
        compared=4,
        exposed=4,
        identical=not kinds,
        flips=tuple(flip(kind, index) for index, kind in enumerate(kinds)),
        ids=(1, 2, 3, 4),
        primary_logprobs=(-0.1, -0.2, -0.3, -0.4),
        shadow_logprobs=(-0.1, -0.25, -0.2, -0.4),
        gaps=(1.0, 1.0, 0.0, 1.0),
        ranks=(1, 1, 2, 1),
        kl_lower_bounds=(0.0, 0.001, 0.002, 0.0),
        top1_agree=tuple(index >= len(kinds) for index in range(4)),
    )
    return Comparison(mode=Mode.FORCED, source=Source.REPLY, choices=(choice,), **fields)


def record(number: int, comparison: Comparison | None = None, **fields) -> Record:
    defaults = {
        "id": f"{number:08x}",
        "time": 1_700_000_000.0 + number,
        "exchange": f"x{number}",
        "model": "m",
        "endpoint": "chat_completions",
        "shadow": "candidate",
        "role": "candidate",
        "comparison": comparison or free(),
        "request": RequestFacts(stream=True, temperature=0.0, prompt_tokens=7, shadow_prompt_tokens=7),
        "primary_footprint": "p1",
        "shadow_footprint": "s1",
        "primary_timing": Timing(first_token=0.1, end=0.5, gaps=(0.02, 0.03)),
        "shadow_timing": Timing(first_token=0.2, end=0.9, gaps=(0.04,)),
        "content": Content("what is asked", ("what is said",), ("what else is said",)),
    }
    return Record(**(defaults | fields))


def compared(one: Record, incarnation: str = "i1") -> Settlement:
    reason = one.comparison.incomparable
    outcome = "compared" if reason is None else "incomparable"
    return Settlement(incarnation, one.shadow, one.comparison.mode.value, outcome, reason or "", one)


def anything(kind: object) -> st.SearchStrategy:
    """Any value of an annotated type that can be stored: text is UTF-8, numbers are finite and fit 64 bits."""
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        return st.one_of([anything(part) for part in typing.get_args(kind)])
    if typing.get_origin(kind) is tuple:
        first, *rest = typing.get_args(kind)
        if rest == [Ellipsis]:
            return st.lists(anything(first), max_size=3).map(tuple)
        return st.tuples(anything(first), *map(anything, rest))
    if typing.get_origin(kind) is dict:
        keys, values = map(anything, typing.get_args(kind))
        return st.dictionaries(keys, values, max_size=3)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{name: anything(hints[name]) for name in kind.__struct_fields__})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    leaves = {
        str: st.text(st.characters(codec="utf-8"), max_size=12),
        float: st.floats(allow_nan=False, allow_infinity=False),
        int: st.integers(-(2**63), 2**63 - 1),
        bool: st.booleans(),
        types.NoneType: st.none(),
    }
    return leaves[kind]


@pytest.fixture(scope="session")
def make():
    """The builders above, as one namespace."""

    class Make:
        pass

    for builder in (flip, free, forced, record, compared, anything):
        setattr(Make, builder.__name__, staticmethod(builder))
    return Make


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, str]]:
    """Environment for a subprocess that imports the product from this checkout."""
    root = str(Path(__file__).parents[2])
    return lambda: {"PYTHONPATH": root, "PATH": "/usr/bin:/bin"}
