"""The judge counts what is known beside everything else, by the rules that are in force when it settles."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from proxy.compare.comparison import FlipClass
from proxy.config import Config
from proxy.judge.knowing import Knowing
from proxy.ledger import known_file, series
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.known import Match, Rule, Rules
from tests.ledger.conftest import free, record

NOW = 1_700_000_000.0


def counted(metrics: JudgeMetrics) -> dict[tuple[str, ...], float]:
    points = series.decode(metrics.snapshot()).points.get("parhelion_known_comparisons_total", {})
    return {labels: point.value for labels, point in points.items()}


def test_a_record_counts_once_by_its_class_while_a_rule_is_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(state=str(tmp_path))
    metrics = JudgeMetrics(config)
    knowing = Knowing(config, metrics)
    tie, same = record(1, free(FlipClass.EXACT_TIE)), record(2)
    knowing.look(NOW)
    knowing.count(tie)
    assert counted(metrics) == {}
    rules = [Rule(name, Match(shadow="candidate"), NOW + 10, NOW) for name in ("one", "two")]
    known_file.save(config, Rules(tuple(rules)))
    knowing.look(NOW + 1)
    for one in (tie, tie, same):
        knowing.count(one)
    expected = {("candidate", "free", "exact_tie"): 2.0, ("candidate", "free", "none"): 1.0}
    assert counted(metrics) == expected
    knowing.look(NOW + 10)
    knowing.count(tie)
    assert counted(metrics) == expected
    (tmp_path / known_file.FILE).write_text("nonsense")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            knowing.look(NOW + 2)
    assert [one.message for one in caplog.records] == ["known_unreadable"]
    knowing.count(tie)
    assert counted(metrics) == expected
