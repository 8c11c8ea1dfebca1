"""The arithmetic of the table, held against values worked out elsewhere."""

from __future__ import annotations

import json
import math
import re

import pytest

from tests.bench import publish
from tests.bench.ratio import Interval, Verdict, at_least, at_most, of_pairs
from tests.bench.table import Result, as_json, as_markdown, as_text


def test_equal_pairs_have_a_ratio_without_doubt() -> None:
    assert of_pairs([20.0] * 9, [40.0] * 9) == Interval(0.5, 0.5, 0.5, 9)


def test_the_interval_is_students_over_the_logarithms() -> None:
    # R: t.test(log(c(2, 4, 8)))$conf.int gives 2 log 2 +- 4.3027 * log 2 / sqrt(3)
    found = of_pairs([2.0, 4.0, 8.0], [1.0, 1.0, 1.0])
    half = 4.3027 * math.log(2) / math.sqrt(3)
    assert found.ratio == pytest.approx(4.0)
    assert found.low == pytest.approx(4 * math.exp(-half), rel=1e-3)
    assert found.high == pytest.approx(4 * math.exp(half), rel=1e-3)


def test_a_pair_is_a_pair_and_no_two_means() -> None:
    """A machine that slows both sides down by the same factor changes nothing."""
    slow = [1.0, 3.0, 0.5, 2.0, 7.0, 1.0, 1.5, 0.8, 4.0]
    assert of_pairs([30 * one for one in slow], [60 * one for one in slow]).high == pytest.approx(0.5)


def test_one_pair_proves_nothing() -> None:
    found = of_pairs([3.0], [1.0])
    assert (found.ratio, found.low, found.high) == (3.0000000000000004, 0.0, math.inf) or found.ratio == pytest.approx(
        3
    )
    assert at_most(found, 0.5) is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("low", "ratio", "high", "verdict"),
    [
        (0.5, 0.6, 0.7, Verdict.MET),
        (0.5, 0.64, 0.9, Verdict.MET),
        (0.6, 0.7, 0.9, Verdict.UNDECIDED),
        (0.66, 0.7, 0.9, Verdict.NOT_MET),
    ],
)
def test_a_ratio_fails_only_with_its_whole_interval(low: float, ratio: float, high: float, verdict: Verdict) -> None:
    assert at_most(Interval(ratio, low, high, 9), 0.65) is verdict
    assert at_least(Interval(1 / ratio, 1 / high, 1 / low, 9), 1 / 0.65) is verdict


def test_one_pair_decides_nothing() -> None:
    assert at_most(of_pairs([1.0], [10.0]), 0.65) is Verdict.UNDECIDED
    assert at_least(of_pairs([10.0], [1.0]), 0.65) is Verdict.UNDECIDED


@pytest.mark.parametrize(("share", "verdict"), [(0.99, Verdict.MET), (0.9899, Verdict.VOID), (0.0, Verdict.VOID)])
def test_a_row_is_void_when_the_shadow_was_not_read(share: float, verdict: Verdict) -> None:
    assert at_most(Interval(0.1, 0.1, 0.1, 9), 0.65, share) is verdict
    assert at_least(Interval(9.0, 9.0, 9.0, 9), 0.65, share) is verdict


def test_the_table_says_the_same_three_times() -> None:
    results = [
        Result(1, "a row", "<= 0.65", Verdict.NOT_MET, Interval(2.0, 1.5, math.inf, 9), share=0.995, note="30 / 15 us"),
        Result(15, "another", "0", Verdict.MET, figure="0 of 10"),
    ]
    text, markdown = as_text(results).splitlines(), as_markdown(results).splitlines()
    assert re.split(r"\s{2,}", text[1]) == [
        "1", "a row", "<= 0.65", "2.00 [1.50, inf]", "not met", "99.5%", "30 / 15 us",
    ]  # fmt: skip
    assert markdown[2] == "| 1 | a row | <= 0.65 | 2.00 [1.50, inf] | not met | 99.5% | 30 / 15 us |"
    assert markdown[3] == "| 15 | another | 0 | 0 of 10 | met |  |  |"
    first = json.loads(as_json(results))["results"][0]
    assert (first["ratio"], first["low"], first["high"], first["pairs"]) == (2.0, 1.5, None, 9)


def test_what_was_measured_is_published_as_it_was() -> None:
    results = [
        Result(
            1,
            "CPU / nginx-mirror",
            "<= 0.65",
            Verdict.NOT_MET,
            Interval(2.0, 1.5, math.inf, 9),
            share=0.995,
            note="30 us",
        ),
        Result(7, "TTFT / nginx-mirror", "<= 1", Verdict.MET, Interval(0.5, 0.4, 0.6, 9), share=1.0),
    ]
    table = json.loads(as_json(results))
    assert publish.results_of(table) == results
    assert as_markdown(results) in publish.page(table)
    readme = "# Head\n<!-- bench: written by python -m tests.bench.publish -->\nold\n<!-- /bench -->\n# Tail\n"
    written = publish.into(readme, table)
    assert "| CPU / nginx-mirror | <= 0.65 | 2.00 [1.50, inf] | not met |" in written
    assert "TTFT" not in written
    assert "old" not in written
    assert (written.startswith("# Head\n"), written.endswith("<!-- /bench -->\n# Tail\n")) == (True, True)
    assert publish.into(written, table) == written
    with pytest.raises(ValueError, match="no lines"):
        publish.into("# Head\n", table)


def test_rows_measured_apart_leave_the_others_where_they_are() -> None:
    first = json.loads(as_json([Result(1, "CPU / nginx", "<= 1", Verdict.MET, figure="0.5")]))
    first["where"]["command"] = "python -m tests.bench --rows cpu,off --pairs 9"
    second = json.loads(as_json([Result(12, "tokens", ">= 1", Verdict.MET, figure="7")]))
    second["where"]["command"] = "python -m tests.bench --rows tokens"
    again = json.loads(as_json([Result(12, "tokens", ">= 1", Verdict.NOT_MET, figure="0")]))
    again["where"]["command"] = "python -m tests.bench --rows tokens --pairs 3"
    both = publish.page(second, publish.page(first))
    assert (both.count("# What "), "| CPU / nginx |" in both, "| tokens | >= 1 | 7 |" in both) == (2, True, True)
    newer = publish.page(again, both)
    assert (newer.count("# What "), "| CPU / nginx |" in newer, "| 7 |" in newer) == (2, True, False)
    assert publish.page(again, newer) == newer
