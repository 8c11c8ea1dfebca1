"""The tables show the report's numbers, the control as the noise floor, and nothing of what a model might do to a terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from proxy.compare.comparison import FlipClass
from proxy.config import Config, Shadow
from proxy.ledger.conservation import ArmTerms, Terms
from proxy.ledger.reconcile import Arm
from proxy.ledger.render import render
from proxy.ledger.report import build_report

CONFIG = Config(shadows=(Shadow("floor", "http://d", role="control", modes=("free",)), Shadow("candidate", "http://c")))


def shown(report, width: int = 140) -> str:
    out = io.StringIO()
    render(report, Console(file=out, width=width, color_system=None))
    return out.getvalue()


@pytest.fixture
def report(store, make):
    kinds = [None, FlipClass.EXACT_TIE, FlipClass.GENUINE]
    batch = []
    for number, kind in enumerate(kinds):
        batch.append(make.record(number, make.free(kind, findings=("output_length",)), exchange=f"x{number}"))
        batch.append(make.record(10 + number, make.free(), exchange=f"x{number}", shadow="floor", role="control"))
        batch.append(make.record(20 + number, make.forced(FlipClass.NEAR_TIE), exchange=f"x{number}"))
    store.settle([make.compared(one) for one in batch])
    store.put_footprint("p1", {"engine": "vllm", "dtype": "bf16"}, 0.0)
    store.put_footprint("s1", {"engine": "sglang", "dtype": "bf16"}, 0.0)
    counted = ArmTerms(3, {"sampled": 7}, {"queue": 2}, 0, 0, 1, None, 0)
    terms = Terms(20, 7, 13, 0, {Arm("candidate", "free"): counted})
    return build_report(CONFIG, store, terms, command="test", now=1_700_000_000.0)


def row(text: str, label: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f" {label} "))
    return re.split(r"\s{2,}", line.removeprefix(f" {label} ").strip())


def test_candidate_and_control_stand_side_by_side(report):
    text = shown(report)
    assert "requests: 20 received, 13 sampled (chosen to be compared), 7 not sampled" in text
    assert "the primary's tokens from: 3 its reply (reply)" in text
    head = [line for line in text.splitlines() if "noise floor" in line and "candidate " in line]
    assert head[0].index("candidate") < head[0].index("noise floor")
    assert text.index("candidate, free: against the noise floor") < text.index("free: each shadow answers")
    text = text.partition("free: each shadow answers")[2]
    assert row(text, "requests compared") == ["3", "3"]
    assert row(text, "tokens compared") == ["13", "15"]
    assert row(text, "  identical replies") == ["1 (33.3 %)", "3 (100.0 %)"]
    assert row(text, "divergences") == ["2", "0"]
    assert row(text, "  exact tie") == ["1", "0"]
    assert row(text, "  genuine") == ["1", "0"]
    assert row(text, "first one: median token") == ["3", "–"]
    assert row(text, "incomparable") == ["not greedy (sampled) 7", "0"]
    assert row(text, "shed") == ["queue 2", "0"]
    assert row(text, "hazard per 1,000 tokens") == ["154", "0"]
    assert row(text, "  noise floor") == ["0", "–"]
    assert row(text, "  excess over the floor") == ["154", "–"]
    assert "engine vllm → sglang" in text
    assert "output_length (functional), 3 times" in text


def test_it_begins_with_what_the_numbers_say(report):
    head = shown(report).split("free: each")[0]
    assert "candidate answered 1 of 3 greedy requests as the primary did; floor (control) answered 3 of 3." in head
    assert "so none of candidate's 2 differences is explained by noise that was seen." in head


def test_forced_shows_those_who_take_part(report):
    text = shown(report)
    forced = text[text.index("forced: each") :]
    assert row(forced, "flips") == ["3 of 12 (25.0 %)"]
    assert row(forced, "  near tie") == ["3"]
    assert row(forced, "k1 / k3") == ["-0.0125 / 0.0016 (a score)"]
    summary = report["shadows"][1]["modes"]["forced"]
    summary["k3_is_kl"] = 0.25
    assert row(shown(report), "k1 / k3") == ["-0.0125 / 0.0016 (nat of KL for 25 % of tokens)"]


def test_the_primarys_pace_is_shown_once(report):
    latency = shown(report).partition("latency of streamed")[2]
    assert row(latency, "first token: median / p99") == ["0.1 / 0.1", "0.2 / 0.2", "0.2 / 0.2"]
    counts = [line.split() for line in latency.splitlines() if line.startswith("   n ")]
    assert counts == [["n", "3", "3", "3"], ["n", "6", "3", "3"]]  # first tokens, gaps
    report["shadows"][1]["latency"]["time_to_first_token_seconds"]["shadow"] = {}
    assert row(shown(report), "first token: median / p99") == ["0.1 / 0.1", "not streamed", "0.2 / 0.2"]


def test_a_legend_explains_the_rows_that_are_there_and_once(report):
    text = shown(report)
    for term in ("hazard: ", "left out of the relative error: ", "k1 / k3: ", "near tie: ", "tie-break mismatch: "):
        assert text.count(term) == 1, term
    assert "as text alone" not in text
    assert "KL at least: " in text
    report["shadows"][1]["modes"]["free"]["by_text"] = 1
    assert "as text alone (by_text): " in shown(report)
    near = {"tau_nats": 0.001, "origin": "assumed"}
    for shadow in report["shadows"]:
        for numbers in shadow["modes"].values():
            numbers["near_tie"] = near
    assert "near tie: the primary's gap between them is <= 0.001 nat (assumed)." in shown(report)


def test_ties_are_one_line_where_nobody_saw_any(report):
    assert row(shown(report), "ties the primary reports") == ["0 of 12 (0.0 %)", "3 of 12 (25.0 %)"]
    for shadow in report["shadows"]:
        shadow["ties"] |= {"exact": 0, "shadow_exact": 0, "tie_break_mismatches": 0}
    text = shown(report)
    assert "ties the primary reports" not in text
    assert (
        "ties at the top of the list: none (positions of the primary and the shadow: 12 and 0 beside candidate" in text
    )


def test_eighty_columns_are_enough(report):
    report["shadows"][1]["modes"]["free"]["hazard_per_1000_tokens"] |= {
        "raw_interval": [15.7, 41.44],
        "interval": [-14.1, 41.44],
    }
    text = shown(report, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert row(text, "hazard per 1,000 tokens") == ["154 (95 %: 15.7 to 41.4)", "0"]
    assert not re.search(r"\d[eE][-+]\d", text)


def test_what_is_shown_of_a_part_of_the_time_says_so(report):
    line = "shown: what was compared in the last 5m; the verdicts are of all time"
    assert line not in shown(report)
    assert line in shown(report | {"command": "report --since 5m"}).splitlines()


def test_what_is_still_under_way_is_said(report):
    assert "7 not sampled; 1 still being compared\n" in shown(report)
    report["shadows"][1]["modes"]["forced"]["in_flight"] = 4
    assert "7 not sampled; 4 still being compared\n" in shown(report)
    for numbers in report["shadows"][1]["modes"].values():
        numbers["in_flight"] = 0
    assert "still being compared" not in shown(report)


def test_a_sample_of_positions_is_explained_where_there_is_one(report):
    note = "n of m tokens: the engine scores a sample of positions"
    assert note not in shown(report)
    report["shadows"][1]["modes"]["forced"]["positions"] = {"scored": 12, "of": 90}
    assert note in shown(report)


def test_a_shadow_with_nothing_compared_is_one_line(report):
    for numbers in report["shadows"][1]["modes"].values():
        numbers |= {"requests": 0, "compared": 0, "in_flight": 2, "incomparable": {"sampled": 7}, "shed": {}}
    text = shown(report)
    assert "candidate: nothing compared: 2 in flight, 7 incomparable (not greedy (sampled) 7)" in text
    assert row(text, "requests compared") == ["3"]
    assert "forced: each" not in text


def test_an_empty_report_is_short_and_does_not_fail():
    text = shown(build_report(CONFIG, None, command="test", now=0.0), 80)
    assert text.splitlines() == [
        "Parhelion, 1970-01-01T00:00:00+00:00",
        "",
        "candidate: KEEP WATCHING; no conversation has been counted yet.",
        "",
        "Nothing has been compared yet.",
        "candidate: nothing compared: nothing is recorded",
        "floor (control): nothing compared: nothing is recorded",
    ]
    assert "no configuration that names a shadow was given" in shown(
        build_report(Config(), None, command="test", now=0.0)
    )


def test_hostile_names_are_inert(report):
    evil = "\x1b[31m[bold red]\u202eevil[/]\r\n\x07"
    report["models"] = {evil: 1}
    candidate = report["shadows"][1]
    candidate["name"] = evil
    candidate["findings"].append({"finding": evil, "severity": "notice", "count": 1, "remedy": ""})
    candidate["footprint_differences"].append({"field": "model", "primary": evil, "shadow": "x", "sure": True})
    candidate["modes"]["free"]["incomparable"] = {evil: 1}
    text = shown(report)
    assert not set(text) & set("\x1b\u202e\r\x07")
    assert "[bold red]" in text  # shown, not obeyed


def test_another_stack_and_a_lower_level_are_said(report):
    candidate = report["shadows"][1]
    block = {"requests": 12}
    changed = {"candidate": [{"field": "dtype", "before": "fp32", "after": "bf16", "sure": True}]}
    candidate["earlier"] = [
        {"last": "2026-01-01T00:00:00.000+00:00", "changed_since": changed, "modes": {"free": block, "forced": block}}
    ]
    candidate["left_out_between_stacks"] = 3
    candidate["capability"] = {"level": "no_ids", "modes": ["free"], "compared": "up to the first divergence"}
    text = " ".join(shown(report, 200).split())
    assert (
        "candidate: 24 comparisons until 2026-01-01T00:00:00.000+00:00 are of another stack and in none of these numbers"
        " (candidate: dtype fp32 → bf16)" in text
    )
    assert "candidate: 3 comparisons are of either stack" in text
    assert "candidate: no_ids: up to the first divergence" in text
