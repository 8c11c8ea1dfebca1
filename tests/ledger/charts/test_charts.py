"""Charts: well-formed whatever numbers come, numbers in their tables, texts that mean harm inert."""

from __future__ import annotations

import itertools
import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.ledger.charts.along import ERRORS, FLIPS, HAZARD, along
from proxy.ledger.charts.evidence import evidence
from proxy.ledger.charts.markup import element, finite
from proxy.ledger.charts.scale import Scale, even, ratios
from proxy.ledger.charts.strips import Line, Spread, floors, quantiles, shares
from proxy.ledger.charts.survival import survival
from proxy.ledger.charts.verdict import excess, slices
from tests.ledger.filled import HARM

TEXT = st.text('abc <&>"\x1b\u202e\U0001f600', max_size=50)
NUMBER = st.one_of(st.none(), st.floats(), st.integers(-(10**6), 10**12), st.sampled_from([0.0, 1.0, 5e-324, 1.7e308]))
EDGES = st.one_of(st.none(), st.tuples(NUMBER, NUMBER))
RATES = st.fixed_dictionaries({}, optional={
    "raw": NUMBER, "floor": NUMBER, "excess": NUMBER, "raw_interval": EDGES, "floor_interval": EDGES, "interval": EDGES, "n": NUMBER, "floor_n": NUMBER,
})  # fmt: skip
SPREAD = st.fixed_dictionaries({}, optional=dict.fromkeys(("median", "p90", "p99", "max", "mean", "count"), NUMBER))
ARM = st.lists(NUMBER, max_size=6)
SURVIVAL = st.fixed_dictionaries({}, optional={
    "positions": ARM, "candidate": ARM, "control": ARM, "streams": st.fixed_dictionaries({"candidate": st.integers(0, 99)}),
    "at_risk": st.fixed_dictionaries({"candidate": st.lists(st.integers(0, 9), max_size=6)}),
    "intervals": st.fixed_dictionaries({"control": st.lists(EDGES, max_size=6)}),
})  # fmt: skip
BLOCKS = st.lists(st.fixed_dictionaries({}, optional={
    "from": NUMBER, "to": NUMBER, "exposed": NUMBER, "control_positions": NUMBER,
    "hazard_per_1000_tokens": RATES, "genuine_flips_per_1000": RATES, "error_nats": RATES,
}), max_size=8)  # fmt: skip
POINTS = st.lists(
    st.fixed_dictionaries(
        {"time": NUMBER, "log_e_fail": NUMBER, "log_e_pass": NUMBER, "conversations": st.integers(0)}
    ),
    max_size=9,
)
VERDICT = st.fixed_dictionaries({
    "excess": NUMBER, "excess_interval": EDGES, "floor": st.sampled_from(["control", "assumed"]), "alpha": st.floats(0.001, 0.5),
    "terms": st.fixed_dictionaries({"margin": NUMBER, "allowance": NUMBER}), "conversations": st.integers(0),
})  # fmt: skip
SLICES = st.lists(st.fixed_dictionaries({
    "dimension": TEXT, "value": TEXT, "conversations": st.integers(0, 9), "candidate_bad": NUMBER, "control_bad": NUMBER,
    "log_e": NUMBER, "named": st.booleans(),
}), max_size=20)  # fmt: skip
CHART = st.one_of(
    st.builds(survival, SURVIVAL), st.builds(along, BLOCKS, st.sampled_from([HAZARD, FLIPS, ERRORS])), st.builds(evidence, POINTS, NUMBER),
    st.builds(excess, VERDICT), st.builds(slices, SLICES),
    st.builds(floors, st.lists(st.builds(Line, TEXT, RATES), max_size=5)),
    st.builds(quantiles, TEXT, TEXT, st.lists(st.builds(Spread, TEXT, st.sampled_from(["primary", "candidate", "control"]), SPREAD), max_size=5)),
    st.builds(shares, TEXT, st.lists(st.tuples(TEXT, st.dictionaries(st.sampled_from(["lowest", "highest"]), st.integers(0, 10**9))), max_size=4), st.just(("lowest", "highest"))),
)  # fmt: skip
NUMERIC = {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"}


def drawing(markup: str) -> ET.Element | None:
    """The chart, parsed as XML; every coordinate a number, every drawing with a name, a description and a table beside it."""
    root = ET.fromstring(str(markup))
    svg = next((one for one in root.iter() if one.tag.endswith("svg")), None)
    if svg is None:
        assert root.get("class") == "empty chart"
        return None
    assert [one.tag.rpartition("}")[2] for one in list(svg)[:2]] == ["title", "desc"]
    assert svg.get("role") == "img"
    assert root.find("figcaption") is not None
    assert root.find("details/div/table") is not None
    for one in svg.iter():
        for name, value in one.attrib.items():
            if name in NUMERIC:
                assert math.isfinite(float(value))
            assert name not in {"style", "id"}
            assert not name.startswith("on")
        if one.tag.endswith("path"):
            assert re.fullmatch(r"(?:[ML]-?\d+(?:\.\d+)? -?\d+(?:\.\d+)?)+Z?", one.get("d", "")), one.get("d")
    return svg


@settings(max_examples=150, deadline=None)
@given(CHART)
def test_whatever_comes_is_a_well_formed_drawing_without_what_is_no_number(markup):
    drawing(markup)
    assert not re.search(r"\b(?:nan|inf|infinity)\b", str(markup).lower())


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, "1", True, 1e300])
def test_what_is_no_measured_number_is_none(value):
    assert finite(value) is None


