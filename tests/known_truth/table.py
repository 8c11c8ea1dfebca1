"""The table "Known truth" of ``proxy/compare/README.md``: a line for each case at each size, told by the case itself.

House rules. The page between the two marks is made by ``python -m tests.known_truth`` and nowhere else; each case holds its own line against the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).parents[2] / "proxy" / "compare" / "README.md"
BEGIN, END = "<!-- known truth: written by python -m tests.known_truth -->", "<!-- /known truth -->"
_JOINED = "; "
_HEAD = "| case | planted | reported | where |\n| --- | --- | --- | --- |"


class Line(NamedTuple):
    """One case at one size."""

    case: str
    planted: str
    reported: str
    where: str


#: Where a run that gathers lines keeps them.
GATHERED = pytest.StashKey[list[Line]]()


def parted(page: str) -> tuple[str, str, str]:
    """What stands before, between and after the marks. Raises ValueError when they are missing."""
    before, begin, rest = page.partition(BEGIN)
    between, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE}: the marks {BEGIN} and {END} are missing")
    return before, between, after


def written(lines: Iterable[Line]) -> str:
    """The table: sizes of which the same was reported share a line."""
    planted: dict[tuple[str, str, str], list[str]] = {}
    for line in lines:
        planted.setdefault((line.case, line.reported, line.where), []).append(line.planted)
    rows = (Line(case, _JOINED.join(sizes), told, where) for (case, told, where), sizes in planted.items())
    return "\n".join([_HEAD, *(f"| {' | '.join(row)} |" for row in rows)])


def renewed(page: str, lines: Iterable[Line]) -> str:
    """The page with its table as it is now."""
    before, _, after = parted(page)
    return f"{before}{BEGIN}\n\n{written(lines)}\n\n{END}{after}"


@cache
def on_page() -> tuple[Line, ...]:
    """The lines that the page has."""
    _, between, _ = parted(PAGE.read_text(encoding="utf-8"))
    cells = (line.strip("| ").split(" | ") for line in between.splitlines() if line.startswith("|"))
    rows = [Line(*row) for row in cells if len(row) == 4][2:]
    return tuple(row._replace(planted=one) for row in rows for one in row.planted.split(_JOINED))
