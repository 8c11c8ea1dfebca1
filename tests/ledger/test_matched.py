"""A candidate is held against its control in the requests, and the tokens, of which both have results, and in no others."""

from __future__ import annotations

import io

from rich.console import Console

from proxy.compare.comparison import ChoiceComparison, Comparison, FlipClass, Mode, Source
from proxy.config import Config, Shadow
from proxy.ledger.matched import matched
from proxy.ledger.render import render
from proxy.ledger.report import build_report
from proxy.ledger.segments import Gathered

CONFIG = Config(shadows=(Shadow("candidate", "http://c"), Shadow("floor", "http://d", role="control")))
CONTROL = {"shadow": "floor", "role": "control"}


def by_text(*, same):
    """The replies as texts, for an arm that named no tokens."""
    choice = ChoiceComparison(
        index=0,
        primary_tokens=None,
        shadow_tokens=None,
        compared=0,
        exposed=0,
        identical=same,
        by_text=True,
        first_text_difference=None if same else 7,
    )
    return Comparison(mode=Mode.FREE, source=Source.TEXT, choices=(choice,))


def settle(store, make):
    """Candidate and control flip alike where the client asked for logprobs; of as many other requests the control lends tokens, or has none."""
    batch = []
    for number in range(40):
        shared = {"exchange": f"x{number}", "conversation": f"c{number}"}
        kinds = (FlipClass.GENUINE,) if number % 4 == 0 else ()
        kind = kinds[0] if kinds else None
        control_free, control_forced = make.free(kind), make.forced(*kinds)
        free, forced = make.free(kind), make.forced(*kinds)
        if number >= 20:
            free, control_free = make.free(), by_text(same=True)
            forced, control_forced = make.forced(), Comparison(mode=Mode.FORCED, incomparable="no_primary_tokens")
        batch += [
            make.record(number, free, **shared),
            make.record(100 + number, forced, **shared),
            make.record(200 + number, control_free, **shared, **CONTROL),
            make.record(300 + number, control_forced, **shared, **CONTROL),
        ]
    store.settle([make.compared(one) for one in batch])


def gathered(make, *made):
    found = Gathered()
    for exchange, comparison in made:
        found.take(make.record(len(found.comparisons), comparison, exchange=exchange, conversation=exchange))
    return found


def test_a_candidate_as_good_as_the_control_has_no_excess_whatever_else_it_was_compared_on(store, make):
    settle(store, make)
    report = build_report(CONFIG, store, command="test", now=0.0)
    modes = report["shadows"][0]["modes"]
    flips = modes["forced"]["headline"]["flips_per_1000_positions"]
    assert (flips["raw"], flips["floor"], flips["excess"]) == (62.5, 62.5, 0.0)
    assert (flips["n"], flips["floor_n"]) == (80, 80)
    assert modes["forced"]["without_floor"] == {"requests": 20, "tokens": 80}
    for one in (modes["free"]["hazard_per_1000_tokens"], modes["free"]["headline"]["divergences_per_1000_tokens"]):
        assert one["raw"] == one["floor"] == 1000 * 5 / 95
        assert one["interval"][0] < 0 < one["interval"][1]
    assert modes["free"]["headline"]["identical_share"]["n"] == 40
    assert modes["free"]["without_floor"] == {"requests": 0, "tokens": 100}
    assert (modes["free"]["requests"], modes["free"]["tokens_compared"]) == (40, 195)  # what was seen is all shown
    out = io.StringIO()
    render(report, Console(file=out, width=80, color_system=None))
    text = " ".join(out.getvalue().split())
    assert "left out here, for the control has no result of the same: 20 requests and 80 tokens." in text
    assert "left out here, for the control has no result of the same: 100 tokens." in text


def test_where_all_is_in_both_the_arms_themselves_are_taken(make):
    own, floor = (gathered(make, ("x", make.forced()), ("y", make.forced())) for _ in range(2))
    found = matched(own, floor)
    assert found.own is own
    assert found.floor is floor
    assert (found.requests, found.tokens) == (0, 0)


def test_a_control_of_other_requests_is_no_floor(make):
    own, floor = gathered(make, ("x", make.forced())), gathered(make, ("y", make.forced()))
    found = matched(own, floor)
    assert found.own is own
    assert found.floor.comparisons == []


def test_where_the_control_names_no_tokens_the_candidate_keeps_its_own(make):
    own = gathered(make, ("x", make.free()), ("y", make.free(FlipClass.GENUINE)), ("z", make.free()))
    floor = gathered(make, ("x", by_text(same=True)), ("y", by_text(same=False)))
    found = matched(own, floor)
    assert found.own.comparisons == own.comparisons[:2]
    assert found.own.conversations == ["x", "y"]
    assert [one.outcome for one in found.floor.comparisons] == ["identical", "diverged"]
    assert (found.requests, found.tokens) == (1, 5)


def test_tokens_that_one_arm_alone_has_are_left_out_and_whether_the_replies_are_the_same_is_not(make):
    own = gathered(make, ("x", make.free()), ("y", make.free(FlipClass.GENUINE)))
    floor = gathered(make, ("x", make.free()), ("y", by_text(same=True)))
    found = matched(own, floor)
    assert found.own.comparisons[0] is own.comparisons[0]
    assert found.own.comparisons[1].outcome == "diverged"
    assert (found.own.comparisons[1].choices[0].exposed, found.tokens) == (0, 4)
