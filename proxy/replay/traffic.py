"""A file of recorded traffic: opened, unpacked, checked from first to last line before any engine is asked; then read line by line, in any order.

House rules. In memory are an offset and a time for each request, and the replies of a batch's output; never the file. What was unpacked or came from standard input lies in a temporary file without a name.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
import tempfile
from array import array
from collections.abc import Iterator, Mapping
from functools import partial
from math import isnan, nan
from pathlib import Path
from typing import IO, BinaryIO, cast

from proxy.replay.formats import read_line, read_reply
from proxy.replay.line import Line, LineError, Replied, TrafficError
from proxy.rollouts.packed import BROKEN, unpacked

#: Bytes of one line: a record with a million positions has some 100 MB; more is a file without line ends.
_LONGEST = 256 << 20
_MOST = 5  # bad lines that are named before the rest is only counted
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Traffic:
    """Requests of one file in its order. ``digest``: of its content and the replies', hex; ``repeated``: lines left out, of a request that came before."""

    def __init__(self, name: str, file: BinaryIO, replies: Mapping[str, Replied], seen: hashlib.blake2b) -> None:
        self.name, self._file, self._replies = name, file, replies
        self._offsets, self._numbers, self._times, self._answered = array("Q"), array("Q"), array("d"), array("b")
        self.repeated = 0
        self._check(seen)
        self.digest = seen.hexdigest()

    def __len__(self) -> int:
        """How many requests there are."""
        return len(self._offsets)

    def time(self, index: int) -> float | None:
        """When a request was asked, Unix seconds; None when the file does not say."""
        time = self._times[index]
        return None if isnan(time) else time

    def answered(self, index: int) -> bool:
        """Whether the file has the reply to a request."""
        return bool(self._answered[index])

    def read(self, index: int) -> Line:
        """One request, by its place among them. Raises TrafficError for a file that has changed."""
        self._file.seek(self._offsets[index])
        try:
            return self._with_reply(read_line(self._file.readline(), self._numbers[index]))
        except (LineError, OSError):
            raise TrafficError(
                f"{self.name}:{self._numbers[index]}: is another line than before: the file must not change while it is replayed"
            ) from None

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _with_reply(self, line: Line) -> Line:
        if line.reply is not None or not line.key or line.key not in self._replies:
            return line
        return Line(
            line.number, line.path, line.body, line.time, line.conversation, line.key, reply=self._replies[line.key]
        )

    def _check(self, seen: hashlib.blake2b) -> None:
        bad: list[str] = []
        wrong = number = at = 0
        exchanges: set[str] = set()
        keys: set[str] = set()
        while text := self._file.readline(_LONGEST + 1):
            number, start, at = number + 1, at, at + len(text)
            seen.update(text)
            if len(text) > _LONGEST:
                raise TrafficError(
                    f"{self.name}:{number}: longer than {_LONGEST >> 20} MiB: write one JSON object a line"
                )
            if not text.strip():
                continue
            try:
                line = self._with_reply(read_line(text, number))
                if self._replies and line.key and line.key in keys:
                    raise LineError(
                        "a custom_id that came before: one reply would stand for two requests",
                        "give each request its own",
                    )
                keys.add(line.key)
            except LineError as error:
                wrong += 1
                bad += [f"{self.name}:{number}: {error.what}: {error.remedy}"][: _MOST - len(bad)]
                continue
            if line.exchange and line.exchange in exchanges:  # another shadow's or mode's record of the same request
                self.repeated += 1
                continue
            exchanges.add(line.exchange)
            self._offsets.append(start)
            self._numbers.append(number)
            self._times.append(nan if line.time is None else line.time)
            self._answered.append(line.reply is not None)
        if wrong:
            more = f"\n... and {wrong - len(bad)} lines more" if wrong > len(bad) else ""
            raise TrafficError("\n".join(bad) + more)
        if not self._offsets:
            raise TrafficError(f"{self.name}: there is no request in it")


def open_traffic(path: Path, replies: Path | None = None) -> Traffic:
    """Open and check a file; ``-`` is standard input. ``replies``: a batch's output, joined by ``custom_id``. Raises TrafficError."""
    seen = hashlib.blake2b(digest_size=16)
    found = {} if replies is None else _replies(replies, seen)
    file = _plain(path)
    try:
        return Traffic("standard input" if str(path) == "-" else str(path), file, found, seen)
    except BaseException:
        file.close()
        raise


def _replies(path: Path, seen: hashlib.blake2b) -> dict[str, Replied]:
    found: dict[str, Replied] = {}
    with _plain(path) as file:
        for number, text in enumerate(file, 1):
            seen.update(text)
            if not text.strip():
                continue
            try:
                key, reply = read_reply(text)
            except LineError as error:
                raise TrafficError(f"{path}:{number}: {error.what}: {error.remedy}") from None
            if key in found:
                raise TrafficError(f"{path}:{number}: a second reply to the same custom_id: keep one")
            if reply is not None:
                found[key] = reply
    return found


def _plain(path: Path) -> BinaryIO:
    """Open a file, unpacked where it is packed. Raises TrafficError."""
    try:
        if str(path) == "-":
            file = _aside(sys.stdin.buffer)
        else:
            file = path.open("rb")
            if not file.seekable():  # a pipe has no second reading
                with file:
                    file = _aside(file)
    except OSError as error:
        raise TrafficError(f"{path}: cannot be read: {error.strerror}") from None
    magic = file.read(4)
    file.seek(0)
    if not magic.startswith(_GZIP) and magic != _ZSTD:
        return file
    with file:
        try:
            return _aside(cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if magic.startswith(_GZIP) else unpacked(file))
        except BROKEN as error:
            reason = getattr(error, "strerror", None) or "it is cut or damaged"
            raise TrafficError(f"{path}: cannot be unpacked: {reason}") from None


def _aside(stream: IO[bytes] | Iterator[bytes]) -> BinaryIO:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        file.writelines(iter(partial(stream.read, 1 << 20), b"") if hasattr(stream, "read") else stream)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return cast("BinaryIO", file)
