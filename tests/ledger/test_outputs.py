"""Structure, embeddings and scores on the metrics page, in the report and on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proxy.compare.comparison import (
    Comparison,
    Mode,
    OutputShape,
    RankingComparison,
    Source,
    Validity,
    VectorComparison,
)
from proxy.config import Config, Shadow
from proxy.ledger import series
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.metrics import PREFIX
from proxy.ledger.record import Record
from proxy.ledger.render import render
from proxy.ledger.report import build_report

CONFIG = Config(shadows=(Shadow("candidate", "http://c"),))


def shaped(make, primary: OutputShape, shadow: OutputShape) -> Comparison:
    from msgspec.structs import replace

    one = make.free()
    return replace(one, choices=(replace(one.choices[0], shapes=(primary, shadow)),))


def numbers(**fields) -> Comparison:
    return Comparison(mode=Mode.FREE, source=Source.TEXT, **fields)


@pytest.fixture
def records(make) -> list[Record]:
    valid, broken = (Validity.VALID,), (Validity.NOT_JSON,)
    return [
        make.record(number, comparison)
        for number, comparison in enumerate(
            [
                shaped(make, OutputShape(5, 10, calls=valid), OutputShape(5, 5, calls=broken)),
                shaped(make, OutputShape(0, 0, calls=valid), OutputShape(9, 0, calls=())),
                shaped(make, OutputShape(9, 0, json=Validity.VALID), OutputShape(9, 0, refused=True)),
                numbers(
                    vectors=(
                        VectorComparison(0, 2, 1e-3, 0.25, (1.0, 1.0)),
                        VectorComparison(1, 2, None, 0.0, (0.0, 0.0)),
                    )
                ),
                numbers(ranking=RankingComparison("rerank", 2, (0.0, 0.5), 0, 1, 1)),
                numbers(ranking=RankingComparison("score", 2, (0.0, 0.0))),
            ]
        )
    ]


def test_metrics(records):
    metrics = JudgeMetrics(CONFIG)
    for one in records:
        metrics.observe_comparison(one)
    snapshot = series.decode(metrics.snapshot())

    def points(name):
        return {labels[1:]: point.value for labels, point in snapshot.points[PREFIX + name].items()}

    def histogram(name):
        [found] = snapshot.histograms[PREFIX + name].values()
        return sum(found.counts), found.sum

    assert points("tool_triggers_total") == {("both",): 1, ("primary",): 1}
    assert points("tool_calls_judged_total") == {("primary", "valid"): 2, ("shadow", "not_json"): 1}
    assert points("json_replies_total") == {("primary", "valid"): 1}
    assert points("refusals_total") == {("shadow",): 1}
    assert points("rankings_compared_total") == {(): 2}
    assert points("rank_order_mismatches_total") == {(): 1}
    assert histogram("reasoning_length_ratio") == (1, 0.5)
    assert histogram("embedding_cosine_distance") == (1, 1e-3)
    assert histogram("embedding_element_error") == (2, 0.25)
    assert histogram("score_error") == (4, 0.5)
    outcomes = {labels[3]: point.value for labels, point in snapshot.points[PREFIX + "comparisons_total"].items()}
    assert outcomes == {"identical": 4, "measured": 1, "diverged": 1}


def test_report_and_terminal(store, records, make):
    store.settle([make.compared(one) for one in records])
    report = build_report(CONFIG, store, command="report", now=0.0)
    free = report["shadows"][0]["modes"]["free"]
    assert (free["requests"], free["identical"], free["measured"]) == (6, 4, 1)
    assert free["tools"]["called"] == {"both": 1, "primary": 1, "shadow": 0, "neither": 0}
    assert free["tools"]["trigger_f1"] == pytest.approx(2 / 3)
    assert free["embeddings"] == {
        "requests": 1,
        "vectors": 2,
        "cosine_distance": pytest.approx(
            {"count": 1, "median": 1e-3, "p90": 1e-3, "p99": 1e-3, "max": 1e-3, "mean": 1e-3}
        ),
        "element_error": free["embeddings"]["element_error"],
    }
    assert free["embeddings"]["element_error"]["max"] == 0.25
    assert (free["rerank"]["order_mismatches"], free["rerank"]["score_error"]["max"]) == (1, 0.5)
    assert (free["score"]["order_mismatches"], free["score"]["score_error"]["max"]) == (0, 0.0)
    written = io.StringIO()
    render(report, Console(file=written, width=140))
    lines = [" ".join(line.split()) for line in written.getvalue().splitlines()]
    for line in (
        "both / one / none call 1 / 1 / 0",
        "trigger F1 0.667",
        "valid arguments primary 2 of 2 (100.0 %)",
        "shadow 0 of 1 (0.0 %)",
        "embeddings compared 2",
        "cosine distance: median 0.001",
        "largest element error 0.25",
        "rerank: other order 1 of 1 (100.0 %)",
        "score: other order 0 of 1 (0.0 %)",
        "refusals 0 / 0 / 1",
    ):
        assert line in lines, written.getvalue()


def test_plain_text_adds_no_row(store, make):
    store.settle([make.compared(make.record(1))])
    report = build_report(CONFIG, store, command="report", now=0.0)
    assert (
        not {"tools", "json", "reasoning", "refusals", "embeddings", "rerank", "score"}
        & report["shadows"][0]["modes"]["free"].keys()
    )
    written = io.StringIO()
    render(report, Console(file=written, width=140))
    assert "tools offered" not in written.getvalue()
