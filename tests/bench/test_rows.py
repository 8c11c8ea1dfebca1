"""One short row from end to end: nginx with its mirror and Parhelion measured in turn, everything mirrored and read."""

from __future__ import annotations

import pytest

from tests import programs
from tests.bench.__main__ import ROWS
from tests.bench.native import Work
from tests.bench.payloads import json_reply, request, sse_reply
from tests.bench.peers import nginx, parhelion
from tests.bench.ratio import Verdict
from tests.bench.stand import stand, versus

pytestmark = pytest.mark.slow


def test_a_row_is_measured_and_judged() -> None:
    programs.need(programs.debian, "nginx-light", "nginx")
    with stand(pairs=2, seconds=0.2) as bench:
        work = Work(request(1024), connections=8, seconds=5, requests=400)
        found = bench.compare([parhelion.all_mirrored, nginx.mirror], json_reply(1300), work)
        (row,) = versus(found, 1, "CPU a request", {"nginx-mirror": 1e6, "not measured": 1.0})
        assert (row.verdict, row.share) == (Verdict.MET, 1.0)
        assert [len(samples) for samples in found.values()] == [2, 2]
        for sample in [*found["parhelion"], *found["nginx-mirror"]]:
            assert sample.requests == sample.load["done"] == 400
            assert sample.share == 1.0
            assert 1 < sample.cpu < 100_000
        ours = found["parhelion"][0]
        assert 1 < ours.live < ours.cpu
        assert ours.comparisons > 0
        assert ours.compared > 0

        work = Work(request(1024, stream=True), connections=4, seconds=5, requests=20)
        found = bench.compare([nginx.mirror], sse_reply(16, pace=2000), work, warm=False)
        (void,) = versus(found, 6, "CPU a chunk", {"nginx-mirror": 1e6}, ours="nginx-mirror")
        assert void.verdict is Verdict.VOID  # its mirror hangs up on streams
        assert found["nginx-mirror"][0].load["stamped"] == 20 * 16


def test_every_row_says_which_goal_it_is_for() -> None:
    assert len(ROWS) >= 15
    assert all(row.__doc__ for row in ROWS.values())
