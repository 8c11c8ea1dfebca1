"""Fuzz targets: one small file each, one stated invariant each, driven by hypothesis or by atheris (coverage-guided).

``python -m tests.fuzz NAME --seconds N`` runs one, ``python -m tests.fuzz --list`` names them. A target takes any bytes and raises ``AssertionError`` when its
invariant does not hold; every other exception is a fault of the product as well. What a run finds lies in ``build/fuzz/NAME``; inputs worth keeping are
copied to ``corpus/NAME/ANY.bin``: the tests replay them, and both drivers begin with them.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.fuzz.target import Target

CORPUS = Path(__file__).parent / "corpus"
NAMES = (
    "align", "codings", "dialects", "reply_chunks", "reply_heads", "request_chunks", "request_heads", "routes", "sse", "wire_frames",
)  # fmt: skip


def target(name: str) -> Target:
    """Import a target. Raises KeyError for a name that is none."""
    if name not in NAMES:
        raise KeyError(f"no target {name!r}: choose one of {', '.join(NAMES)}")
    found = importlib.import_module(f"tests.fuzz.{name}").TARGET
    assert isinstance(found, Target)
    return found


def kept(name: str) -> list[bytes]:
    """The inputs kept for a target."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*.bin"))]
