"""Both arms' tokens side by side: what is where, in both modes, with and without what is kept beside a record; windows; the panel; the strip."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.compare.comparison import ChoiceComparison, Flip, FlipClass, Mode, TokenRef
from proxy.compare.token_stream import Alternative, Channel
from proxy.ledger.detail import ChoiceDetail, Listed, Partial, Run, Side
from proxy.ledger.pages.outputs import shown
from proxy.ledger.pages.panel import panel
from proxy.ledger.pages.strands import CHARACTERS, MOST, ROW, WINDOW, Choice, cell, error, rows, start
from proxy.ledger.pages.strip import height, strip

TOP = (Alternative(-0.1, 3, "c"), Alternative(-2.4, 9, "z"), Alternative(-2.4, 8, "y"))


def side(texts, *, ids=None, logprobs=None, **fields):
    return Side(
        logprobs or (-0.1,) * len(texts),
        ids or tuple(range(1, len(texts) + 1)),
        tuple(texts),
        total=len(texts),
        **fields,
    )


def free(**fields):
    flip = Flip(2, TokenRef(3, "c", -0.1), TokenRef(9, "z", -0.2), FlipClass.GENUINE, gap=2.3)
    made = {
        "primary_tokens": 4,
        "shadow_tokens": 3,
        "compared": 3,
        "exposed": 3,
        "identical": False,
        "first": flip,
        "ids": (1, 2, 3),
    }
    made |= {"primary_logprobs": (-0.1, -0.1, -0.1), "shadow_logprobs": (-0.1, -0.4, None), "ranks": (1, 1, 2)}
    return ChoiceComparison(index=0, **(made | fields))


def forced(**fields):
    flips = (Flip(1, TokenRef(2, "b", -0.7), TokenRef(7, "x", -0.6), FlipClass.NEAR_TIE, gap=0.01),)
    made = {
        "primary_tokens": 3,
        "shadow_tokens": 3,
        "compared": 3,
        "exposed": 3,
        "identical": False,
        "flips": flips,
        "ids": (1, 2, 3),
    }
    made |= {"primary_logprobs": (-0.1, -0.1, -0.1), "shadow_logprobs": (-0.1, -0.4, -2.1)}
    return ChoiceComparison(index=0, **(made | fields))


def test_what_follows_the_first_difference_is_another_text():
    kept = ChoiceDetail(
        0, side("abcd", channels=(Run(0, Channel.REASONING), Run(2, Channel.CONTENT))), side("abz", ids=(1, 2, 9))
    )
    made = Choice(Mode.FREE, free(), kept)
    [row] = rows(made, 0)
    assert [(one.text, one.kind, one.after) for one in row.primary] == [
        ("a", "", False), ("b", "", False), ("c", "genuine", False), ("d", "", True),
    ]  # fmt: skip
    assert [(one.text, one.id) for one in row.shadow] == [("a", 1), ("b", 2), ("z", 9)]
    assert [one.channel.value for one in row.primary] == ["reasoning", "reasoning", "content", "content"]
    assert [one.step for one in row.primary] == [0, 3, 0, 0]
    assert error(made, 1) == pytest.approx(0.3)
    assert error(made, 2) is None  # not measured, not 0
    assert made.at == 2


def test_an_arm_that_said_nothing_more_is_marked_there():
    ended = Flip(2, TokenRef(3, "c", -0.1), TokenRef(), FlipClass.GENUINE)
    made = Choice(
        Mode.FREE, free(first=ended, finish_reasons=("stop", "length")), ChoiceDetail(0, side("abcd"), side("ab"))
    )
    [row] = rows(made, 0)
    assert [(one.index, one.id, one.text, one.kind) for one in row.shadow] == [
        (0, 1, "a", ""),
        (1, 2, "b", ""),
        (2, None, None, "genuine"),
    ]
    drawn = shown(made, 0, "r1")["rows"][0]
    assert 'aria-label="ended: token 2, genuine"' in drawn["shadow"]
    assert drawn["shadow_end"] == '<span class="ended">end: length</span>'
    assert 'id="t3"' in drawn["primary"]
    cut = Choice(Mode.FREE, free(first=ended), ChoiceDetail(0, side("abcd"), replace(side("ab"), total=9)))
    assert cut.length("shadow") == 2


def test_a_record_alone_shows_ids_and_the_texts_at_the_difference():
    made = Choice(Mode.FREE, free())
    [row] = rows(made, 0)
    assert [(one.id, one.text) for one in row.primary] == [(1, None), (2, None), (3, "c")]
    assert [(one.id, one.text) for one in row.shadow] == [(1, None), (2, None), (9, "z")]


def test_forced_shows_what_the_shadow_would_have_picked():
    made = Choice(Mode.FORCED, forced(), ChoiceDetail(0, side("abc"), side("abc")))
    [row] = rows(made, 0)
    assert [(one.text, one.same) for one in row.shadow] == [("a", True), ("x", False), ("c", True)]
    assert [one.after for one in row.primary] == [False] * 3
    assert made.at == 1
    assert [one.step for one in row.primary] == [0, 3, 4]


def test_positions_that_were_left_out_have_no_value():
    made = Choice(Mode.FORCED, forced(positions=(0, 5, 9), flips=()))
    assert made.length("primary") == 10
    assert [one.id for one in rows(made, 0)[0].primary] == [1, None, None, None, None, 2, None, None, None, 3]
    assert error(made, 9) == pytest.approx(2.0)
    assert error(made, 4) is None
    shadow = rows(made, 0)[0].shadow
    assert [one.index for one in shadow if one.same] == [0, 5, 9]
    assert [one.index for one in shadow if one.unscored] == [1, 2, 3, 4, 6, 7, 8]
    place = panel(made, 4)
    assert place is not None
    assert place["unscored"]


def test_windows_are_whole_rows_around_the_difference():
    long = Choice(
        Mode.FREE,
        free(first=Flip(5000, TokenRef(), TokenRef(), FlipClass.UNKNOWN)),
        ChoiceDetail(0, side("x" * 6000), side("y" * 5500)),
    )
    begin = start(long, None)
    assert begin % ROW == 0
    assert begin <= 5000 < begin + WINDOW
    window = rows(long, begin)
    assert sum(len(one.primary) for one in window) == WINDOW
    assert start(long, 10**9) <= 6000
    assert len(rows(long, start(long, 10**9))) == 1
    assert [len(one.shadow) for one in rows(long, 5504)] == [0] * (WINDOW // ROW)


def test_long_tokens_end_a_window_sooner():
    huge = Choice(Mode.FREE, free(first=None), ChoiceDetail(0, side(["x" * 1_000_000] * 400), side(["x"] * 400)))
    assert len(rows(huge, 0)) == math.ceil(CHARACTERS / MOST / ROW)


def test_a_long_list_of_alternatives_is_folded_but_for_its_first_and_those_named():
    top = (*(Alternative(-1.0 - at, 100 + at, f"w{at}") for at in range(12)), Alternative(-20.0, 9, "z"))
    sides = [side("abcd", listed=(Listed(2, top),)), side("abz", ids=(1, 2, 9), listed=(Listed(2, top),))]
    [primary, shadow] = panel(Choice(Mode.FREE, free(), ChoiceDetail(0, *sides)), 2)["arms"]
    for arm in (primary, shadow):
        assert [one["token"]["id"] for one in arm["alternatives"]] == [100, 101, 102, 103, 104, 105, 9]
        assert [one["rank"] for one in arm["further"]] == [7, 8, 9, 10, 11, 12]
    assert (primary["alternatives"][-1]["other"], shadow["alternatives"][-1]["picked"]) == (True, True)


def test_the_panel_has_both_lists():
    kept = ChoiceDetail(
        0, side("abcd", listed=(Listed(2, TOP),), partial=(Partial(2, b"\xf0"),)), side("abz", ids=(1, 2, 9))
    )
    made = Choice(Mode.FREE, free(), kept)
    place = panel(made, 2)
    assert place is not None
    primary, shadow = place["arms"]
    assert [(one["rank"], one["picked"], one["other"]) for one in primary["alternatives"]] == [
        (1, True, False),
        (2, False, True),
        (2, False, False),
    ]
    assert primary["cell"].data == b"\xf0"
    assert primary["probability"] == pytest.approx(math.exp(-0.1))
    assert shadow["logprob"] == -0.2
    assert (place["gap"], place["shadow_gap"], place["kl"], place["rank"]) == (2.3, None, None, 2)
    after = panel(made, 3)
    assert after is not None
    assert after["apart"]
    assert after["arms"][1]["cell"] is None
    assert panel(made, 4) is None


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 400), st.integers(0, 400))
def test_any_place_can_be_asked_for(primary, shadow, begin, token):
    made = Choice(Mode.FREE, free(first=None, ids=()), ChoiceDetail(0, side("a" * primary), side("b" * shadow)))
    seen = [one.index for row in rows(made, 0) for one in row.primary]
    assert seen == list(range(primary))
    assert start(made, begin) <= begin
    assert (panel(made, token) is None) == (token >= max(made.length("primary"), made.length("shadow")))
    assert cell(made, "primary", token).index == token


def test_the_strip_says_the_largest_error():
    drawn = strip(Choice(Mode.FORCED, forced()))
    assert drawn is not None
    assert "3 positions with values of both; the largest difference of logprobs is 2 nats at token 2." in drawn
    assert drawn.count("<rect") == 4  # three bars, one mark
    assert ">N</text>" in drawn
    assert strip(Choice(Mode.FORCED, forced(shadow_logprobs=()))) is None
    assert [height(value) for value in (0.0, 1e-4, 1.0, 100.0)] == [0.02, 0.02, pytest.approx(0.8), 1.0]


class Searched(tuple):
    """Places that are found by halving: who goes through all of them takes half a minute for a page of a long reply."""

    __slots__ = ()

    def index(self, *_: object) -> int:
        raise AssertionError("gone through one by one")

    def __contains__(self, _: object) -> bool:
        raise AssertionError("gone through one by one")


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_places_and_differences_are_found_where_they_are(places: set[int], differing: set[int]) -> None:
    positions = tuple(sorted(places))
    flips = tuple(replace(forced().flips[0], index=index) for index in sorted(differing))
    choice = Choice(Mode.FORCED, forced(positions=Searched(positions), compared=len(positions), flips=flips))
    for index in range(-1, 62):
        assert choice.entry(index) == (positions.index(index) if index in places else None)
        assert choice.flip(index) == next((flip for flip in flips if flip.index == index), None)
