"""One page from three sources: both formats parse, sums are right, series are bounded, a missing source is absent."""

from __future__ import annotations

import math

import msgspec
import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from engines.capabilities import Capabilities, SelfNoise
from engines.footprint import FIELDS
from engines.parity import Prompt
from proxy.compare.comparison import (
    Comparison,
    FlipClass,
    Mode,
    OutputShape,
    RankingComparison,
    Validity,
    VectorComparison,
)
from proxy.compare.trial import Result
from proxy.compare.verdict import Tally, Terms
from proxy.compare.verdict import judge as judge_tally
from proxy.config import Config, Shadow
from proxy.counters import Counters, Slot
from proxy.ledger import exposition, series, totals
from proxy.ledger.conservation import conservation
from proxy.ledger.judge_metrics import SNAPSHOT, JudgeMetrics
from proxy.ledger.metrics import BY_NAME, ENGINE_FIELDS, METRICS, PREFIX
from proxy.ledger.operation import Standing
from proxy.ledger.reconcile import Arm
from proxy.ledger.record import RequestFacts
from proxy.ledger.store import Key
from proxy.ledger.verdict_metrics import Known

CONFIG = Config(
    shadows=(Shadow("candidate", "http://c"), Shadow("control", "http://d", role="control", modes=("free",)))
)
ARMS = [Arm("candidate", "free"), Arm("candidate", "forced"), Arm("control", "free")]
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def judge(config: Config = CONFIG, **fields) -> JudgeMetrics:
    return JudgeMetrics(config, clock=lambda: 1000.0, **fields)


def page(directory, metrics: JudgeMetrics | None = None, counts=None, accept="", *, store_up=True):
    snapshot = None if metrics is None else series.decode(metrics.snapshot())
    with totals.read(directory) as summed:
        terms = conservation(summed, counts or {}, ARMS)
        merged = list(exposition.families(terms, summed, snapshot, now=1003.5, store_up=store_up))
    body, kind = exposition.render(merged, accept)
    text = body.decode()
    parse = parse_openmetrics if "openmetrics" in kind else parse_plain
    return {
        (sample.name.removeprefix(PREFIX), *(value for _, value in sorted(sample.labels.items()))): sample
        for family in parse(text)
        for sample in family.samples
    }


def value(samples, *key) -> float:
    return samples[key].value


def test_every_source_is_on_the_page_in_both_formats(tmp_path, make):
    counters = Counters.create(tmp_path / "a.bin")
    counters.add(Slot.RECEIVED, 10)
    counters.add(Slot.NOT_SAMPLED, 6)
    counters.add(Slot.SAMPLED, 4)
    counters.add(Slot.HANDED_OVER, 3)
    counters.add(Slot.SHED_QUEUE, 1)
    counters.finished(0, 200, 0.4)
    counters.finished(0, 503, 5000.0)
    counters.overhead(3e-5)
    metrics = judge()
    metrics.observe_comparison(make.record(1, make.free(FlipClass.EXACT_TIE)))
    counts = {
        Key("candidate", "free", "compared", ""): 1,
        Key("candidate", "free", "incomparable", "sampled"): 1,
        Key("control", "free", "shed", "busy"): 2,
    }
    for accept in ("", OPENMETRICS):
        found = page(tmp_path, metrics, counts, accept)
        assert value(found, "requests_total", "200", "chat_completions") == 1
        assert value(found, "requests_total", "503", "chat_completions") == 1
        assert value(found, "request_duration_seconds_count", "chat_completions") == 2
        assert value(found, "request_duration_seconds_sum", "chat_completions") == pytest.approx(5000.4)
        assert value(found, "request_duration_seconds_bucket", "chat_completions", "0.3") == 0
        assert value(found, "request_duration_seconds_bucket", "chat_completions", "0.5") == 1
        assert value(found, "request_duration_seconds_bucket", "chat_completions", "+Inf") == 2
        assert value(found, "overhead_seconds_bucket", "5e-05") == 1
        assert value(found, "received_total") == 10
        assert value(found, "sampled_total") == 4
        assert value(found, "not_sampled_total") == 6
        assert value(found, "undecided") == 0
        assert value(found, "compared_total", "free", "candidate") == 1
        assert value(found, "compared_total", "free", "control") == 0
        assert value(found, "shed_total", "free", "queue", "candidate") == 1
        assert value(found, "shed_total", "free", "queue", "control") == 1
        assert value(found, "shed_total", "free", "busy", "control") == 2
        assert value(found, "incomparable_total", "free", "sampled", "candidate") == 1
        assert value(found, "in_flight", "free", "candidate") == 1
        assert value(found, "in_flight", "forced", "candidate") == 3
        assert value(found, "comparisons_total", "free", "m", "diverged", "candidate") == 1
        assert value(found, "judge_snapshot_age_seconds") == 3.5
        assert value(found, "store_up") == 1
        for arm in ARMS:  # the contract's law, from the page alone
            ended = sum(
                sample.value
                for key, sample in found.items()
                if key[0] in {"compared_total", "incomparable_total", "shed_total", "in_flight"}
                and (sample.labels["shadow"], sample.labels["mode"]) == arm
            )
            assert ended == value(found, "sampled_total") + value(found, "undecided")
    counters.close()


