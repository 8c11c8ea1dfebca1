"""The verdict as it is shown: the contract's keys, the latest pair of stacks, plain sentences, exit codes."""

from __future__ import annotations

import io
from math import log

import pytest
from rich.console import Console

from proxy.app.reporting import exit_status
from proxy.compare.trial import Result
from proxy.compare.verdict import Tally, Terms, judge
from proxy.config import Config, Shadow, Verdict
from proxy.ledger.query import Filter
from proxy.ledger.reconcile import SETTLED
from proxy.ledger.record import Settlement
from proxy.ledger.render import render
from proxy.ledger.report import build_report
from proxy.ledger.store import Store
from proxy.ledger.tallies import Counted, Scope
from proxy.ledger.verdict_lines import verdict_lines

CONFIG = Config(shadows=(Shadow("candidate", "http://c"), Shadow("control", "http://d", role="control")))
SCOPE = Scope("candidate", "p1", "s1", "control", "c1")
ALONE = Scope("candidate", "p1", "s1")
CONTRACT = {
    "state", "alpha", "margin", "log_e_fail", "log_e_pass", "log_e_worse_than_control", "conversations", "conversations_needed", "coverage", "floor",
}  # fmt: skip


def fill(store: Store, scope: Scope = SCOPE, at: float = 1e9, **counts: int) -> None:
    """Count so many conversations of each result; those that are bad are so by a genuine flip."""
    trials = []
    for name, n in counts.items():
        result = Result(name)
        by = {"worse": "genuine_flip", "both": "genuine_flip", "missing": "shadow_error"}.get(name, "")
        control_by = "output_length" if name in {"better", "both"} else ""
        trials += [
            Counted(scope, f"{name}{at}{number}", f"{name}{at}{number}", at + number, result, by, control_by)
            for number in range(n)
        ]
    store.settle([Settlement("i1", "", "", SETTLED, trials=tuple(trials))])


def made(store: Store | None, config: Config = CONFIG, wanted: Filter | None = None):
    command = "report" if wanted is None else "report --since 1h"
    return build_report(config, store, command=command, now=1e9, wanted=wanted)


def verdict(report, name: str = "candidate"):
    return next(one for one in report["shadows"] if one["name"] == name)["verdict"]


def test_it_has_the_contracts_keys_and_what_it_rests_on(store: Store) -> None:
    fill(store, worse=3, better=2, both=1, neither=390, missing=4)
    found = verdict(made(store))
    assert found.keys() >= CONTRACT
    expected = judge(Tally(3, 2, 1, 390, 4), Terms())
    assert (found["state"], found["floor"], found["conversations"]) == ("KEEP WATCHING", "control", 396)
    assert (found["log_e_fail"], found["log_e_pass"]) == (expected.log_e_fail, expected.log_e_pass)
    assert found["conversations_needed"] == expected.needed
    assert found["coverage"] == pytest.approx(396 / 400)
    assert found["tally"] == {"worse": 3, "better": 2, "both": 1, "neither": 390, "missing": 4}
    assert found["excess"] == pytest.approx(1 / 396)
    assert found["excess_interval"] == list(expected.excess)
    assert found["terms"] == {"alpha": 0.01, "margin": 0.01, "allowance": 0.01}
    assert found["bad_by"] == [
        {"by": "genuine_flip", "candidate": 4, "control": 0},
        {"by": "output_length", "candidate": 0, "control": 3},
    ]
    assert found["missing_by"] == {"shadow_error": 4}
    assert found["since"] == "2001-09-09T01:46:40.000+00:00"
    assert found["footprint_ids"] == {"primary": "p1", "shadow": "s1", "control": "c1"}
    assert "verdict" not in next(one for one in made(store)["shadows"] if one["name"] == "control")


def test_before_the_first_conversation_nothing_is_known_and_nothing_is_zero(store: Store) -> None:
    for report in (made(None), made(store)):
        found = verdict(report)
        assert (found["state"], found["conversations"], found["floor"]) == ("KEEP WATCHING", 0, "control")
        assert {found[key] for key in ("conversations_needed", "coverage", "excess", "excess_interval")} == {None}
        assert verdict_lines(report) == ["candidate: KEEP WATCHING; no conversation has been counted yet."]


def test_the_stacks_that_were_counted_last_have_the_verdict_and_earlier_ones_stand_beside(store: Store) -> None:
    fill(store, worse=40, neither=10)
    fill(store, SCOPE._replace(shadow="s2"), at=2e9, neither=20)
    found = verdict(made(store))
    assert (found["state"], found["conversations"], found["footprint_ids"]["shadow"]) == ("KEEP WATCHING", 20, "s2")
    (earlier,) = found["earlier"]
    assert (earlier["state"], earlier["conversations"], earlier["footprint_ids"]["shadow"]) == ("FAIL", 50, "s1")


def test_without_a_control_the_floor_is_assumed_and_nothing_is_said_of_one(store: Store) -> None:
    fill(store, ALONE, worse=1, neither=99)
    found = verdict(made(store, Config(shadows=CONFIG.shadows[:1])))
    assert (found["floor"], found["log_e_worse_than_control"], found["excess"]) == ("assumed", None, 0.01)
    assert found["tally"].keys() == {"worse", "neither", "missing"}
    assert found["bad_by"] == [{"by": "genuine_flip", "candidate": 1}]


def test_terms_are_those_of_the_configuration_and_counts_do_not_depend_on_them(store: Store) -> None:
    fill(store, neither=300)
    loose = Config(shadows=CONFIG.shadows, verdict=Verdict(alpha=0.05, margin=0.1))
    assert (verdict(made(store))["state"], verdict(made(store, loose))["state"]) == ("KEEP WATCHING", "PASS")