def test_a_coordinate_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="drawn"):
        element("line", {"x1": math.nan}, "")


@given(st.lists(st.floats(-1e100, 1e100), max_size=6), st.booleans())
def test_values_are_placed_in_their_order_and_ticks_lie_within(values, zero):
    scale = even(values, 10, 400, zero=zero)
    places = [scale.at(value) for value in sorted(values)]
    assert all(10 <= one <= 400 for one in places)
    assert all(before <= after + 1e-6 for before, after in itertools.pairwise(places))
    ticks = scale.ticks(6)
    assert 1 <= len(ticks) <= 14
    slack = (scale.high - scale.low) * 1e-6
    assert all(scale.low - slack <= one <= scale.high + slack for one in ticks)


def test_round_numbers_stand_beside_the_axis():
    assert Scale(0, 10, 0, 100).ticks(5) == [0, 2, 4, 6, 8, 10]
    assert Scale(0.0, 0.3, 0, 1).ticks(3) == pytest.approx([0, 0.1, 0.2, 0.3])
    assert ratios([1, 100], 0, 100).at(10) == pytest.approx(50)
    assert ratios([0, 3], 0, 1).ticks()[0] == 2


def test_survival_shows_what_the_report_says():
    block = {
        "positions": [1, 8, 64], "candidate": [1.0, 0.75, 0.5], "control": [1.0, 1.0, None], "streams": {"candidate": 8, "control": 5},
        "at_risk": {"candidate": [8, 7, 4], "control": [5, 5, 0]}, "intervals": {"candidate": [None, [0.4, 1.0], [0.2, 0.9]], "control": [None, None, None]},
    }  # fmt: skip
    shown = str(survival(block))
    svg = drawing(shown)
    assert svg is not None
    curve = next(one for one in svg.iter() if one.get("class") == "curve candidate")
    first, *_, last = re.findall(r"[ML](\S+) (\d+\.?\d*)", curve.get("d", ""))
    assert float(first[1]) == 34  # the top: 100 %
    assert float(last[1]) == 124  # half way down: 50 %
    table = ET.fromstring(shown).find("details/div/table/tbody")
    assert table is not None
    assert [[cell.text for cell in row] for row in table][1] == ["8", "75 %", "40 % to 100 %", "7", "100 %", "–", "5"]


def test_what_would_harm_is_text():
    for harm in HARM:
        shown = str(floors([Line(harm, {"raw": 1.0, "n": 3})], harm)) + str(
            slices([{"dimension": "model", "value": harm, "conversations": 2, "candidate_bad": 1, "control_bad": 0}])
        )
        assert not re.search(r"<script|<img|onerror=\"|\x1b|\u202e", shown)
        ET.fromstring(f"<div>{shown}</div>")


def test_rows_without_n_are_not_shares():
    assert drawing(shares("t", [("a", {"lowest": 0})], ("lowest",))) is None
    svg = drawing(shares("t", [("a", {"lowest": 1, "highest": 3})], ("lowest", "highest")))
    assert svg is not None
    widths = [float(one.get("width", "")) for one in svg.iter() if one.tag.endswith("rect")]
    assert widths == [101, 303]


def test_times_of_a_few_minutes_are_told_apart():
    grown = [
        {"time": 1_000_000.0 + at * 60, "conversations": at + 1, "log_e_fail": at, "log_e_pass": -at} for at in range(3)
    ]
    drawn = evidence(grown, 0.01)
    assert [said in drawn for said in ("13:46:55", "13:47:25", "13:47:55", "13:48:25")] == [True] * 4
