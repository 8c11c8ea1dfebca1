import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.quantile import distribution, quantile


def test_quantiles_interpolate_between_order_statistics():
    assert quantile([1.0, 2.0, 4.0, 8.0], 0.5) == 3.0
    assert quantile([1.0, 2.0, 4.0, 8.0], 0.99) == pytest.approx(7.88)
    assert quantile([5.0], 0.9) == 5.0


def test_a_distribution_is_empty_without_values_and_never_zero():
    assert distribution([]) == {}
    assert distribution(iter([3.0, 1.0, 2.0])) == {
        "median": 2.0,
        "p90": pytest.approx(2.8),
        "p99": pytest.approx(2.98),
        "max": 3.0,
        "mean": 2.0,
        "count": 3,
    }


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0.0, 1.0))
def test_quantiles_are_numpys(values, share):
    assert quantile(sorted(values), share) == pytest.approx(np.quantile(values, share), rel=1e-9, abs=1e-9)
