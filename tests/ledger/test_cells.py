"""One style of number, and nothing that is absent shown as 0."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ledger import cells


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (0.0, "0"),
        (1234567, "1,234,567"),
        (26.499302649930264, "26.5"),
        (0.020083904266357422, "0.0201"),
        (0.00028401, "0.000284"),
        (-0.0125, "-0.0125"),
        (1.0, "1"),
        (12.0, "12"),
        (12345.678, "12,346"),
        (1.19e-7, "0.0000001"),
        (1e-9, "under 0.0000001"),
        (-1e-9, "under 0.0000001"),
    ],
)
def test_every_number_is_a_plain_decimal(value, shown):
    assert cells.number(value) == shown


@given(st.floats(-1e6, 1e6, allow_nan=False))
def test_no_number_has_an_exponent_or_looks_like_zero(value):
    text = cells.number(value)
    assert re.fullmatch(r"(under )?-?[0-9,]+(\.[0-9]*[1-9])?", text), text
    assert (text == "0") is (value == 0)
    if not text.startswith("under") and abs(value) >= 1e-4:
        assert float(text.replace(",", "")) == pytest.approx(value, rel=6e-3)


def test_shares_have_their_whole():
    assert cells.share(9, 372) == "9 of 372 (2.4 %)"
    assert cells.share(0, 0) == "0"
    assert cells.of("flips", "flip_positions")({"flips": {"genuine": 8, "unknown": 1}, "flip_positions": 372}) == (
        "9 of 372 (2.4 %)"
    )
    assert cells.of("flips", "flip_positions")({}) == "–"
    assert cells.counted("identical", "requests")({"identical": 13, "requests": 32}) == "13 (40.6 %)"


def test_a_sampled_request_is_called_not_greedy_and_keeps_its_label():
    assert cells.reasons({"client_gone": 1, "sampled": 7}) == ["not greedy (sampled) 7", "client_gone 1"]
    assert cells.listed("incomparable")({"incomparable": {}}) == "0"
    assert cells.listed("incomparable")({}) == "–"


def test_a_hazard_is_shown_with_its_interval():
    numbers = {"hazard_per_1000_tokens": {"raw": 0.0, "raw_interval": [0.0, 4.912]}}
    assert cells.hazard("raw", "raw_interval")(numbers) == "0 (95 %: 0 to 4.91)"
    assert cells.hazard("raw", "interval")(numbers) == "0"
    assert cells.hazard("floor", "floor_interval")(numbers) == "–"
    assert cells.hazard("raw", "raw_interval")({}) == "–"


def test_a_correlation_that_is_not_one_does_not_look_like_it():
    assert cells.correlation({"correlation": 1.0}) == "1"
    assert cells.correlation({"correlation": 0.9999999}) == "0.99999"
    assert cells.correlation({"correlation": 0.99699254}) == "0.99699"
    assert cells.correlation({}) == "–"


def test_estimates_say_what_they_are():
    assert cells.estimates({"k1": 0.0058, "k3": 0.0017, "k3_is_kl": 0.0}) == "0.0058 / 0.0017 (a score)"
    assert cells.estimates({"k1": 0.0, "k3": 0.0, "k3_is_kl": 1.0}) == "0 / 0 (nat of KL)"
    assert cells.estimates({"k1": 0.0, "k3": 0.0, "k3_is_kl": 0.25}) == "0 / 0 (nat of KL for 25 % of tokens)"


def test_a_sample_of_positions_says_of_how_many():
    assert cells.positions({"tokens_compared": 453, "positions": {"scored": 453, "of": 1346}}) == "453 of 1,346"
    assert cells.positions({"tokens_compared": 453, "positions": {"scored": 453, "of": 453}}) == "453"
    assert cells.positions({"tokens_compared": 453}) == "453"


def test_flips_beyond_noise_have_their_interval():
    assert (cells.expected({}), cells.beyond_noise({})) == (cells.ABSENT, cells.ABSENT)
    assert (cells.expected({"expected_flips": {"sum": 7.4}}), cells.beyond_noise({"expected_flips": {"sum": 7.4}})) == (
        "7.4",
        cells.ABSENT,
    )
    found = {"expected_flips": {"sum": 1.0, "expected": 7.4, "excess": 1.6, "interval": [-4.0, 7.25]}}
    assert (cells.expected(found), cells.beyond_noise(found)) == ("7.4", "1.6 (95 %: -4 to 7.25)")
    del found["expected_flips"]["interval"]
    assert cells.beyond_noise(found) == "1.6"
