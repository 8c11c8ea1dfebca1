"""Row 3 in short: the figures are printed; the bounds here are for a machine that does other things too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.isolation import latency


@pytest.mark.slow
def test_what_the_path_and_the_mirror_add(figure: Callable[[str, str], None]) -> None:
    tallies = latency.measure(500)
    for line in latency.table(tallies):
        figure("row 3", line)
    for tally in tallies.values():
        assert (tally.failed, tally.wrong) == (0, [])
    for name in latency.RATES:
        assert latency.added(tallies, name, "direct", 0.5) <= 100.0
