"""The traffic processes' counters as one: the living, the dead, and those long folded away.

House rules. A sum never goes back: what a dead process counted is kept for ever in ``retired.msgpack``, and a process that died a
moment ago counts the same before and after it is folded. Of a dead process all that it had selected and not shed counts as handed over,
for it holds nothing any more: what no judge has of it is found missing by ``Store.reconcile``. Of a living one only what a judge has
acknowledged can be missing: it still holds the rest. Only the supervisor folds; anybody may read.
"""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from proxy.counters import LAYOUT, SLOTS, Counters, Slot, is_alive
from proxy.logs import say

log = logging.getLogger("parhelion.totals")

RETIRED = "retired.msgpack"
#: Slots that say what is, not what was: of a dead process they are 0.
GAUGES = (
    Slot.OPEN_SAMPLED, Slot.QUEUED, Slot.QUEUED_BYTES, Slot.OPEN_STREAMS, Slot.CLIENT_CONNECTIONS, Slot.JUDGE_BYTES,
)  # fmt: skip
#: Incarnations whose hand-over is remembered one by one for the judge's reconciliation; older ones were reconciled long ago.
_REMEMBERED = 1024


class Retired(Struct):
    """The sums over folded incarnations; ``handed_over`` by name, oldest first, also tells which files are already in the sums."""

    layout: int
    slots: list[int]
    handed_over: dict[str, int]


class Totals(Struct):
    """All incarnations together; ``handed_over`` also one by one."""

    counters: Counters
    handed_over: dict[str, int]

    def __getitem__(self, slot: int) -> int:
        return self.counters[slot]


@contextmanager
def read(directory: Path) -> Iterator[Totals]:
    """Sum up ``directory`` (the state directory's ``counters``); the sums are valid inside the ``with``. Raises OSError."""
    for _ in range(5):
        retired = _load(directory)
        sums, handed = list(retired.slots), dict(retired.handed_over)
        for name, slots, alive in _incarnations(directory, retired):
            handed[name] = slots[Slot.ACKNOWLEDGED if alive else Slot.HANDED_OVER]
            sums = [a + b for a, b in zip(sums, slots, strict=True)]
        if _load(directory).handed_over.keys() == retired.handed_over.keys():
            break  # else something was folded meanwhile and may have been missed
    memory = mmap.mmap(-1, 24 + SLOTS * 8)
    counters = Counters(directory, memory)
    try:
        for number, value in enumerate(sums):
            counters.slots[number] = value
        yield Totals(counters, handed)
    finally:
        counters.close()


def handed_over(directory: Path) -> dict[str, int]:
    """Say what each incarnation has handed over in its life, for ``Store.reconcile``. Raises OSError."""
    with read(directory) as totals:
        return totals.handed_over


def fold(directory: Path) -> list[str]:
    """Add the files of dead incarnations to the retired sums and delete them; return their names. Raises OSError.

    Killed at any moment, it does no harm: a file that is already in the sums is recognised by its name.
    """
    retired = _load(directory)
    for path in _files(directory):  # left over from a fold that was killed before it could delete
        if path.stem in retired.handed_over:
            path.unlink(missing_ok=True)
    folded = []
    for name, slots, alive in _incarnations(directory, retired):
        if not alive:
            retired.handed_over[name] = slots[Slot.HANDED_OVER]
            retired.slots = [a + b for a, b in zip(retired.slots, slots, strict=True)]
            folded.append(name)
    if folded:
        for old in list(retired.handed_over)[:-_REMEMBERED]:
            del retired.handed_over[old]
        replace_file(directory / RETIRED, msgspec.msgpack.encode(retired))
        for name in folded:
            (directory / f"{name}.bin").unlink(missing_ok=True)
    return folded


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file so that a reader sees the old or the new one whole; ``durable``: after a loss of power too. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _bury(slots: list[int]) -> None:
    """Make a dead process's slots final, in place."""
    selected = slots[Slot.SAMPLED] + slots[Slot.OFFERED]
    slots[Slot.HANDED_OVER] = selected - slots[Slot.SHED_QUEUE] - slots[Slot.SHED_CAPTURE]
    # Killed between counting a request and deciding on it: it was never looked at again.
    slots[Slot.NOT_SAMPLED] += slots[Slot.RECEIVED] - slots[Slot.NOT_SAMPLED] - selected
    for slot in GAUGES:
        slots[slot] = 0


def _incarnations(directory: Path, retired: Retired) -> Iterator[tuple[str, list[int], bool]]:
    for path in _files(directory):
        if path.stem in retired.handed_over:
            continue
        try:
            alive = is_alive(path)
            counters = Counters.attach(path)
        except FileNotFoundError:
            continue
        except ValueError:  # just being made, or of another version
            say(log, logging.DEBUG, "a counters file is of another layout", file=path.name)
            continue
        slots = list(counters.slots)
        counters.close()
        if not alive:
            _bury(slots)
        yield path.stem, slots, alive


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.bin"))


def _load(directory: Path) -> Retired:
    empty = Retired(LAYOUT, [0] * SLOTS, {})
    path = directory / RETIRED
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return empty
    try:
        retired = msgspec.msgpack.decode(content, type=Retired)
    except msgspec.MsgspecError:
        retired = None
    if retired is None or retired.layout != LAYOUT or len(retired.slots) != SLOTS:
        say(log, logging.WARNING, "the retired counters cannot be read: they count from 0 again", file=str(path))
        return empty
    return retired
