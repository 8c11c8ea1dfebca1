"""``proxy`` and ``engines`` are common names: a check that what Python imports under them is ours."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def shadowed() -> str | None:
    """A sentence naming the package that hides one of ours, or None."""
    home = Path(__file__).resolve().parents[2]
    for name in ("proxy", "engines"):
        spec = importlib.util.find_spec(name)
        place = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if place is not None and place != home / name:
            return f"the package {name!r} is imported from {place}, not from {home / name}; uninstall the other, or mend PYTHONPATH"
    return None
