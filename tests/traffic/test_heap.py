"""When memory is given back: once, and only behind a large backlog."""

from __future__ import annotations

import platform

import pytest

from proxy.traffic.heap import Heap


@pytest.mark.parametrize(
    ("backlogs", "times"),
    [
        ([0, 0], 0),
        ([100_000, 0], 0),
        ([2 << 20, 1 << 20], 0),  # it is still there
        ([2 << 20, 1000, 0, 0, 0], 1),
        ([2 << 20, 0, 3 << 20, 0], 2),
        ([2 << 20, 0, 1000, 0], 1),
        ([64 << 20, 33 << 20, 33 << 20], 0),
        ([64 << 20, 32 << 20, 32 << 20, 17 << 20], 1),  # half of it has gone on to the judge
        ([64 << 20, 32 << 20, 16 << 20, 8 << 20, 4 << 20, 0], 4),
    ],
)
def test_a_large_backlog_that_is_gone_is_given_back_once(
    backlogs: list[int], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heap, given = Heap(), []
    monkeypatch.setattr(heap, "_trim", given.append)
    for backlog in backlogs:
        heap.holds(backlog)
    assert given == [0] * times


def test_the_librarys_own_function_is_called_where_there_is_one() -> None:
    assert Heap()._trim(0) in ({0, 1} if platform.libc_ver()[0] == "glibc" else {None})
