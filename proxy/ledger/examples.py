"""The worst examples of a candidate: one record each, with both texts around the first difference, as far as they were kept.

House rules. Reads a store and nothing else. Of a text only a window is taken; where texts are not kept there is none, and ``Example.text`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from msgspec import Struct

from proxy.compare.comparison import Flip, Mode
from proxy.ledger.query import Filter, gravest_flip
from proxy.ledger.record import Record
from proxy.ledger.store import Store

#: Examples of a candidate.
MOST = 10
#: Newest records with a genuine difference (of each mode) among which the worst are looked for.
LOOKED_AT = 500
_BEFORE, _AFTER = 160, 240


class Window(Struct, frozen=True):
    """Both texts around the first character that differs: what they share before it, and how each goes on."""

    shared: str
    primary: str
    shadow: str


class Example(Struct, frozen=True):
    """One record: where the arms part, what each took there, what they said around it (None where texts are not kept)."""

    shadow: str
    record: str
    exchange: str
    time: float
    model: str
    endpoint: str
    mode: str
    flip: Flip
    findings: tuple[str, ...]
    text: Window | None


def worst(store: Store, candidates: Iterable[str], *, texts: bool, since: float | None = None) -> list[Example]:
    """Return the worst records of each candidate: of the newest with a genuine difference those with the largest gap, one an exchange.

    ``since``: Unix seconds. ``texts``: whether what is kept as content is text (and not a hash of it). Raises StoreError.
    """
    return [example(record, texts=texts) for name in candidates for record in _worst_of(store, name, since)]


def _worst_of(store: Store, candidate: str, since: float | None) -> list[Record]:
    found: dict[str, tuple[float, Record]] = {}
    wanted = (
        Filter(shadow=candidate, mode=mode.value, difference="genuine", newest_first=True, limit=LOOKED_AT, since=since)
        for mode in Mode
    )
    for record in chain.from_iterable(store.records(one) for one in wanted):
        flip = _flip(record)
        gap = -1.0 if flip is None or flip.gap is None else flip.gap
        if flip is not None and gap > found.get(record.exchange, (-2.0, record))[0]:
            found[record.exchange] = (gap, record)
    return [record for _, record in islice(sorted(found.values(), key=lambda one: -one[0]), MOST)]


def _flip(record: Record) -> Flip | None:
    found = gravest_flip(record.comparison)
    return None if found is None else found[1]


def example(record: Record, *, texts: bool) -> Example:
    """Return a record with a difference as an example. Raises ValueError for one without."""
    found = gravest_flip(record.comparison)
    if found is None:
        raise ValueError(f"record {record.id} has no difference")
    choice, flip = found
    window = _window(record, choice) if texts and record.content is not None else None
    return Example(
        shadow=record.shadow,
        record=record.id,
        exchange=record.exchange,
        time=record.time,
        model=record.model,
        endpoint=record.endpoint,
        mode=record.comparison.mode.value,
        flip=flip,
        findings=record.comparison.findings,
        text=window,
    )


def _window(record: Record, choice: int) -> Window | None:
    content = record.content
    if content is None or not choice < len(content.primary) or not choice < len(content.shadow):
        return None
    primary, shadow = content.primary[choice], content.shadow[choice]
    at = shared(primary, shadow)
    return Window(_tail(primary[:at]), _head(primary[at:]), _head(shadow[at:]))


def shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _tail(text: str) -> str:
    return text if len(text) <= _BEFORE else f"…{text[-_BEFORE:]}"


def _head(text: str) -> str:
    return text if len(text) <= _AFTER else f"{text[:_AFTER]}…"
