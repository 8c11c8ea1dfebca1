"""Server-sent events from bytes that arrive in any pieces.

House rules. Pure: bytes in, events out, no clock, no socket, no JSON. Nothing is ever dropped: the ``raw`` of all events, in
order, is the input, so that a caller can pass on every event it does not want to change exactly as it came.

The algorithm is the WHATWG one (HTML standard, "Parsing an event stream"), with two declared differences: blanks at the end of a
data line are cut (TensorRT-LLM writes a space before the newline; JSON never needs them), and an event that the end of the
stream leaves without its blank line is handed out by ``finish`` instead of thrown away (engines that stop at the last
newline exist), marked ``whole=False``.
"""

from __future__ import annotations

import re

from msgspec import Struct

# Precedents: nginx and Envoy hold no SSE event at all, httpx-sse and sseclient have no bound. The largest event seen from a real
# engine is a completions chunk with 500 alternatives a row (0.5 MB); 64 MiB leaves room for whole-vocabulary lists.
MAX_EVENT = 64 << 20

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n?|\n")


class SseTooLarge(ValueError):
    """One event grew beyond the reader's bound. The reader is spent: every later call raises again."""


class Event(Struct, frozen=True, gc=False):
    r"""One block of a stream, up to and including its blank line.

    ``data`` is the value of its data lines joined by ``\n``; ``event`` its type (empty: none given); ``raw`` the exact bytes.
    ``dispatched`` is false for a block without a data line (comments, stray blank lines): a browser would see no event there.
    ``whole`` is false when the stream ended before the blank line.
    """

    data: bytes
    event: bytes
    raw: bytes
    dispatched: bool = True
    whole: bool = True


def plain_events(body: bytes) -> list[Event] | None:
    r"""Read a whole stream that is nothing but ``data: ...\n\n``, as nearly all are; None for any other, and for one with a large event.

    The events are those of ``SseReader``, but for ``raw``, which is empty.
    """
    if b"\r" in body or not body.endswith(b"\n\n"):
        return None
    blocks = body[:-2].split(b"\n\n")
    if any(not block.startswith(b"data: ") or b"\n" in block or len(block) > MAX_EVENT // 2 for block in blocks):
        return None
    return [Event(block[6:].rstrip(b" \t"), b"", b"") for block in blocks]


class SseReader:
    """An incremental reader: ``feed`` pieces as they arrive, then ``finish`` once.

    Any split of the same bytes gives the same events. A CR at the end of a piece waits for the next byte, which may be the LF that
    belongs to it. Both methods raise ``SseTooLarge`` and nothing else; events complete before the large one are returned first.
    """

    __slots__ = ("_buffer", "_data", "_first", "_limit", "_line", "_scanned", "_too_large", "_type")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._buffer = bytearray()  # the raw bytes of the event being read, and what follows
        self._line = 0  # where the current line starts in it
        self._scanned = 0  # no line end before here
        self._first = True
        self._data: list[bytes] = []
        self._type = b""
        self._too_large = False

    def feed(self, data: bytes) -> list[Event]:
        """Take the next piece, return the events it completes."""
        return self._advance(data, final=False)

    def finish(self) -> list[Event]:
        """Take the end of the stream, return what was still open (at most a pending event and an unfinished one)."""
        events = self._advance(b"", final=True)
        if self._buffer:
            if self._line < len(self._buffer):
                self._take(bytes(self._buffer[self._line :]))
            events.append(self._dispatch(bytes(self._buffer), whole=False))
            self._buffer.clear()
            self._line = self._scanned = 0
        return events

    def _advance(self, data: bytes, *, final: bool) -> list[Event]:
        self._refuse_if_spent()
        self._buffer += data
        events: list[Event] = []
        start = 0
        while True:
            found = _LINE_END.search(self._buffer, self._scanned)
            if found is None:
                self._scanned = len(self._buffer)
                break
            line_end, next_line = found.span()
            if not final and next_line == len(self._buffer) and self._buffer[line_end:] == b"\r":
                self._scanned = line_end
                break
            line = bytes(self._buffer[self._line : line_end])
            self._line = self._scanned = next_line
            if self._take(line):
                continue
            if next_line - start > self._limit:
                break
            events.append(self._dispatch(bytes(self._buffer[start:next_line]), whole=True))
            start = next_line
        del self._buffer[:start]
        self._line -= start
        self._scanned -= start
        if len(self._buffer) > self._limit:
            self._too_large = True
            self._buffer.clear()
            if not events:
                self._refuse_if_spent()
        return events

    def _take(self, line: bytes) -> bool:
        """Interpret one line without its end; false when it is blank, which ends the event."""
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return False
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" ").rstrip(b" \t"))
        elif field == b"event":
            self._type = value.removeprefix(b" ").rstrip(b" \t")
        return True

    def _dispatch(self, raw: bytes, *, whole: bool) -> Event:
        event = Event(b"\n".join(self._data), self._type, raw, dispatched=bool(self._data), whole=whole)
        self._data = []
        self._type = b""
        return event

    def _refuse_if_spent(self) -> None:
        if self._too_large:
            raise SseTooLarge(f"an event is longer than {self._limit} bytes")
