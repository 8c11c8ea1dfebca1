"""How many records each choice of a filter would leave: from the hours' counts, never from the records themselves.

House rules. Whole hours, those of the oldest record that is kept and later. A field's counts are of all that the other fields ask for. Findings and rules of what is known are in no
kind: with a finding asked for there are no counts, and hidden records are in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxy.ledger.hours import hour_of
from proxy.ledger.kinds import Kind
from proxy.ledger.query import Filter

Read = Callable[[str, Sequence[object]], list[Any]]
#: Field of a filter, field of a kind.
FIELDS = ("model", "endpoint", "shadow", "mode", "outcome", "difference")
#: Summed before kinds are joined to it: hours by kinds are many, kinds are few.
_SUMS = (
    "SELECT k.model, k.endpoint, k.shadow, k.mode, k.outcome, k.class, h.n FROM "
    "(SELECT kind, SUM(n) AS n FROM record_hours WHERE hour >= ? AND hour <= ? GROUP BY kind) h JOIN kinds k ON k.id = h.kind"
)
_LAST = 2**40


def facets(read: Read, wanted: Filter) -> Mapping[str, Mapping[str, int]]:
    """Return by field and value how many records there are; {} where that is not counted. Raises StoreError."""
    if wanted.finding is not None or wanted.exchange is not None:
        return {}
    oldest = read("SELECT time FROM records ORDER BY seq LIMIT 1", [])
    if not oldest:  # all are gone, and counted still
        return {}
    first = max(hour_of(oldest[0][0]), 0 if wanted.since is None else hour_of(wanted.since))
    last = _LAST if wanted.until is None else hour_of(wanted.until)
    kinds = [(Kind(*row[:6]), int(row[6])) for row in read(_SUMS, [first, last])]
    found: dict[str, Counter[str]] = {field: Counter() for field in FIELDS}
    for kind, n in kinds:
        wrong = [field for field in FIELDS if getattr(wanted, field) not in (None, getattr(kind, field))]
        if wanted.differing and not (kind.difference or kind.outcome == "diverged"):
            continue
        for field in FIELDS:
            if wrong in ([], [field]):
                found[field][getattr(kind, field)] += n
    return found
