"""Flags that several commands share, as a tree of the configuration's shape.

House rules. Pure; what a flag's value means is the configuration's to check.
"""

from __future__ import annotations

from typing import Any


def engine_flags(
    primary: str | None, shadow: list[str] | None, control: str | None, sample: float | None = None
) -> dict[str, Any]:
    """Return what ``--primary``, ``--shadow [name=]URL``, ``--control`` and ``--sample`` say."""
    flags: dict[str, Any] = {}
    if primary is not None:
        flags["primary"] = {"url": primary}
    if sample is not None:
        flags["sampling"] = {"rate": sample}
    shadows: list[dict[str, Any]] = []
    for number, text in enumerate(shadow or []):
        name, separator, url = text.partition("=")
        if not separator or "/" in name:
            name, url = f"shadow{number + 1}" if number else "shadow", text
        shadows.append({"name": name, "url": url})
    if control is not None:
        shadows.append({"name": "control", "url": control, "role": "control"})
    if shadows:
        flags["shadows"] = shadows
    return flags
