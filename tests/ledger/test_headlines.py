"""The report sets every headline number beside the control's of the same mode, and the terminal shows the three."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from proxy.compare.comparison import FlipClass
from proxy.config import Config, Shadow
from proxy.ledger.render import render
from proxy.ledger.render_floors import print_llama_cpp
from proxy.ledger.report import build_report

CONFIG = Config(shadows=(Shadow("candidate", "http://c"), Shadow("floor", "http://d", role="control")))


def settle(store, make, *, control=("free", "forced"), primary="p1", n=30):
    """Candidates flip in every third request, the control in every tenth; each request is a conversation."""
    batch = []
    for number in range(n):
        shared = {"exchange": f"x{number}", "conversation": f"c{number}"}
        flips = (FlipClass.GENUINE,) if number % 3 == 0 else ()
        batch.append(make.record(number, make.forced(*flips), **shared))
        batch.append(make.record(100 + number, make.free(FlipClass.GENUINE if flips else None), **shared))
        shared |= {"shadow": "floor", "role": "control", "primary_footprint": primary}
        noisy = number % 10 == 0
        if "forced" in control:
            batch.append(make.record(200 + number, make.forced(*((FlipClass.NEAR_TIE,) if noisy else ())), **shared))
        if "free" in control:
            batch.append(make.record(300 + number, make.free(FlipClass.NEAR_TIE if noisy else None), **shared))
    store.settle([make.compared(one) for one in batch])


def modes(store, name="candidate"):
    report = build_report(CONFIG, store, command="test", now=0.0)
    return next(shadow["modes"] for shadow in report["shadows"] if shadow["name"] == name)


def shown(report, width=80):
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    render(report, console)
    return out.getvalue()


def test_forced_mode_has_a_floor_and_an_excess_too(store, make):
    settle(store, make)
    flips = modes(store)["forced"]["headline"]["flips_per_1000_positions"]
    assert (flips["raw"], flips["floor"], flips["n"], flips["floor_n"]) == (1000 * 10 / 120, 1000 * 3 / 120, 120, 120)
    assert flips["excess"] == flips["raw"] - flips["floor"]
    assert flips["interval"][0] < flips["excess"] < flips["interval"][1]
    assert flips["conversations"] == flips["floor_conversations"] == 30
    free = modes(store)["free"]["headline"]
    hazard = modes(store)["free"]["hazard_per_1000_tokens"]
    same = free["divergences_per_1000_tokens"]
    assert {key: same[key] for key in hazard} == hazard
    assert free["identical_share"]["raw"] == pytest.approx(20 / 30)
    own = modes(store, "floor")["forced"]["headline"]["flips_per_1000_positions"]
    assert (own["raw"], "floor" in own) == (flips["floor"], False)


def test_each_mode_has_the_floor_of_a_control_that_ran_in_it(store, make):
    settle(store, make, control=("forced",))
    assert "floor" in modes(store)["forced"]["headline"]["flips_per_1000_positions"]
    assert "floor" not in modes(store)["free"]["headline"]["divergences_per_1000_tokens"]


def test_a_control_beside_another_primary_is_no_floor_in_either_mode(store, make):
    settle(store, make, primary="p2")
    for mode in ("free", "forced"):
        assert not any("floor" in number for number in modes(store)[mode]["headline"].values())


def test_without_known_conversations_there_is_no_interval(store, make):
    settle(store, make)
    floor = {"shadow": "floor", "role": "control", "primary_footprint": "p1"}
    for number, arm in ((999, {}), (1999, floor)):
        store.settle([make.compared(make.record(number, make.forced(), exchange="x999", conversation="", **arm))])
    flips = modes(store)["forced"]["headline"]["flips_per_1000_positions"]
    assert {"raw", "floor", "excess"} < flips.keys()
    assert not {"interval", "raw_interval", "floor_interval", "conversations"} & flips.keys()


def test_the_terminal_shows_raw_floor_and_excess(store, make):
    settle(store, make)
    text = shown(build_report(CONFIG, store, command="test", now=0.0))
    assert max(map(len, text.splitlines())) <= 80
    part = text.partition("candidate, forced: against the noise floor")[2]
    line = next(line for line in part.splitlines() if line.startswith(" flips / 1,000 "))
    assert re.fullmatch(r" flips / 1,000 +83\.3 +25 +58\.3 \[[-0-9., ]+\] +120 *", line)
    assert next(line for line in part.splitlines() if "same first choice" in line).split()[3:8] == ["91.7", "%", "97.5", "%", "-5.83"]  # fmt: skip
    assert "above 5" not in part  # neither arm has any
    assert "floor, forced" not in text
    assert text.count("raw: the candidate") == 1


def test_without_a_floor_the_table_has_no_column_for_one(store, make):
    settle(store, make, control=())
    text = shown(build_report(CONFIG, store, command="test", now=0.0))
    part = text.partition("candidate, forced: without a noise floor")[2]
    assert part.split()[:4] == ["raw", "95", "%", "n"]
    line = next(line for line in part.splitlines() if line.startswith(" flips / 1,000 "))
    assert re.fullmatch(r" flips / 1,000 +83\.3 +\[[0-9., ]+\] +120 *", line)
    assert "against the noise floor" not in text


def test_llama_cpps_statistics_are_printed_on_request(store, make):
    settle(store, make)
    report = build_report(CONFIG, store, command="test", now=0.0)
    block = next(shadow for shadow in report["shadows"] if shadow["name"] == "candidate")["modes"]["forced"][
        "llama_cpp"
    ]
    assert block["tokens"]["perplexity"] == 120
    assert "Mean PPL(Q)" not in shown(report)
    out = io.StringIO()
    print_llama_cpp(report["shadows"], Console(file=out, width=100, color_system=None))
    assert out.getvalue().count("Mean PPL(Q)  ") == 2  # the control has one, too
    assert "Same top p:   91.667 ± 2.534 %" in out.getvalue()


def test_the_first_sentences_say_the_excess_of_forced_mode(store, make):
    settle(store, make)
    text = " ".join(shown(build_report(CONFIG, store, command="test", now=0.0)).split())
    said = re.search(
        r"an excess of (\S+) flips per 1,000 positions \(95 %: (\S+) to (\S+)\)(, an interval that includes 0)?\. ",
        text,
    )
    assert said is not None
    low, raw, high = float(said[2]), float(said[1]), float(said[3])
    assert low < raw < high
    assert bool(said[4]) == (low <= 0 <= high)
    assert raw == pytest.approx(58.3, abs=0.05)
    for first, arm in ((500, {}), (600, {"shadow": "floor", "role": "control"})):
        unknown = [make.record(first + n, make.forced(), exchange=f"y{n}", conversation="", **arm) for n in range(5)]
        store.settle([make.compared(one) for one in unknown])
    assert "flips per 1,000 positions (no interval: it is not known which replies are of one conversation)." in shown(build_report(CONFIG, store, command="test", now=0.0), 400)  # fmt: skip


def test_a_row_without_an_interval_says_why(store, make):
    settle(store, make, n=8)
    report = build_report(CONFIG, store, command="test", now=0.0)
    text = " ".join(shown(report).split())
    assert "no interval, for fewer than 10 conversations: all." in text
    numbers = next(one for one in report["shadows"] if one["role"] == "candidate")["modes"]["forced"]["headline"]
    assert numbers["flips_per_1000_positions"]["no_interval"]["interval"] == "few_conversations"