def test_exemplars_name_the_record(tmp_path, make):
    metrics = judge()
    metrics.observe_comparison(make.record(0xBEEF, make.free(FlipClass.GENUINE)))
    found = page(tmp_path, metrics, accept=OPENMETRICS)
    exemplar = found["flips_total", "genuine", "free", "m", "candidate"].exemplar
    assert exemplar.labels == {"record_id": "0000beef"}
    worst = [s.exemplar for k, s in found.items() if k[0] == "logprob_error_nats_bucket" and s.exemplar]
    assert {one.labels["record_id"] for one in worst} == {"0000beef"}
    assert not any(sample.exemplar for sample in page(tmp_path, metrics).values())


def test_what_a_comparison_moves(tmp_path, make):
    metrics = judge()
    metrics.observe_comparison(
        make.record(1, make.free(FlipClass.EXACT_TIE, findings=("tool_call_name", "finish_reason")))
    )
    metrics.observe_comparison(make.record(2, make.forced(FlipClass.NEAR_TIE, FlipClass.GENUINE, expected_flips=0.5)))
    scored = make.forced()
    partly = tuple(replace(choice, top1_agree=(True, None, True, True)) for choice in scored.choices)
    metrics.observe_comparison(make.record(3, replace(scored, choices=partly)))
    metrics.observe_comparison(make.record(4, Comparison(mode=Mode.FREE, incomparable="sampled")))
    found = page(tmp_path, metrics)
    expected = {
        ("tokens_compared_total", "free", "m", "candidate"): 4,
        ("tokens_compared_total", "forced", "m", "candidate"): 8,
        ("flip_positions_total", "free", "m", "candidate"): 4,
        ("flip_positions_total", "forced", "m", "candidate"): 7,
        ("flips_total", "exact_tie", "free", "m", "candidate"): 1,
        ("flips_total", "near_tie", "forced", "m", "candidate"): 1,
        ("flips_total", "genuine", "forced", "m", "candidate"): 1,
        ("divergences_total", "exact_tie", "m", "candidate"): 1,
        ("exposed_tokens_total", "m", "candidate"): 4,
        ("expected_flips_total", "forced", "m", "candidate"): 0.5,
        ("flips_held_against_noise_total", "forced", "m", "candidate"): 2,
        ("tie_positions_total", "primary", "free", "candidate"): 3,
        ("tie_positions_total", "primary", "forced", "candidate"): 8,
        ("tie_break_mismatches_total", "free", "candidate"): 1,
        ("exact_ties_total", "primary", "free", "candidate"): 1,
        ("exact_ties_total", "shadow", "free", "candidate"): 1,
        ("tie_break_total", "free", "lowest", "candidate", "highest"): 1,
        ("first_divergence_token_bucket", "1.0", "candidate"): 0,
        ("first_divergence_token_bucket", "4.0", "candidate"): 1,
        ("output_length_ratio_sum", "candidate"): 1.4,
        ("finish_reason_mismatches_total", "candidate"): 1,
        ("tool_call_mismatches_total", "name", "candidate"): 1,
        ("findings_total", "finish_reason", "candidate"): 1,
        ("comparisons_total", "free", "m", "incomparable", "candidate"): 1,
        ("comparisons_total", "forced", "m", "scored", "candidate"): 2,
        ("logprob_error_nats_count", "free", "candidate"): 3,
        ("logprob_error_nats_bucket", "0.0", "free", "candidate"): 1,
        ("logprob_relative_error_count", "free", "candidate"): 2,
        ("token_rank_count", "forced", "candidate"): 8,
        ("token_rank_bucket", "1.0", "forced", "candidate"): 6,
        ("time_to_first_token_seconds_count", "primary"): 4,
        ("time_to_first_token_seconds_count", "candidate"): 2,
        ("inter_token_seconds_count", "primary"): 8,
        ("inter_token_seconds_sum", "candidate"): 0.08,
    }
    for key, wanted in expected.items():
        assert value(found, *key) == pytest.approx(wanted), key
    assert ("prompt_token_mismatches_total", "candidate") not in found