def test_a_part_of_the_time_has_the_verdict_of_all_of_it_and_says_so(store: Store) -> None:
    fill(store, neither=50)
    report = made(store, wanted=Filter(since=2e9))
    assert verdict(report)["conversations"] == 50
    assert verdict_lines(report)[0].endswith(
        "The verdict is of every conversation of this pair of stacks, not only of the time shown."
    )


def printed(report) -> str:
    out = io.StringIO()
    render(report, Console(file=out, width=1000, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize(
    ("scope", "counts", "sentences"),
    [
        (
            SCOPE,
            {"worse": 90, "both": 2, "better": 1, "neither": 300, "missing": 3},
            ("candidate: FAIL after 393 conversations: bad more often than the control by ", "Bad in 92 (genuine_flip 92); the control in 3 (output_length 3)."),
        ),
        (SCOPE, {"neither": 40}, ("candidate: KEEP WATCHING after 40 conversations; about ", " more to a PASS if it goes on like this. Evidence (natural logarithm; 4.61 decides): -", " for FAIL (bad more often than the control by over 1 %), ", " for PASS. None was bad.")),
        (SCOPE, {"worse": 3, "neither": 7}, ("candidate: KEEP WATCHING after 10 conversations; about ", " more to a FAIL if it goes on like this.")),
        (ALONE, {"worse": 1, "neither": 20}, (" more to a FAIL if it goes on like this. Evidence (natural logarithm; 4.61 decides): ", " for FAIL (bad in over 1 % of conversations), -", " for PASS. Bad in 1 (genuine_flip 1).")),
        (SCOPE, {"neither": 30, "missing": 7}, ("candidate: KEEP WATCHING after 30 conversations; no PASS while so many have no result (about ", " more that have one would be evidence enough). Evidence")),
        (SCOPE, {"missing": 7}, ("candidate: KEEP WATCHING after 0 conversations. 7 more have no result (shadow_error 7): ",)),
        (
            SCOPE,
            {"neither": 4000, "missing": 100},
            ("candidate: KEEP WATCHING after 4,000 conversations, with evidence enough for a PASS but for what is missing.", "100 more have no result (shadow_error 100): 2.44 % of all, where a PASS bears 0.5 %; were all of them bad for it alone: "),
        ),
        (SCOPE, {"neither": 4000}, ("candidate: PASS after 4,000 conversations: bad more often than the control by 0 % of them (", " %, 99 % sure at all times). Evidence ", "None was bad.")),
        (ALONE, {"worse": 2, "neither": 3000}, ("candidate: PASS after 3,002 conversations: bad in ", "There is no control: the floor is assumed, 1 % of conversations may be bad.")),
    ],
)  # fmt: skip
def test_it_is_said_in_plain_sentences_before_everything_else(store, scope, counts, sentences) -> None:
    fill(store, scope, **counts)
    text = printed(made(store))
    for sentence in sentences:
        assert sentence in text
    assert text.index("candidate: ") < text.index("compared")


def test_the_exit_status_is_that_of_the_gravest_verdict(store: Store) -> None:
    assert exit_status(made(store), ()) == 3
    fill(store, neither=4000)
    assert exit_status(made(store, Config()), ()) == 0
    assert exit_status(made(store), {"candidate", "control"}) == 0
    fill(store, SCOPE._replace(candidate="other"), neither=10)
    assert exit_status(made(store), {"candidate", "control"}) == 0  # no longer configured
    assert exit_status(made(store, Config()), ()) == 3
    fill(store, SCOPE._replace(candidate="third"), worse=40)
    assert exit_status(made(store, Config()), ()) == 1
    assert verdict(made(store, Config()), "third")["log_e_fail"] >= log(100)


def test_sampled_output_has_evidence_of_its_own_and_no_part_in_the_verdict(store: Store) -> None:
    for scope, value in ((SCOPE, 0.55), (ALONE._replace(candidate="alone"), 0.08)):
        trials = tuple(Counted(scope, f"u{n}", f"q{n}", 1e9, Result.NEITHER, variation=value) for n in range(800))
        store.settle([Settlement("i1", "", "", SETTLED, trials=trials)])
    report = made(store)
    for name, truth in (("candidate", 0.1), ("alone", 0.08)):
        found = verdict(report, name)
        evidence = found["total_variation"]
        assert evidence["conversations"] == 800
        assert evidence["excess_interval"][0] < truth < evidence["excess_interval"][1]
        assert evidence["log_e_fail"] > log(100) > evidence["log_e_pass"]
        assert found["state"] == "PASS"
    assert "above the control's on average, which is no part of the verdict." in printed(report)
    fill(store, SCOPE._replace(candidate="greedy"), neither=3)
    assert "total_variation" not in verdict(made(store, Config()), "greedy")


def test_what_would_show_more_is_said_where_texts_differ_by_nobody_knows_what(store: Store) -> None:
    fill(store, neither=5, missing=2)
    assert "rescore" not in printed(made(store))
    one = Counted(SCOPE, "u", "q", 1e9, Result.MISSING, "genuine_flip", "unknown_flip")
    store.settle([Settlement("i1", "", "", SETTLED, trials=(one,))])
    report = made(store)
    assert verdict(report)["missing_by"] == {"shadow_error": 2, "control_unknown_flip": 1}
    assert "primary.logprobs: inject or rescore shows it." in printed(report)
