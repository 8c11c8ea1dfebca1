"""The report says what its records say: recomputed from the export by other code, every number is the same."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import proxy.ledger
from proxy.compare.comparison import Comparison, FlipClass, Mode, Source, TauOrigin
from proxy.config import Config, Shadow
from proxy.ledger.conservation import ArmTerms, Terms
from proxy.ledger.export import export_jsonl
from proxy.ledger.query import Filter
from proxy.ledger.reconcile import Arm
from proxy.ledger.record import Settlement, Timing
from proxy.ledger.report import build_report
from proxy.ledger.store import Store
from tests.ledger import agreement

CONFIG = Config(
    shadows=(Shadow("candidate", "http://c"), Shadow("control", "http://d", role="control")),
)
KINDS = [None, None, *FlipClass]


def jittered(chance: random.Random, comparison: Comparison) -> Comparison:
    """The same comparison with other values, some of them missing."""

    def logprob(near: float | None) -> float | None:
        if near is None or chance.random() < 0.1:
            return None
        return near * chance.uniform(0.9, 1.1)

    choices = tuple(
        replace(
            choice,
            primary_logprobs=tuple(logprob(one) for one in choice.primary_logprobs),
            shadow_logprobs=tuple(logprob(one) for one in choice.shadow_logprobs),
            top1_agree=tuple(chance.choice([None, one]) for one in choice.top1_agree),
            kl_lower_bounds=tuple(chance.choice([None, chance.random()]) for _ in choice.kl_lower_bounds),
        )
        for choice in comparison.choices
    )
    return replace(
        comparison,
        choices=choices,
        source=chance.choice(list(Source)),
        expected_flips=chance.choice([None, chance.random()]),
        tau=chance.choice([None, 0.001, 0.25]),
        tau_origin=chance.choice(list(TauOrigin)),
    )


@pytest.fixture(params=[1, 2, 3])
def filled(request, store, make):
    """A store with two shadows, both modes and every outcome, at random."""
    chance = random.Random(request.param)
    batch = []
    number = 0
    for exchange in range(60):
        for shadow in ("candidate", "control"):
            free = make.free(chance.choice(KINDS), findings=chance.choice([(), ("output_length",), ("stop_handling",)]))
            forced = make.forced(*chance.choices(list(FlipClass), k=chance.randrange(4)))
            for comparison in (free, forced):
                made = jittered(chance, comparison)
                if chance.random() < 0.15:
                    made = Comparison(mode=made.mode, incomparable=chance.choice(["sampled", "token_count"]))
                elif chance.random() < 0.1:
                    made = replace(made, values_incomparable="logprob_mode")
                timing = Timing(
                    first_token=chance.choice([None, chance.random()]),
                    end=chance.choice([None, 2.0]),
                    gaps=(chance.random(),),
                )
                batch.append(
                    make.compared(
                        make.record(
                            number, made, shadow=shadow, role=shadow, exchange=f"x{exchange}", shadow_timing=timing
                        )
                    )
                )
                number += 1
    store.settle(batch)
    return store


def test_every_number_is_that_of_the_export(filled, tmp_path):
    path = tmp_path / "export.jsonl"
    assert export_jsonl(filled.records(), path) == 240
    report = build_report(CONFIG, filled, command="test", now=0.0)
    for shadow in report["shadows"]:
        for mode in ("free", "forced"):
            assert shadow["modes"][mode]["requests"] > 40
    agreement.check(report, path)
    assert agreement.check_headlines(report, path) > 100


def test_the_control_is_the_floor_of_the_candidate_only(filled):
    candidate, control = build_report(CONFIG, filled, command="test", now=0.0)["shadows"]
    hazard = candidate["modes"]["free"]["hazard_per_1000_tokens"]
    floor = control["modes"]["free"]["hazard_per_1000_tokens"]
    made = {
        name: {one.exchange: one.comparison.choices[0] for one in filled.records() if one.shadow == name and one.comparison.mode is Mode.FREE and one.comparison.choices}
        for name in ("candidate", "control")
    }  # fmt: skip
    both = [one for exchange, one in made["control"].items() if exchange in made["candidate"]]
    assert 0 < len(both) < len(made["control"])
    parted = sum(one.first is not None for one in both)
    assert hazard["floor"] == pytest.approx(1000 * parted / sum(one.exposed for one in both))
    assert hazard["excess"] == pytest.approx(hazard["raw"] - hazard["floor"])
    assert "floor" not in floor


def test_an_interval_is_given_only_where_conversations_are_known(store, make):
    def records(**fields):
        return [
            make.record(number, make.free(KINDS[number % 6]), exchange=f"x{number}", **fields) for number in range(40)
        ]

    store.settle([make.compared(one) for one in records()])
    hazard = build_report(CONFIG, store, command="test", now=0.0)["shadows"][0]["modes"]["free"][
        "hazard_per_1000_tokens"
    ]
    assert "interval" not in hazard
    with Store.open(f"sqlite:///{store.path}.other") as other:
        other.settle([make.compared(replace(one, conversation=one.exchange)) for one in records()])
        report = build_report(CONFIG, other, command="test", now=0.0)
    found = report["shadows"][0]["modes"]["free"]["hazard_per_1000_tokens"]
    low, high = found["interval"]
    assert low < hazard["raw"] < high
    assert found["raw_interval"] == [low, high]


def test_a_control_without_a_difference_is_not_certain_to_have_none(store, make):
    batch = [
        make.record(
            100 * (name == "control") + number, exchange=f"x{number}", shadow=name, role=name, conversation=f"c{number}"
        )
        for number in range(40)
        for name in ("candidate", "control")
    ]
    store.settle([make.compared(one) for one in batch])
    candidate, control = build_report(CONFIG, store, command="test", now=0.0)["shadows"]
    floor = control["modes"]["free"]["hazard_per_1000_tokens"]
    assert floor == {"raw": 0.0, "raw_interval": floor["interval"], "interval": [0.0, pytest.approx(15.0, abs=0.03)]}
    low, high = candidate["modes"]["free"]["hazard_per_1000_tokens"]["interval"]
    assert low < 0 < high


@pytest.mark.parametrize("config", [Config(), Config(shadows=(Shadow("other", "http://o"),))])
def test_shadows_that_only_the_store_knows_are_shown(filled, config):
    filled.settle([Settlement("i1", "gone", "forced", "shed", "lost_on_crash")] * 2)
    report = build_report(config, filled, Terms(1, 0, 1, 0, {}), command="report", now=0.0)
    configured = [shadow.name for shadow in config.shadows]
    assert [shadow["name"] for shadow in report["shadows"]] == [*configured, "candidate", "control", "gone"]
    candidate, control, gone = report["shadows"][-3:]
    assert [one["role"] for one in (candidate, control, gone)] == ["candidate", "control", "unknown"]
    same = build_report(CONFIG, filled, command="report", now=0.0)["shadows"][0]
    hazard = candidate["modes"]["free"]["hazard_per_1000_tokens"]
    assert hazard == same["modes"]["free"]["hazard_per_1000_tokens"]
    assert "floor" in hazard
    assert list(candidate["modes"]) == ["free", "forced"]
    assert candidate["modes"]["forced"]["compared"] == candidate["modes"]["forced"]["requests"]
    assert candidate["modes"]["free"]["incomparable"] == same["modes"]["free"]["incomparable"]
    assert list(gone["modes"]) == ["forced"]
    assert gone["modes"]["forced"]["shed"] == {"lost_on_crash": 2}
    assert gone["modes"]["forced"]["compared"] == 0
    assert "in_flight" not in gone["modes"]["forced"]


def test_a_part_of_the_records_shows_only_the_shadows_in_it(store, make):
    store.settle([make.compared(make.record(1)), make.compared(make.record(9, shadow="late"))])
    report = build_report(Config(), store, command="test", now=0.0, wanted=Filter(since=1_700_000_005.0))
    assert [shadow["name"] for shadow in report["shadows"]] == ["late"]


def test_what_near_ties_were_judged_by_is_in_each_mode(store, make):
    judged = {"tau": 0.001, "tau_origin": TauOrigin.ASSUMED}
    store.settle([make.compared(make.record(1, make.free(**judged)))])
    store.settle([make.compared(make.record(2, make.forced(**(judged | {"tau": 0.25}))))])
    modes = build_report(CONFIG, store, command="test", now=0.0)["shadows"][0]["modes"]
    assert modes["free"]["near_tie"] == {"tau_nats": 0.001, "origin": "assumed"}
    assert modes["forced"]["near_tie"] == {"tau_nats": 0.25, "origin": "assumed"}


def test_what_was_not_measured_is_absent():
    report = build_report(CONFIG, None, command="test", now=1_700_000_000.0)
    assert report["time"] == "2023-11-14T22:13:20+00:00"
    assert "requests" not in report
    assert "model" not in report
    assert report["records"] == 0
    candidate = report["shadows"][0]
    assert candidate["verdict"]["state"] == "KEEP WATCHING"
    assert candidate["verdict"]["coverage"] is None
    assert candidate["footprint_differences"] == []
    assert "logprob_error_nats" not in candidate["modes"]["free"]
    assert "top1_agreement" not in candidate["modes"]["forced"]
    assert candidate["modes"]["free"]["requests"] == 0
    assert candidate["latency"]["time_to_first_token_seconds"] == {"primary": {}, "shadow": {}}
    json.dumps(report)


def test_what_has_no_record_is_counted_from_the_ledgers(store, make):
    store.settle([make.compared(make.record(1))])
    counted = ArmTerms(1, {"not_json": 2}, {"queue": 3, "capture": 0}, 1, 0, 1, None, 0)
    terms = Terms(10, 2, 8, 0, {Arm("candidate", "free"): counted})
    report = build_report(CONFIG, store, terms, command="serve", now=0.0)
    assert report["requests"] == {"received": 10, "not_sampled": 2, "sampled": 8, "undecided": 0}
    free = report["shadows"][0]["modes"]["free"]
    assert (free["compared"], free["incomparable"], free["shed"], free["in_flight"]) == (
        1,
        {"not_json": 2},
        {"queue": 3},
        2,
    )
    assert "shed" not in report["shadows"][1]["modes"]["free"]


def test_footprints_and_their_differences(store, make):
    store.put_footprint("p1", {"engine": "vllm", "version": "1", "gpu": None, "dtype": "bfloat16"}, 0.0)
    store.put_footprint("s1", {"engine": "sglang", "version": "1", "gpu": "H200", "dtype": "bfloat16"}, 0.0)
    store.settle([make.compared(make.record(1, primary_footprint="old")), make.compared(make.record(2))])
    report = build_report(CONFIG, store, command="test", now=0.0)
    assert report["primary"]["footprint"]["engine"] == "vllm"
    assert report["shadows"][0]["footprint_differences"] == [
        {"field": "engine", "primary": "vllm", "shadow": "sglang", "sure": True},
        {"field": "gpu", "primary": None, "shadow": "H200", "sure": False},
    ]


def test_findings_come_with_their_remedy(store, make):
    seen = {"prompt_tokens": {"primary_tokens": 4, "shadow_tokens": 5}}
    found = make.free(findings=("prompt_tokens", "a_new_one"), evidence=seen)
    store.settle([make.compared(make.record(number, found)) for number in range(2)])
    findings = build_report(CONFIG, store, command="test", now=0.0)["shadows"][0]["findings"]
    assert findings[0]["finding"] == "prompt_tokens"
    assert findings[0]["count"] == 2
    assert findings[0]["severity"] == "explains"
    assert "chat template" in findings[0]["remedy"]
    assert (findings[0]["layer"], findings[0]["evidence"]) == ("prompt", seen["prompt_tokens"])
    nothing = {"layer": None, "evidence": {}, "remedy": ""}
    assert findings[1] == {"finding": "a_new_one", "severity": "notice", "count": 2} | nothing


def test_a_part_of_the_records(store, make):
    store.settle(
        [make.compared(make.record(number, exchange=f"x{number}", model=f"m{number % 3}")) for number in range(10)]
    )
    report = build_report(CONFIG, store, command="test", now=0.0, wanted=Filter(since=1_700_000_004.0))
    assert report["records"] == 6
    assert report["models"] == {"m1": 2, "m2": 2, "m0": 2}
    assert report["shadows"][0]["modes"]["free"]["requests"] == 6


def test_a_mode_that_is_not_configured_shows_only_with_records(store, make):
    config = Config(shadows=(Shadow("candidate", "http://c", modes=("free",)),))
    assert list(build_report(config, store, command="test", now=0.0)["shadows"][0]["modes"]) == ["free"]
    store.settle([make.compared(make.record(1, make.forced()))])
    modes = build_report(config, store, command="test", now=0.0)["shadows"][0]["modes"]
    assert list(modes) == ["free", "forced"]
    assert modes["forced"]["requests"] == 1
    assert Mode.FORCED.value in modes


def test_every_key_of_the_report_is_written_down(filled):
    """What people build on is in the README: by its name, in code marks."""
    readme = (Path(proxy.ledger.__file__).parent / "README.md").read_text(encoding="utf-8").partition("report/1`)")[2]
    counted = ArmTerms(1, {}, {"queue": 3}, 1, 0, 1, None, 0)
    terms = Terms(10, 2, 8, 0, {Arm("candidate", mode): counted for mode in ("free", "forced")})
    report = build_report(CONFIG, filled, terms, command="serve", now=0.0)
    modes = report["shadows"][0]["modes"]
    keys = report.keys() | report["shadows"][0].keys() | modes["free"].keys() | modes["forced"].keys()
    keys |= modes["free"]["near_tie"].keys() | modes["free"]["hazard_per_1000_tokens"].keys()
    keys |= report["shadows"][0]["ties"].keys()
    obvious = {"schema", "time", "command", "name", "footprint", "primary", "modes", "shadows"}
    written = set(re.findall(r"[a-z0-9_]+", " ".join(re.findall(r"`([^`]+)`", readme))))
    assert keys - obvious <= written
