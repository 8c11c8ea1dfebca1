"""What became of exchanges that a judge took with it when it died: found by arithmetic, counted as shed.

House rules. Works inside the caller's transaction; nothing may be in flight while it runs.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

#: (incarnation, shadow, mode, outcome, reason) and a number, added up.
COUNT = (
    "INSERT INTO counts (incarnation, shadow, mode, outcome, reason, n) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET n = n + excluded.n"
)
_ARMS = "arms"  # key in ``state``: the shadows and modes of the judge's last life


class Arm(NamedTuple):
    """A shadow in a mode."""

    shadow: str
    mode: str


def settled(rows: Iterable[tuple[str, str, str, int]]) -> tuple[int, dict[Arm, int]]:
    """From (shadow, mode, outcome, n) of one incarnation: how many a rule declined, and how many ended for each arm."""
    ended: Counter[Arm] = Counter()
    declined = 0
    for shadow, mode, outcome, n in rows:
        if shadow:
            ended[Arm(shadow, mode)] += n
        elif outcome == "not_sampled":
            declined += n
    return declined, dict(ended)


def reconcile(
    connection: sqlite3.Connection, handed_over: Mapping[str, int], arms: Collection[Arm]
) -> dict[tuple[str, Arm], int]:
    """Count as shed what each incarnation handed over and no arm has settled; remember ``arms`` for the next time.

    The reason is ``lost_on_crash`` for an arm that was configured in the judge's last life, ``not_configured`` for one that was not,
    ``store_replaced`` when the store knows of no earlier life. Returns what was missing. Raises sqlite3.Error.
    """
    row = connection.execute("SELECT value FROM state WHERE key = ?", (_ARMS,)).fetchone()
    before = (
        None if row is None else {Arm(*pair) for pair in msgspec.msgpack.decode(row[0], type=list[tuple[str, str]])}
    )
    missing: dict[tuple[str, Arm], int] = {}
    for incarnation, handed in handed_over.items():
        statement = "SELECT shadow, mode, outcome, SUM(n) FROM counts WHERE incarnation = ? GROUP BY 1, 2, 3"
        declined, ended = settled(connection.execute(statement, (incarnation,)))
        for arm in {*arms, *(before or ())}:
            gap = handed - declined - ended.get(arm, 0)
            if gap > 0:
                why = "store_replaced" if before is None else "lost_on_crash" if arm in before else "not_configured"
                connection.execute(COUNT, (incarnation, *arm, "shed", why, gap))
                missing[incarnation, arm] = gap
    connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (_ARMS, msgspec.msgpack.encode(sorted(arms))))
    return missing
