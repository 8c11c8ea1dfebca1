"""The rules for reply heads, and how a body is framed for the client."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic import reply_head
from proxy.traffic.reply_head import Framing, ReplyHead
from tests.traffic.test_request_head import FIELDS


def read(*fields: tuple[bytes, bytes], status: int = 200, method: bytes = b"POST") -> ReplyHead | None:
    return reply_head.read(status, b"OK", list(fields), method)


LENGTH, CHUNKED = (b"Content-Length", b" 5 "), (b"Transfer-Encoding", b"Chunked")


@pytest.mark.parametrize(
    ("head", "framing", "towards_1_1", "towards_1_0"),
    [
        (read(LENGTH), Framing.LENGTH, Framing.LENGTH, Framing.LENGTH),
        (read(CHUNKED), Framing.CHUNKED, Framing.CHUNKED, Framing.CLOSE),
        (read(), Framing.CLOSE, Framing.CHUNKED, Framing.CLOSE),
        (read(LENGTH, method=b"HEAD"), Framing.NONE, Framing.NONE, Framing.NONE),
        (read(CHUNKED, status=204), Framing.NONE, Framing.NONE, Framing.NONE),
        (read(LENGTH, status=304), Framing.NONE, Framing.NONE, Framing.NONE),
        (read(status=100), Framing.NONE, Framing.NONE, Framing.NONE),
    ],
)
def test_framing(head: ReplyHead | None, framing: Framing, towards_1_1: Framing, towards_1_0: Framing) -> None:
    assert head is not None
    assert head.framing is framing
    assert reply_head.towards_client(framing, 1) is towards_1_1
    assert reply_head.towards_client(framing, 0) is towards_1_0


def test_what_cannot_be_passed_on() -> None:
    assert read(LENGTH, CHUNKED) is None
    assert read(LENGTH, LENGTH) is None
    assert read(CHUNKED, CHUNKED) is None
    assert read((b"Content-Length", b"+5")) is None
    assert read((b"Transfer-Encoding", b"gzip, chunked")) is None
    assert read(status=101) is None
    assert read(status=99) is None
    assert reply_head.read(200, b"O\rK", [], b"GET") is None


def test_a_head_is_written_with_its_own_order_case_and_reason() -> None:
    head = reply_head.read(
        299, b"Odd \xff", [(b"x-A", b"1"), (b"Connection", b"close, X-Hop"), (b"X-hop", b"1"), CHUNKED, (b"X-a", b"2"), (b"Keep-Alive", b"timeout=7, max=3")], b"GET"
    )  # fmt: skip
    assert head is not None
    assert head.patience == 7.0
    assert (
        reply_head.write(head, 1, close=False)
        == b"HTTP/1.1 299 Odd \xff\r\nx-A: 1\r\nTransfer-Encoding: chunked\r\nX-a: 2\r\n\r\n"
    )
    assert (
        reply_head.write(head, 0, close=True)
        == b"HTTP/1.1 299 Odd \xff\r\nx-A: 1\r\nX-a: 2\r\nConnection: close\r\n\r\n"
    )


def test_only_the_media_type_makes_a_stream() -> None:
    for value, stream in (
        (b"text/event-stream; charset=utf-8", True),
        (b"TEXT/Event-Stream", True),
        (b"text/plain", False),
    ):
        head = read((b"Content-Type", value))
        assert head is not None
        assert head.stream is stream


def test_the_same_head_for_another_body() -> None:
    head = read((b"X-A", b"1"), LENGTH)
    assert head is not None
    assert reply_head.write(reply_head.with_length(head, 3), 1, close=False).endswith(
        b"X-A: 1\r\nContent-Length: 3\r\n\r\n"
    )
    chunked = read((b"Transfer-Encoding", b"chunked"))
    assert chunked is not None
    assert reply_head.with_length(chunked, 3) is chunked
    assert reply_head.write(reply_head.as_chunked(head), 1, close=False).endswith(
        b"X-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    )


@given(st.integers(0, 1000), FIELDS, st.sampled_from([b"GET", b"HEAD"]), st.sampled_from([0, 1]))
def test_any_head_is_refused_or_states_one_framing(
    status: int, fields: list[tuple[bytes, bytes]], method: bytes, minor: int
) -> None:
    head = reply_head.read(status, b"", fields, method)
    if head is None:
        return
    written = reply_head.write(head, minor, close=True)
    assert written.count(b"\r\n\r\n") == 1
    lowered = written.lower()
    assert lowered.count(b"\r\ncontent-length:") + lowered.count(b"\r\ntransfer-encoding:") <= 1
    if reply_head.towards_client(head.framing, minor) is Framing.CHUNKED:
        assert lowered.count(b"\r\ntransfer-encoding: chunked\r\n") == 1
