"""Two stacks held against each other, from their footprints as stored (plain values by field, null where unknown).

House rules. Which differences count is decided by ``engines.footprint``; here they only become plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.footprint import UNKNOWN, Fact, Footprint, Origin, difference


def stack_differences(
    primary: Mapping[str, Any], shadow: Mapping[str, Any], names: tuple[str, str] = ("primary", "shadow")
) -> list[dict[str, Any]]:
    """List the fields that two footprints do not share: ``field``, ``primary``, ``shadow``, and ``sure`` (both values are known).

    ``names``: what to call the two, if not so. Empty when nothing is known of one of them.
    """
    if not primary or not shadow:
        return []
    return [
        {"field": one.field, names[0]: one.one.value, names[1]: one.other.value, "sure": one.sure}
        for one in difference(_footprint(primary), _footprint(shadow))
    ]


def _footprint(fields: Mapping[str, Any]) -> Footprint:
    return Footprint({name: UNKNOWN if value is None else Fact(value, Origin.PROBED) for name, value in fields.items()})
