import pytest

from proxy.compare.position import arrays, measure
from proxy.compare.row import read_row


def measured(make, primary, shadow, **more):
    rows = read_row(primary), read_row(shadow)
    return measure(4, primary, rows, shadow.logprob, **{"agree": True, "comparable": True, **more})


def test_every_number_of_a_position(make):
    primary = make.token(1, -0.5, [(1, -0.5), (2, -1.5), (3, -3.0)])
    shadow = make.token(1, -0.75, [(1, -0.75), (2, -1.25), (4, -3.0)])
    position = measured(make, primary, shadow)
    assert (position.index, position.id, position.agree) == (4, 1, True)
    assert (position.primary_logprob, position.shadow_logprob) == (-0.5, -0.75)
    assert (position.gap, position.shadow_gap, position.gap_shift, position.rank) == (1.0, 0.5, -0.5, 1)
    assert position.kl is not None
    assert position.tv == pytest.approx(0.134, abs=1e-3)  # exp(-0.5) - exp(-0.75)


def test_the_shift_follows_the_primarys_two_first_tokens(make):
    primary = make.token(1, -0.5, [(1, -0.5), (2, -1.5)])
    turned = measured(make, primary, make.token(1, -1.5, [(2, -0.5), (1, -1.5), (3, -4.0)]))
    assert (turned.gap_shift, turned.shadow_gap) == (-2.0, 1.0)
    assert measured(make, primary, make.token(1, -0.5, [(1, -0.5), (3, -1.5)])).gap_shift is None


def test_values_that_may_not_be_compared_leave_each_arms_own_numbers(make):
    token = make.token(1, -0.5, [(1, -0.5), (2, -1.5)])
    position = measured(make, token, token, comparable=False)
    assert (position.kl, position.tv, position.gap_shift) == (None, None, None)
    assert (position.gap, position.primary_logprob, position.shadow_logprob) == (1.0, -0.5, -0.5)


def test_nothing_known_is_none_and_never_zero(make):
    position = measured(make, make.token(1), make.token(1))
    assert (position.primary_logprob, position.gap, position.kl, position.rank) == (None, None, None, None)


def test_arrays_name_the_positions_only_when_they_are_not_all(make):
    token = make.token(1, -0.5)
    positions = [measured(make, token, token)]
    fields = arrays(positions)
    assert (fields["compared"], fields["positions"], fields["ids"]) == (1, (4,), (1,))
    assert arrays([])["positions"] is None
