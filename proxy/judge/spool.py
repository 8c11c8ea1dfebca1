"""The spool: what the judge has taken and not settled, on disk, so that a SIGKILL of any process loses none of it.

An exchange is appended as it comes, one write for all that came in one read, before anything is done with it; that it is settled is noted by the
store, in the transaction that settles it, so that a kill between the two settles nothing twice. A file whose exchanges are all settled is deleted, and
at rest nothing is left. No fsync: what was written outlives every process, not the loss of power.

House rules. Never raises for what a disk does and never stops the judge: what cannot be written is worked on all the same, and counted. It holds
prompts and answers, so it is its owner's alone (0700, 0600); credentials never come this far.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from proxy import logs
from proxy.config import Spool as Settings
from proxy.exchange import WIRE_VERSION, Exchange
from proxy.judge import segment
from proxy.traffic.wire import Payload

logger = logging.getLogger("parhelion")

_ROLL = 16 << 20  # bytes after which another file is begun, so that one slow exchange does not keep much
_MOST_LIVES = 10  # what was taken up so often and never settled may be what kills the judge
_RETRY = 10.0
#: Of so many it is known that they were written, should they be handed over again: more than are under way unacknowledged, though life after life is killed.
_RECENT = 65_536
_PARTS = 512  # buffers a write takes at most (IOV_MAX is 1024)


class _File:
    """One file, as long as something in it is unsettled."""

    __slots__ = ("descriptor", "first", "last", "path", "size", "unsettled")

    def __init__(self, path: Path, descriptor: int | None, first: int) -> None:
        self.path, self.descriptor, self.first, self.last = path, descriptor, first, first
        self.size = self.unsettled = 0


class Kept(NamedTuple):
    """An exchange of an earlier life that is still to be settled."""

    number: int
    path: Path
    offset: int
    length: int
    incarnation: str
    id: str


class Spool:
    """``settings`` None turns it off; ``skipped`` counts exchanges that could not be kept, by reason: full or error."""

    def __init__(self, settings: Settings | None) -> None:
        self._settings = settings
        self._directory = Path(settings.path) if settings is not None else None
        self._lock: int | None = None
        self._files: dict[int, _File] = {}  # by first number
        self._current: _File | None = None
        self._where: dict[str, tuple[int, _File]] = {}  # by exchange id: number and file
        self._next = time.time_ns()  # numbers never come again, whatever became of the files that held earlier ones
        self._retry_at = 0.0
        self.size = 0
        self.skipped: Counter[str] = Counter()
        self.gone: list[tuple[int, int]] = []  # first and last number of deleted files
        self.recent: set[str] = set()  # ids of what earlier lives wrote last, settled or not

    def open(self, settled: Collection[int]) -> list[Kept]:
        """Take the directory, and what earlier lives have left in it but for what is ``settled`` (numbers)."""
        if self._directory is None or not self._take_directory(self._directory):
            return []
        kept: list[Kept] = []
        recent: list[str] = []
        try:
            files = segment.files(self._directory)
        except OSError as error:
            self._failed("spool_unreadable", error)
            return []
        for path in files:
            try:
                whole, unsettled = self._take_up(path, settled)
                kept += unsettled
                recent += [one.id for one in whole]
            except OSError as error:  # it alone stays behind
                logs.say(logger, logging.ERROR, "spool_file_unreadable", path=str(path), reason=error.strerror)
        self.recent = set(recent[-_RECENT:])
        if kept:
            self._next = max(self._next, kept[-1].number + 1)
            logs.say(logger, logging.WARNING, "spool_taken_up", exchanges=len(kept), bytes=self.size)
        return kept

    def _take_directory(self, directory: Path) -> bool:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._release_lock()
            busy = isinstance(error, BlockingIOError)
            why, mend = error.strerror, "name a directory that can be written as spool.path, or write spool: null"
            if busy:
                why, mend = "in use by another parhelion", "give each its own spool.path"
            said = {"path": str(directory), "reason": why, "remedy": f"{mend}; until then exchanges are not kept"}
            logs.say(logger, logging.ERROR, "spool_unusable", **said)
            self._retry_at = time.monotonic() + _RETRY
            return False
        return True

    def _take_up(self, path: Path, settled: Collection[int]) -> tuple[list[Kept], list[Kept]]:
        """What is whole in a file, and of that what is unsettled. Raises OSError."""
        lives = (segment.lives(path) or 0) + 1
        whole = list(_read(path)) if lives <= _MOST_LIVES else []
        found = [kept for kept in whole if kept.number not in settled]
        if not found:
            if lives > _MOST_LIVES:
                logs.say(logger, logging.ERROR, "spool_given_up", lives=lives, bytes=path.stat().st_size)
            path.unlink()
            return whole, []
        first = int(path.name[:16], 16)
        path = path.rename(path.with_name(segment.name(first, lives)))
        file = _File(path, None, first)
        file.size, file.last, file.unsettled = path.stat().st_size, whole[-1].number, len(found)
        self._files[first] = file
        self.size += file.size
        self._where |= {kept.id: (kept.number, file) for kept in found}
        return whole, [kept._replace(path=path) for kept in found]

    def oldest(self) -> int:
        """The first number that a file on disk may hold: what the store has noted of earlier ones can be forgotten."""
        return min(self._files, default=self._next)

    def read(self, kept: Kept) -> Exchange | None:
        """One that was kept; None when its file cannot be read any more."""
        try:
            with kept.path.open("rb") as file:
                return _decoder.decode(os.pread(file.fileno(), kept.length, kept.offset))
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, ids: Sequence[str], payloads: Sequence[Payload]) -> None:
        """Keep exchanges as they came, in one write."""
        if self._settings is None or not payloads:
            return
        if self._lock is None or time.monotonic() < self._retry_at:
            self.skipped["error"] += len(payloads)
            return
        size = sum(map(len, payloads)) + segment.HEADER * len(payloads)
        if self.size + size > self._settings.max_bytes:
            self.skipped["full"] += len(payloads)
            return
        first = self._next
        parts: list[Payload] = []
        for number, payload in enumerate(payloads, first):
            parts += (segment.header(number, payload), payload)
        try:
            file = self._current or self._begin()
            self._append(file, parts, size)
        except OSError as error:
            self.skipped["error"] += len(payloads)
            self._failed("spool_failed", error)
            self._roll()
            return
        self._next += len(payloads)
        file.last = self._next - 1
        file.unsettled += len(payloads)
        for number, id_ in enumerate(ids, first):
            self._where[id_] = number, file
        if file.size >= _ROLL:
            self._roll()

    def _begin(self) -> _File:
        assert self._directory is not None
        path = self._directory / segment.name(self._next, 0)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._current = self._files[self._next] = _File(path, descriptor, self._next)
        return self._current

    def _append(self, file: _File, parts: list[Payload], size: int) -> None:
        """All of it or nothing. Raises OSError."""
        assert file.descriptor is not None
        try:
            for start in range(0, len(parts), _PARTS):
                some = parts[start : start + _PARTS]
                wanted = sum(map(len, some))
                if os.writev(file.descriptor, some) != wanted:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # what a short write to a file means
        except OSError:
            os.ftruncate(file.descriptor, file.size)
            raise
        file.size += size
        self.size += size

    def _roll(self) -> None:
        """Write no more to the current file."""
        file, self._current = self._current, None
        if file is None:
            return
        if file.descriptor is not None:
            os.close(file.descriptor)
            file.descriptor = None
        if not file.unsettled:
            self._delete(file)

    def number(self, id_: str) -> int | None:
        """The number under which an exchange is kept; None when it is not."""
        found = self._where.get(id_)
        return None if found is None else found[0]

    def settled(self, id_: str) -> None:
        """Let go of an exchange: the store has it."""
        found = self._where.pop(id_, None)
        if found is None:
            return
        file = found[1]
        file.unsettled -= 1
        if not file.unsettled and file is not self._current:
            self._delete(file)

    def tidy(self) -> None:
        """Leave nothing on disk that is settled; try a disk again that failed. Call it now and then."""
        if self._current is not None and not self._current.unsettled:
            self._roll()
        if self._directory is not None and self._lock is None and time.monotonic() >= self._retry_at:
            self._take_directory(self._directory)

    def _delete(self, file: _File) -> None:
        self._files.pop(file.first, None)
        self.size -= file.size
        self.gone.append((file.first, file.last))
        try:
            file.path.unlink(missing_ok=True)
        except OSError as error:
            self._failed("spool_not_deleted", error)

    def _failed(self, event: str, error: OSError) -> None:
        logs.say(logger, logging.ERROR, event, path=str(self._directory), reason=error.strerror)
        self._retry_at = time.monotonic() + _RETRY

    def waiting(self) -> int:
        """Exchanges that are kept."""
        return len(self._where)

    def close(self) -> None:
        """Stop in order: what is left is for the next life, and has not killed this one."""
        self._roll()
        for file in self._files.values():
            try:
                file.path.rename(file.path.with_name(segment.name(file.first, 0)))
            except OSError as error:
                self._failed("spool_failed", error)
        self._release_lock()

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _read(path: Path) -> Iterator[Kept]:
    """What of a file can be taken up again. Raises OSError."""
    end = 0
    for number, offset, payload in segment.scan(path):
        end = offset + len(payload)
        try:
            exchange = _decoder.decode(payload)
        except msgspec.DecodeError:
            continue
        if exchange.version == WIRE_VERSION:
            yield Kept(number, path, offset, len(payload), exchange.incarnation, exchange.id)
    if (size := path.stat().st_size) != end:
        logs.say(logger, logging.WARNING, "spool_cut", file=path.name, bytes=size - end)


_decoder = msgspec.msgpack.Decoder(Exchange)
