"""What a fuzz target is, and how its inputs are cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """``check`` raises for an input that breaks the invariant. ``seeds`` to begin with, ``words`` worth inserting, ``longest`` input in bytes."""

    check: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    longest: int = 4096


def bytewise(data: bytes) -> list[bytes]:
    """One byte a piece."""
    return [data[place : place + 1] for place in range(len(data))]


def halves(data: bytes) -> list[bytes]:
    """Two pieces, cut where the input itself says."""
    place = sum(data) % (len(data) + 1)
    return [piece for piece in (data[:place], data[place:]) if piece]
