"""Which requests are asked, and in which order: always the same for the same wishes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.replay.line import TrafficError
from proxy.replay.plan import Wanted, plan
from proxy.replay.traffic import Traffic, open_traffic
from tests.replay.test_formats import CHAT, REPLY
from tests.replay.test_traffic import lines


@pytest.fixture
def traffic(tmp_path: Path) -> Iterator[Traffic]:
    """A hundred requests, the latest first, each fourth with its reply."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(
        lines(*({"request": CHAT, "time": 1000 - n, "response": REPLY if n % 4 == 0 else None} for n in range(100)))
    )
    found = open_traffic(file)
    yield found
    found.close()


def test_orders(traffic: Traffic) -> None:
    assert plan(traffic, Wanted()) == list(range(100))
    assert plan(traffic, Wanted("time")) == list(range(99, -1, -1))
    shuffled = plan(traffic, Wanted("shuffled"))
    assert sorted(shuffled) == list(range(100)) != shuffled
    assert plan(traffic, Wanted("shuffled")) == shuffled != plan(traffic, Wanted("shuffled", seed=1))
    assert plan(traffic, Wanted("time", limit=3)) == [99, 98, 97]


def test_choices(traffic: Traffic) -> None:
    assert plan(traffic, Wanted(since=990)) == list(range(11))
    assert plan(traffic, Wanted(answered=True)) == list(range(0, 100, 4))
    some = plan(traffic, Wanted(sample=0.5))
    assert 30 < len(some) < 70
    assert set(plan(traffic, Wanted(sample=0.25))) < set(some)


def test_what_cannot_be_planned(traffic: Traffic, tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match="of 100 requests none is left"):
        plan(traffic, Wanted(since=5000))
    file = tmp_path / "b.jsonl"
    file.write_bytes(lines({"request": CHAT, "time": 5}, CHAT))
    untimed = open_traffic(file)
    with pytest.raises(TrafficError, match=r"b.jsonl:2: says no time, which --order time needs"):
        plan(untimed, Wanted("time"))
    with pytest.raises(TrafficError, match="holds no replies"):
        plan(untimed, Wanted(answered=True))
    untimed.close()
