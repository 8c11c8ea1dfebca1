"""Invariant: whatever a client sends, in any split, what goes to the primary is read by another parser as the same requests, or nothing goes.

A fault in a body that comes with its head is seen before anything has left, byte by byte only after; heads are judged the same in any split.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

import h11

from tests.fuzz.target import Target, bytewise, halves
from tests.smuggling.vectors import REQUESTS
from tests.wire.bench import Bench
from tests.wire.client import get, post


@lru_cache(maxsize=1)
def bench() -> Bench:
    """A client side without sockets, made once."""
    state = Path(tempfile.mkdtemp(prefix="phl"))
    atexit.register(shutil.rmtree, state)
    made = Bench(state)
    atexit.register(made.loop.close)
    atexit.register(made.counters.close)
    return made


def by_h11(sent: bytes) -> tuple[list[tuple[bytes, bytes]], bytes, bool]:
    """Header fields, body, and whether the request is whole, of what the primary was sent. Raises when another parser refuses it."""
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    reader.receive_data(sent)
    head = reader.next_event()
    assert isinstance(head, h11.Request), sent
    body = b""
    while isinstance(event := reader.next_event(), h11.Data):
        body += event.data
    if isinstance(event, h11.EndOfMessage):
        assert not reader.trailing_data[0], "a second request in what was one"
    return list(head.headers), body, isinstance(event, h11.EndOfMessage)


def check(data: bytes) -> None:
    """Fed whole, in two pieces and byte by byte."""
    service = bench()
    raw, answered, closed = service.run([data] if data else [])
    whole = [by_h11(one) for one in raw]
    for pieces in (halves(data), bytewise(data)):
        sent, said, shut = service.run(pieces)
        read = [by_h11(one) for one in sent]
        assert [fields for fields, _, _ in read[: len(whole)]] == [fields for fields, _, _ in whole]
        refused = b'"invalid_request_error"' in said
        swallowed = closed and read[: len(whole)] == whole  # a request behind a chunked one in the same packet
        assert (read, said, shut) == (whole, answered, closed) or refused or swallowed
    assert service.balanced()


_VECTORS = tuple(raw for raw in (vector.wire("abcd1234") for vector in REQUESTS) if len(raw) < 400)
TARGET = Target(
    check,
    seeds=(
        *_VECTORS,
        post(b"{}", close=False) + get("/v1/models"),
        b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, X-A\r\nUpgrade: h2c\r\nX-A: b\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost:h\r\nExpect: 100-continue\r\ncontent-length: 0\r\n\r\n",
    ),
    words=(
        b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\0", b"\t", b" ", b": ", b"GET / HTTP/1.1\r\n", b"Host: h\r\n", b"HTTP/1.0", b"HTTP/2.0",
        b"Content-Length: 1\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"0\r\n\r\n", b"http://h", b"%00",
    ),
    longest=2048,
)  # fmt: skip
