"""Pieces to lines: the same however they are cut."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from proxy.rollouts.packed import lines


@given(st.lists(st.binary(max_size=8).map(lambda data: data.replace(b"x", b"\n"))))
def test_lines_are_those_of_the_whole(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert list(lines(iter(pieces), 1 << 20)) == [line for line in re.split(rb"(?<=\n)", whole) if line]


def test_a_line_without_end_is_not_held() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"a" * 100

    (line,) = lines(endless(), 1000)
    assert (len(line), taken) == (1100, 11)
