"""What became of exchanges that nobody settled for an arm, lost with a process or from before the arm: found by arithmetic, counted as shed.

House rules. Works inside the caller's transaction. Every exchange that has ended, for whatever arms, is counted once more as ``settled`` without shadow
and mode: that is what an arm that comes later is held against.
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


#: Outcome of an exchange as a whole, in the row without shadow and mode.
SETTLED = "settled"


class Ended(NamedTuple):
    """What has ended of one incarnation: exchanges, of them declined by a rule, and by arm."""

    exchanges: int
    declined: int
    arms: dict[Arm, int]


def ended(rows: Iterable[tuple[str, str, str, int]]) -> Ended:
    """Add up (shadow, mode, outcome, n) of one incarnation."""
    arms: Counter[Arm] = Counter()
    whole: Counter[str] = Counter()
    for shadow, mode, outcome, n in rows:
        if shadow:
            arms[Arm(shadow, mode)] += n
        else:
            whole[outcome] += n
    return Ended(whole[SETTLED], whole["not_sampled"], dict(arms))


def ended_of(connection: sqlite3.Connection, incarnation: str) -> Ended:
    """The same, read. Raises sqlite3.Error."""
    statement = "SELECT shadow, mode, outcome, SUM(n) FROM counts WHERE incarnation = ? GROUP BY 1, 2, 3"
    return ended(connection.execute(statement, (incarnation,)))


def reconcile(
    connection: sqlite3.Connection,
    handed_over: Mapping[str, int],
    arms: Collection[Arm],
    in_flight: Mapping[str, int] | None = None,
) -> dict[tuple[str, Arm], int]:
    """Count as shed what each incarnation handed over and no arm has settled; remember ``arms`` for the next time.

    ``in_flight``: exchanges by incarnation that are in the judge's hands and not in the store; none may get there meanwhile. The reason is
    ``lost_on_crash`` for an arm that was configured in the judge's last life, ``not_configured`` for one that was not,
    ``store_replaced`` when the store knows of no earlier life. Returns what was missing. Raises sqlite3.Error.
    """
    row = connection.execute("SELECT value FROM state WHERE key = ?", (_ARMS,)).fetchone()
    before = (
        None if row is None else {Arm(*pair) for pair in msgspec.msgpack.decode(row[0], type=list[tuple[str, str]])}
    )
    missing: dict[tuple[str, Arm], int] = {}
    for incarnation, handed in handed_over.items():
        found = ended_of(connection, incarnation)
        due = handed - (in_flight or {}).get(incarnation, 0)
        if due > found.exchanges:
            connection.execute(COUNT, (incarnation, "", "", SETTLED, "", due - found.exchanges))
        for arm in {*arms, *(before or ())}:
            gap = due - found.declined - found.arms.get(arm, 0)
            if gap > 0:
                why = "store_replaced" if before is None else "lost_on_crash" if arm in before else "not_configured"
                connection.execute(COUNT, (incarnation, *arm, "shed", why, gap))
                missing[incarnation, arm] = gap
    _remember(connection, arms)
    return missing


def adopt(connection: sqlite3.Connection, arms: Collection[Arm]) -> None:
    """Count as ``shed{not_configured}`` what has ended without an arm that came under way; remember ``arms``. Raises sqlite3.Error."""
    incarnations = connection.execute("SELECT DISTINCT incarnation FROM counts WHERE outcome = ?", (SETTLED,))
    for (incarnation,) in incarnations.fetchall():
        found = ended_of(connection, incarnation)
        for arm in arms:
            gap = found.exchanges - found.declined - found.arms.get(arm, 0)
            if gap > 0:
                connection.execute(COUNT, (incarnation, *arm, "shed", "not_configured", gap))
    _remember(connection, arms)


def _remember(connection: sqlite3.Connection, arms: Collection[Arm]) -> None:
    connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (_ARMS, msgspec.msgpack.encode(sorted(arms))))
