"""The table is of the cases: every line of it is one that a case here tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.known_truth.table import BEGIN, END, PAGE, Line, on_page, parted, renewed, written

SOURCES = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py")))


def test_every_case_of_the_page_is_told_here() -> None:
    cases = {line.case for line in on_page()}
    assert len(cases) > 25
    assert {case for case in cases if case.partition(":")[0] not in SOURCES} == set()
    assert len(set(on_page())) == len(on_page())


def test_the_page_is_as_it_would_be_written() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page, on_page()) == page


def test_sizes_of_which_the_same_was_reported_share_a_line() -> None:
    lines = [Line("a", "1", "nothing", "nowhere"), Line("b", "1", "x", "y"), Line("a", "2", "nothing", "nowhere")]
    assert written(lines).splitlines()[2:] == ["| a | 1; 2 | nothing | nowhere |", "| b | 1 | x | y |"]


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks"):
        parted(f"{END}{BEGIN}")
