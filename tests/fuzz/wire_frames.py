"""Invariant: any split of a hand-over gives the same values, and ``WireError``, at the same frame, is the only error."""

from __future__ import annotations

from proxy.exchange import Ended, Exchange
from proxy.traffic.wire import FrameReader, Hello, WireError, encode_frame
from tests.fuzz.target import Target, bytewise, halves

_LIMIT = 4096
_EXCHANGE = Exchange(
    id="a-1", incarnation="a", started=1.5, u=0.25, method="POST", target="/v1/completions", request_headers=((b"accept", b"*/*"),),
    request_body=b"{}", status=200, response_headers=(), pieces=((10, b"ab"), (20, b"c")), head_us=5, end_us=30, ended=Ended.COMPLETE,
)  # fmt: skip


def read(pieces: list[bytes]) -> tuple[list[Hello | Exchange], bool]:
    """The values, and whether the bytes were refused."""
    reader = FrameReader(_LIMIT)
    values: list[Hello | Exchange] = []
    try:
        for piece in pieces:
            values += reader.feed(piece)
    except WireError:
        return values, True
    return values, False


def written(values: list[Hello | Exchange]) -> list[bytes]:
    """What tells values apart, and not NaN from itself."""
    return [encode_frame(value) for value in values]


def check(data: bytes) -> None:
    """Read whole, in two pieces and byte by byte; what was read is written as it came, or as a shorter spelling of it."""
    values, refused = read([data])
    slowly = read(bytewise(data))
    assert slowly[1] == refused
    assert written(slowly[0][: len(values)]) == written(values)
    assert refused or len(slowly[0]) == len(values)
    assert read(halves(data))[1] == refused
    for place, value in enumerate(slowly[0]):
        assert isinstance(value, Exchange if place else Hello)
    if slowly[0]:
        again = read([b"".join(written(slowly[0]))])
        assert (written(again[0]), again[1]) == (written(slowly[0]), False)


TARGET = Target(
    check,
    seeds=(
        encode_frame(Hello("a", 0)) + encode_frame(_EXCHANGE),
        encode_frame(Hello("a", 7)),
        encode_frame(_EXCHANGE),
    ),
    words=(b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x01\0\0\0", b"\xc0", b"\xdc\xff\xff", b"\xc4\x01a"),
)
