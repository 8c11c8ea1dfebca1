"""The report says how many of its records are known, by which rule; without that part it is the same report."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.compare.comparison import FlipClass
from proxy.config import Config, Shadow
from proxy.ledger import known_file
from proxy.ledger.known import Match, Rule, Rules
from proxy.ledger.opening import opening
from proxy.ledger.report import build_report
from proxy.ledger.store import Store

NOW = 1_700_000_100.0
RULES = Rules((
    Rule("ties", Match(difference="exact_tie"), NOW + 9, NOW, "seen before"),
    Rule("all", Match(mode="free"), NOW + 9, NOW),
    Rule("expired", Match(mode="free"), NOW, NOW - 9),
    Rule("others", Match(shadow="another"), NOW + 9, NOW),
))  # fmt: skip


@pytest.fixture
def config(tmp_path: Path, store: Store, make) -> Config:
    kinds = [None, FlipClass.EXACT_TIE, FlipClass.EXACT_TIE, FlipClass.GENUINE]
    records = [make.record(number, make.free(kind)) for number, kind in enumerate(kinds)]
    records.append(make.record(9, make.forced(FlipClass.EXACT_TIE)))
    store.settle([make.compared(record) for record in records])
    return Config(state=str(tmp_path / "state"), shadows=(Shadow("candidate", "http://c"),))


def test_each_rules_records_are_counted_and_nothing_else_changes(config: Config, store: Store) -> None:
    before = build_report(config, store, command="report", now=NOW)
    assert "known" not in before
    known_file.save(config, RULES)
    report = build_report(config, store, command="report", now=NOW)
    assert report.pop("known") == {
        "records": 5,
        "rules": [
            {"name": "ties", "records": 3, "differing": 3, "expires": NOW + 9, "reason": "seen before"},
            {"name": "all", "records": 4, "differing": 3, "expires": NOW + 9, "reason": ""},
            {"name": "others", "records": 0, "differing": 0, "expires": NOW + 9, "reason": ""},
        ],
    }
    assert report == before


def test_the_report_on_a_terminal_says_so_in_a_sentence(config: Config, store: Store) -> None:
    known_file.save(config, Rules(RULES.rules[:1]))
    said = opening(build_report(config, store, command="report", now=NOW))[-1]
    assert said == "3 of 5 records are marked as known, by ties (3); they count like all others."


def test_rules_that_cannot_be_read_are_absent(config: Config, store: Store) -> None:
    known_file.save(config, RULES)
    (Path(config.state) / known_file.FILE).write_text("{")
    assert "known" not in build_report(config, store, command="report", now=NOW)
