"""What the judge last knew of each engine, kept in the store's state for whoever reads it and for the judge's next life.

House rules. Values and their bytes only. What cannot be read (an older layout) is nothing known.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

#: Its key in the store's state.
KEY = "engines"


class EngineState(Struct, frozen=True):
    """One arm: where it is, its footprint's id, its capability level, when its stack was last found to be this (Unix seconds), and the origin of each fact."""

    url: str
    footprint: str
    level: str
    looked: float
    origins: dict[str, str] = {}


def encode(known: dict[str, EngineState]) -> bytes:
    """Return the bytes to keep; by arm."""
    return msgspec.json.encode(known)


def decode(kept: bytes | None) -> dict[str, EngineState]:
    """Return what was kept; empty when nothing was, or nothing that can be read."""
    if kept is None:
        return {}
    try:
        return msgspec.json.decode(kept, type=dict[str, EngineState])
    except msgspec.MsgspecError:
        return {}
