"""Run every case and write the table of ``proxy/compare/README.md`` anew: ``python -m tests.known_truth``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.known_truth.table import GATHERED, PAGE, Line, renewed


class Gathering:
    """A plugin under which cases tell their lines and hold them against nothing."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[GATHERED] = self.lines


def main() -> int:
    """Write the page if every case holds; the exit status."""
    for name in ("PARHELION_SEEDS", "PARHELION_FRESH_SEEDS"):
        os.environ.pop(name, None)
    gathering = Gathering()
    here = Path(__file__).parent
    words = ["-q", "-p", "no:cacheprovider", *map(str, sorted(here.glob("test_*.py")))]
    status = pytest.main(words, plugins=[gathering])
    if status == pytest.ExitCode.OK:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), gathering.lines), encoding="utf-8")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
