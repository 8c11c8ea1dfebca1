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
        ([64 << 20, 49 << 20, 49 << 20], 0),
        ([64 << 20, 48 << 20, 48 << 20, 33 << 20], 1),  # 16 MiB have gone on to the judge
        ([64 << 20, 48 << 20, 32 << 20, 16 << 20, 1 << 20, 0], 4),
        ([256 << 20, 230 << 20, 224 << 20], 1),  # an eighth of very much
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