def test_the_primarys_time_counts_once_for_one_exchange(tmp_path, make):
    metrics = judge()
    metrics.observe_comparison(make.record(1, exchange="x"))
    metrics.observe_comparison(make.record(2, make.forced(), exchange="x"))
    metrics.observe_comparison(make.record(3, exchange="x", shadow="control"))
    assert value(page(tmp_path, metrics), "time_to_first_token_seconds_count", "primary") == 1


def test_a_prompt_that_differs_is_counted(tmp_path, make):
    metrics = judge()
    metrics.observe_comparison(make.record(1, request=RequestFacts(prompt_tokens=7, shadow_prompt_tokens=8)))
    metrics.observe_comparison(make.record(2, request=RequestFacts(prompt_tokens=7)))
    assert value(page(tmp_path, metrics), "prompt_token_mismatches_total", "candidate") == 1


def test_values_of_another_logprob_mode_are_not_set_against_each_other(tmp_path, make):
    metrics = judge()
    metrics.observe_comparison(make.record(1, make.free(values_incomparable="logprob_mode")))
    assert value(page(tmp_path, metrics), "logprob_error_nats_count", "free", "candidate") == 0


def test_what_the_judge_says(tmp_path):
    metrics = judge()
    metrics.shadow_error("candidate", "status_500", 2)
    metrics.shadow_error("candidate", "Bad\nKind")
    metrics.shadow_tokens("candidate", prompt=10, scored=3)
    metrics.in_flight("candidate", "free", 3)
    metrics.in_flight("candidate", "free", 2)
    metrics.primary_tokens_source("by_control")
    metrics.mirror_lag(0.2)
    metrics.circuit("candidate", True)
    metrics.footprint("candidate", {"engine": "vllm", "version": "0.9"})
    metrics.footprint("candidate", {"engine": "vllm", "version": "1.0\n" + "x" * 200, "dtype": ""})
    metrics.footprint("primary", {"engine": "vllm", "version": "0.9", "gpu": "H200"})
    found = page(tmp_path, metrics)
    assert value(found, "shadow_errors_total", "status_500", "candidate") == 2
    assert value(found, "shadow_errors_total", "other", "candidate") == 1
    assert value(found, "shadow_tokens_total", "prompt", "candidate") == 10
    assert value(found, "shadow_tokens_total", "scored", "candidate") == 3
    assert value(found, "judge_in_flight", "free", "candidate") == 2
    assert value(found, "judge_in_flight", "free", "control") == 0
    assert value(found, "primary_tokens_source_total", "by_control") == 1
    assert value(found, "mirror_lag_seconds_count") == 1
    assert value(found, "shadow_circuit_open", "candidate") == 1
    assert value(found, "shadow_circuit_open", "control") == 0
    assert value(found, "footprint_differences", "candidate") == 1
    infos = [s.labels for k, s in found.items() if k[0] == "engine_info" and s.labels["arm"] == "candidate"]
    assert len(infos) == 1
    assert infos[0]["version"] == "1.0?" + "x" * 116
    assert infos[0]["dtype"] == infos[0]["gpu"] == "unknown"


