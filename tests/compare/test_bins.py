"""A histogram adds up exactly, and its quantiles are within the stated error of the exact ones."""

import math
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.bins import RELATIVE_ERROR, UNIT, Bins, bins_of, fixed, lower, span
from proxy.compare.quantile import quantile

VALUES = st.lists(
    st.one_of(st.just(0.0), st.floats(0.0, 1e12, allow_subnormal=False), st.floats(1e-12, 1.0)), max_size=60
)
SHARES = st.floats(0.0, 1.0)


@given(st.floats(1e-300, 1e300))
def test_a_value_lies_in_its_bin_and_a_bin_is_narrow(value):
    (index,) = bins_of((value,))
    edge, width = span(index)
    assert edge <= value < edge + width
    assert width <= edge * RELATIVE_ERROR
    assert bins_of((edge, -value)) == [index, index]
    assert 0 <= index < 1 << 16


def test_zero_is_a_bin_of_its_own_and_small_whole_numbers_are_edges():
    assert bins_of((0.0, -0.0)) == [0, 0]
    assert span(0) == (0.0, 0.0)
    assert [lower(index) for index in bins_of(range(1, 65))] == list(range(1, 65))


@given(VALUES, VALUES, VALUES)
def test_adding_is_associative_and_free_of_order(first, second, third):
    a, b, c = Bins.of(first), Bins.of(second), Bins.of(third)
    assert (a + b) + c == a + (b + c) == (c + a) + b
    assert a + Bins() == a
    whole = Bins.of([*third, *first, *second])
    assert whole == a + b + c
    one_by_one = Bins()
    for value in [*first, *second, *third]:
        one_by_one.add([value])
    assert one_by_one == whole
    assert len(whole) == len(first) + len(second) + len(third)


@given(VALUES.filter(bool), SHARES)
def test_a_quantile_is_within_the_stated_error_of_the_exact_one(values, share):
    exact = quantile(sorted(values), share)
    assert Bins.of(values).quantile(share) == pytest.approx(exact, rel=RELATIVE_ERROR * (1 + 1e-9), abs=1e-300)
    assert Bins.of([0.0, 0.0, 5.0]).quantile(0.5) == 0.0


@given(VALUES.filter(bool), st.floats(0.0, 10.0))
def test_the_share_above_errs_by_what_lies_in_one_bin(values, edge):
    found = Bins.of(values).share_above(edge)
    at, width = span(*bins_of((edge,)))
    at_least = sum(value >= at + width for value in values if value > edge)
    at_most = sum(value >= at for value in values)
    assert at_least / len(values) - 1e-12 <= found <= at_most / len(values) + 1e-12
    assert Bins.of(values).share_above(0.0) == sum(value > 0 for value in values) / len(values)


@given(VALUES.filter(bool))
def test_the_sum_is_exact_and_the_largest_is_kept(values):
    found = Bins.of(values)
    exact = sum(map(Fraction, values))
    assert abs(Fraction(found.total, UNIT) - exact) <= Fraction(len(values), UNIT)
    assert found.largest == max(values)
    assert found.quantile(1.0) <= max(values)
    assert found.mean == pytest.approx(float(exact) / len(values), rel=1e-12, abs=1e-17)


def test_nothing_has_no_quantile():
    empty = Bins()
    empty.add([])
    assert (empty.quantile(0.5), empty.mean, empty.share_above(1.0), len(empty)) == (None, None, None, 0)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_what_is_no_size_is_refused_and_nothing_is_taken(bad):
    found = Bins.of([1.0])
    with pytest.raises((ValueError, OverflowError)):
        found.add([2.0, bad])
    assert found == Bins.of([1.0])


@given(VALUES)
def test_it_survives_being_written_down(values):
    found = Bins.of(values)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Bins) == found


def test_a_fixed_number_is_exact_where_a_float_is():
    assert fixed(-1.5) == -3 * UNIT // 2
    assert fixed(1e300) == int(1e300) * UNIT
    assert fixed(2.0**-70) == 0
