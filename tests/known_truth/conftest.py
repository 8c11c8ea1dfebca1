"""What the cases share: a seed to be drawn by, and the table in which each tells what was reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import seeds
from tests.known_truth.table import GATHERED, Line, on_page

#: (case, what was planted, what was reported, where)
Tell = Callable[[str, str, str, str], None]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that draws the first fixed seed, or every one that was asked for."""
    if "seed" in metafunc.fixturenames:
        chosen = seeds.chosen()
        metafunc.parametrize("seed", chosen[:1] if chosen == seeds.FIXED else chosen)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Take a case's line: into the table when it is made anew, else held against it. Of seeds, the first fixed one tells."""
    gathered = request.config.stash.get(GATHERED, None)
    drawn = getattr(request.node, "callspec", None)
    silent = drawn is not None and drawn.params.get("seed", seeds.FIXED[0]) != seeds.FIXED[0]

    def told(*cells: str) -> None:
        line = Line(*cells)
        assert "|" not in "".join(line)
        assert "; " not in line.planted
        if silent:
            return
        if gathered is not None:
            gathered.append(line)
        else:
            assert line in on_page(), "renew the table with python -m tests.known_truth"

    return told