def test_the_controls_distance_is_the_noise_floor_and_what_is_no_longer_known_goes(tmp_path):
    metrics = judge()
    of = "median_error_nats"
    metrics.measured([("control", "control", "free", of, 0.01), ("candidate", "candidate", "free", of, 0.02)])
    found = page(tmp_path, metrics)
    assert value(found, "noise_floor", "free", of, "control") == 0.01
    assert value(found, "headline", "free", of, "candidate") == 0.02
    assert sum(key[0] in {"noise_floor", "headline"} for key in found) == 2
    metrics.measured([("candidate", "candidate", "forced", of, 0.03)])
    found = page(tmp_path, metrics)
    assert [key for key in found if key[0] in {"noise_floor", "headline"}] == [("headline", "forced", of, "candidate")]


def test_ten_thousand_models_stay_few_series(tmp_path, make):
    metrics = judge()
    kinds = [None, *FlipClass]
    for number in range(10_000):
        metrics.observe_comparison(make.record(number, make.free(kinds[number % 5]), model=f"m{number}"))
        metrics.observe_comparison(
            make.record(number, make.forced(FlipClass.GENUINE), model=f"m{number}", shadow="control", role="control")
        )
    found = page(tmp_path, metrics)
    models = {
        sample.labels["model"] for sample in found.values() if "model" in sample.labels and "arm" not in sample.labels
    }
    assert len(models) == 51
    assert "other" in models
    assert len(found) <= 2000
    allowed = judge(Config(shadows=CONFIG.shadows, models=("a",)))
    for model in ("a", "b", "c"):
        allowed.observe_comparison(make.record(1, model=model))
    assert value(page(tmp_path, allowed), "comparisons_total", "free", "other", "identical", "candidate") == 2


def test_a_judge_goes_on_from_the_life_before(tmp_path, make):
    first = judge()
    first.observe_comparison(make.record(1, model="x"))
    first.in_flight("candidate", "free", 5)
    first.circuit("candidate", True)
    second = judge(previous=first.snapshot())
    second.observe_comparison(make.record(2, model="x"))
    found = page(tmp_path, second)
    assert value(found, "comparisons_total", "free", "x", "identical", "candidate") == 2
    assert value(found, "logprob_error_nats_count", "free", "candidate") == 8
    assert value(found, "judge_in_flight", "free", "candidate") == 0
    assert value(found, "shadow_circuit_open", "candidate") == 0


@pytest.mark.parametrize("previous", [b"", b"rubbish", msgspec.msgpack.encode({"time": "x"})])
def test_a_damaged_snapshot_begins_at_nothing(tmp_path, previous):
    assert value(page(tmp_path, judge(previous=previous)), "judge_in_flight", "free", "control") == 0


def test_the_snapshot_file_is_resumed(tmp_path, make):
    config = Config(state=str(tmp_path), shadows=CONFIG.shadows)
    (tmp_path / "judge").mkdir()
    metrics = JudgeMetrics.resumed(config)
    metrics.observe_comparison(make.record(1))
    metrics.write(tmp_path)
    assert [p.name for p in (tmp_path / "judge").iterdir()] == [SNAPSHOT.name]
    found = page(tmp_path, JudgeMetrics.resumed(config))
    assert value(found, "comparisons_total", "free", "m", "identical", "candidate") == 1


def test_what_is_missing_is_absent_and_not_zero(tmp_path):
    found = page(tmp_path, None, store_up=False)
    names = {key[0] for key in found}
    assert value(found, "store_up") == 0
    assert value(found, "received_total") == 0
    assert not names & {"compared_total", "shed_total", "in_flight", "judge_in_flight"}
    assert "judge_snapshot_age_seconds" not in names


def test_without_the_store_what_traffic_knows_alone_stays(tmp_path):
    counters = Counters.create(tmp_path / "a.bin")
    counters.add(Slot.RECEIVED, 10)
    counters.add(Slot.NOT_SAMPLED, 6)
    counters.add(Slot.SAMPLED, 4)
    found = page(tmp_path, store_up=False)
    assert [value(found, name) for name in ("received_total", "not_sampled_total", "sampled_total", "undecided")] == [
        10, 6, 4, 0,
    ]  # fmt: skip
    counters.add(Slot.RECEIVED, 1)
    counters.add(Slot.OFFERED, 1)  # the judge decides on this one, and what it decided is in the store
    found = page(tmp_path, store_up=False)
    assert value(found, "received_total") == 11
    assert not {("not_sampled_total",), ("sampled_total",), ("undecided",)} & found.keys()
    counters.close()


