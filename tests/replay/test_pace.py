"""When the next request may begin."""

from __future__ import annotations

import pytest

from proxy.replay.pace import Pace


def test_as_fast_as_there_is_room() -> None:
    assert [Pace(None).wait(n, 0.0) for n in range(3)] == [0.0, 0.0, 0.0]


def test_so_many_a_second_without_catching_up() -> None:
    pace = Pace(10.0)
    assert [pace.wait(n, 5.0) for n in range(3)] == pytest.approx([0.0, 0.1, 0.2])
    assert pace.wait(3, 9.0) == 0.0  # late: what was missed is not made up for
    assert pace.wait(4, 9.0) == pytest.approx(0.1)


def test_recorded_gaps_twice_as_fast_from_where_it_goes_on() -> None:
    pace = Pace(None, [0.0, 100.0, 101.0, 105.0], 2.0)
    assert pace.wait(1, 7.0) == 0.0
    assert pace.wait(2, 7.1) == pytest.approx(0.4)
    assert pace.wait(3, 7.5) == pytest.approx(2.0)
    assert pace.wait(3, 20.0) == 0.0
