"""Invariant: a chunked request reaches the primary as h11 reads it from the client, in any split, or not as a whole request."""

from __future__ import annotations

import h11

from tests.fuzz.request_heads import bench, by_h11
from tests.fuzz.target import Target, bytewise, halves

_HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def from_client(data: bytes) -> tuple[bytes, bool] | None:
    """Body and whether it is whole, as another parser reads what the client sent; None when that one refuses."""
    try:
        _, body, whole = by_h11_first(_HEAD + data)
    except h11.RemoteProtocolError:
        return None
    return body, whole


def by_h11_first(raw: bytes) -> tuple[h11.Request, bytes, bool]:
    """The first request of a client's bytes."""
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(raw)
    head = reader.next_event()
    assert isinstance(head, h11.Request)
    body = b""
    while isinstance(event := reader.next_event(), h11.Data):
        body += event.data
    return head, body, isinstance(event, h11.EndOfMessage)


def check(data: bytes) -> None:
    """Fed whole, in two pieces and byte by byte behind a sound head."""
    service = bench()
    second = from_client(data)
    for pieces in ([data] if data else [], halves(data), bytewise(data)):
        sent, said, _ = service.run([_HEAD, *pieces])
        _, body, whole = by_h11(sent[0])
        if whole and second is not None:
            assert second == (body, True)
        assert not whole or said.startswith(b"HTTP/1.1 200 ")
    assert service.balanced()


TARGET = Target(
    check,
    seeds=(b"5\r\nhello\r\n0\r\n\r\n", b"a;x=y\r\n0123456789\r\nF\r\n", b"2\r\nok\r\n0\r\nX: y\r\n\r\n", b"0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    words=(b"\r\n", b"0\r\n\r\n", b"\n", b"\r", b";", b" ", b"0x", b"+", b"ffffffffffffffff", b"1\r\na\r\n", b"Content-Length: 1\r\n"),
    longest=1024,
)  # fmt: skip
