"""Keeping label values few: what comes from outside may never make a metric or a table grow without end.

House rules. Pure; the set of admitted values is the caller's and only grows, so that a series, once there, is fed for ever.
"""

from __future__ import annotations

import re

OTHER = "other"
#: Models that get a label of their own when ``models`` is not configured.
MODELS_SEEN = 50
#: Reasons and kinds of any one metric. About thirty exist; an engine that invents more is folded.
REASONS_SEEN = 64

_REASON = re.compile(r"[a-z0-9_]{1,48}")


def admit(seen: set[str], value: str, limit: int) -> str:
    """``value`` if it is known or there is room for it (it is then added to ``seen``), else ``other``."""
    if value in seen:
        return value
    if len(seen) >= limit:
        return OTHER
    seen.add(value)
    return value


def reason(seen: set[str], value: str) -> str:
    """Bound a reason: lower-case words joined by underscores, at most ``REASONS_SEEN`` of them; "" stays ""."""
    if not value:
        return ""
    return admit(seen, value, REASONS_SEEN) if _REASON.fullmatch(value) else OTHER


def model(configured: tuple[str, ...], seen: set[str], value: str) -> str:
    """Bound the ``model`` label: one of the configured names, or without a configuration one of the first ``MODELS_SEEN``, else ``other``."""
    if configured:
        return value if value in configured else OTHER
    return admit(seen, value, MODELS_SEEN) if 0 < len(value) <= 200 else OTHER