def test_hostile_text_cannot_leave_its_label(tmp_path, make):
    metrics = judge()
    metrics.observe_comparison(make.record(1, model='x"} 1\nparhelion_evil 1\\'))
    for accept in ("", OPENMETRICS):
        found = page(tmp_path, metrics, accept=accept)
        assert not any("evil" in key[0] for key in found)
        assert any(sample.labels.get("model") == 'x"} 1\nparhelion_evil 1\\' for sample in found.values())


def test_declarations_are_sound():
    assert set(ENGINE_FIELDS) <= set(FIELDS)
    assert len(BY_NAME) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith(PREFIX)
        assert metric.name.endswith("_total") is (metric.kind == "counter")
        assert bool(metric.buckets) is (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(metric.buckets)
        assert math.inf not in metric.buckets
        assert metric.help
        assert metric.why


def test_every_declared_metric_is_set_by_something(tmp_path, make):
    """A page on which everything happened shows every family: nothing is declared in vain."""
    counters = Counters.create(tmp_path / "a.bin")
    counters.finished(0, 200, 0.1)
    metrics = judge()
    metrics.observe_comparison(
        make.record(1, make.free(FlipClass.EXACT_TIE, findings=("tool_call_name",), expected_flips=0.1))
    )
    metrics.observe_comparison(make.record(2, request=RequestFacts(prompt_tokens=1, shadow_prompt_tokens=2)))
    seen = OutputShape(1, 1, refused=True, calls=(Validity.VALID,), json=Validity.VALID)
    plain = make.free()
    metrics.observe_comparison(
        make.record(3, replace(plain, choices=(replace(plain.choices[0], shapes=(seen, seen)),)))
    )
    metrics.observe_comparison(
        make.record(
            4,
            replace(
                plain,
                choices=(),
                vectors=(VectorComparison(0, 2, 0.1, 0.1, (1.0, 1.0)),),
                ranking=RankingComparison("score", 1, (0.1,), first_difference=0),
            ),
        )
    )
    metrics.shadow_error("candidate", "refused")
    metrics.shadow_tokens("candidate", prompt=1)
    metrics.primary_tokens_source("reply")
    metrics.spool(10, 1, {"full": 1})
    metrics.spool_replayed()
    metrics.redaction_failed("raised")
    metrics.known("candidate", Mode.FREE, "exact_tie")
    metrics.measured(
        [("control", "control", "free", "k3_nats", 0.1), ("candidate", "candidate", "free", "k3_nats", 0.1)]
    )
    metrics.mirror_lag(0.1)
    metrics.verdict("candidate", Known(judge_tally(Tally(1, 2, 3, 4), Terms()), None, 0.5, {Result.WORSE: 1}))
    metrics.drift_alarm("candidate")
    metrics.probed("candidate", 1_700_000_000.0, 0.01, 2)
    metrics.probe_changed("candidate")
    for arm, engine in (("primary", "vllm"), ("candidate", "sglang")):
        metrics.footprint(arm, {"engine": engine})
        metrics.capabilities(arm, Capabilities(self_noise=0.1, batch_mates=SelfNoise(8, 0, 0.1)), Prompt(tokens=3))
    metrics.footprint_changed("candidate", ["candidate"])
    snapshot = series.decode(metrics.snapshot())
    with totals.read(tmp_path) as summed:
        terms = conservation(summed, {Key("candidate", "free", "incomparable", "sampled"): 1}, ARMS)
        standing = Standing({"candidate": True}, reload_failed=False, configured_at=1.0)
        merged = list(exposition.families(terms, summed, snapshot, now=1.0, store_up=True, standing=standing))
    assert [family.name for family in merged] == [metric.name.removesuffix("_total") for metric in METRICS]
    counters.close()
