"""The tables show the report's numbers, the control as the noise floor, and nothing of what a model might do to a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proxy.compare.comparison import FlipClass
from proxy.config import Config, Shadow
from proxy.ledger.conservation import ArmTerms, Terms
from proxy.ledger.reconcile import Arm
from proxy.ledger.render import render
from proxy.ledger.report import build_report

CONFIG = Config(shadows=(Shadow("floor", "http://d", role="control", modes=("free",)), Shadow("candidate", "http://c")))


def shown(report) -> str:
    out = io.StringIO()
    render(report, Console(file=out, width=140, color_system=None))
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
    line = next(line for line in text.splitlines() if label in line)
    return [cell.strip() for cell in line.split("│")[2:-1]]


def test_candidate_and_control_stand_side_by_side(report):
    text = shown(report)
    assert "requests: 20 received, 7 not sampled, 13 sampled" in text
    assert "3 reply" in text
    head = [line for line in text.splitlines() if "noise floor" in line]
    assert "candidate" in head[0]
    assert head[0].index("candidate") < head[0].index("noise floor")
    assert row(text, "requests compared") == ["3", "3"]
    assert row(text, "tokens compared") == ["13", "15"]
    assert row(text, "identical replies") == ["1 (33.3 %)", "3 (100.0 %)"]
    assert row(text, "  exact tie") == ["1", "0"]
    assert row(text, "  genuine") == ["1", "0"]
    assert row(text, "first divergence") == ["3", "–"]
    assert row(text, "incomparable") == ["sampled 7", "0"]
    assert row(text, "shed") == ["queue 2", "–"]
    assert row(text, "hazard per 1,000") == ["153.8", "0"]
    assert row(text, "first token s: shadow") == ["0.2 / 0.2", "0.2 / 0.2"]
    assert "engine vllm → sglang" in text
    assert "output_length (functional), 3 times" in text


def test_forced_shows_those_who_take_part(report):
    text = shown(report)
    forced = text[text.index("forced: each") :]
    assert row(forced, "flips") == ["3"]
    assert row(forced, "  near tie") == ["3"]
    assert row(forced, "same first choice") == ["75.000 %"]
    assert row(forced, "k1 / k3") == ["-0.0125 / 0.0016 (a score)"]
    summary = report["shadows"][1]["modes"]["forced"]
    summary["k3_is_kl"] = 0.25
    assert row(shown(report), "k1 / k3") == ["-0.0125 / 0.0016 (nat of KL for 25 % of tokens)"]


def test_there_is_no_verdict_until_there_is_one(report):
    assert "PASS" not in shown(report)
    report["shadows"][1]["verdict"] = {"state": "KEEP WATCHING"}
    assert "candidate: KEEP WATCHING" in shown(report)


def test_an_empty_report_is_short_and_does_not_fail():
    text = shown(build_report(CONFIG, None, command="test", now=0.0))
    assert row(text, "requests compared") == ["0", "0"]
    assert "latency" not in text
    assert "logprob error" not in text


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
