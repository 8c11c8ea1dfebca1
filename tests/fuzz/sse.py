"""Invariant: any split of a stream gives the same events, whose raw bytes are the stream; only ``SseTooLarge`` is raised."""

from __future__ import annotations

from proxy.compare.sse import Event, SseReader, SseTooLarge
from tests.fuzz.target import Target, bytewise, halves

_LIMIT = 256


def read(pieces: list[bytes]) -> tuple[list[Event], bool]:
    """The events, and whether one was too large."""
    reader = SseReader(_LIMIT)
    events: list[Event] = []
    try:
        for piece in pieces:
            events += reader.feed(piece)
        events += reader.finish()
    except SseTooLarge:
        return events, True
    return events, False


def check(data: bytes) -> None:
    """Read whole, in two pieces and byte by byte."""
    events, too_large = read([data])
    if not too_large:
        assert b"".join(event.raw for event in events) == data
        assert all(event.whole for event in events[:-1])
    for event in events:
        assert event.dispatched or not event.data
    assert read(halves(data)) == (events, too_large)
    assert read(bytewise(data)) == (events, too_large)


TARGET = Target(
    check,
    seeds=(b"data: a\n\n", b"\xef\xbb\xbfevent: x\r\ndata: 1\r\ndata:2 \r\n\r\n: c\r\rdata", b"data: [DONE]\n\n"),
    words=(b"\n\n", b"\r\r", b"\r\n", b"data:", b"data: ", b"event: ", b": ", b"\xef\xbb\xbf", b"x" * 200),
)
