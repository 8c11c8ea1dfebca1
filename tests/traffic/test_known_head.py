"""A head known from a connection's latest message means what it would mean if it were read anew, and what is written for it is the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic import known_head, reply_head, request_head
from proxy.traffic.known_head import KnownHead, KnownReply
from tests.traffic.test_plain_head import FIELDS, LINES, STATUSES

DIGITS = st.sampled_from(
    [b"0", b"5", b"12", b"007", b"9" * 18, b"9" * 19, b"", b"1 ", b"+1", b"1\r\nContent-Length: 2"]
)
NAMES = st.sampled_from([b"Content-Length: ", b"content-length: ", b"X-Content-Length: "])
BODIES = st.sampled_from([b"", b"{}", b"\r\nContent-Length: 3\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"])


def _heads(start: bytes, fields: bytes, name: bytes, more: bytes, digits: bytes) -> bytes:
    return start + fields + name + digits + b"\r\n" + more + b"\r\n"


@given(LINES, st.sampled_from([b"Host: a:1\r\n"] * 3 + [b""]), FIELDS, NAMES, FIELDS, DIGITS, DIGITS, BODIES)
def test_a_request_head_that_is_known_again_reads_as_if_it_were_new(
    line: bytes, host: bytes, fields: bytes, name: bytes, more: bytes, first: bytes, second: bytes, body: bytes
) -> None:
    latest = known_head.read(None, _heads(line + host, fields, name, more, first))
    data = _heads(line + host, fields, name, more, second) + body
    anew = request_head.read_plain(data)
    found = known_head.read(None if latest is None else latest[0], data)
    assert (found is None) == (anew is None)
    if found is None or anew is None:
        return
    known, end = found
    assert (known.head, end) == anew
    again = known.again(data)
    assert again is not None
    assert again[0] is known


@given(STATUSES, FIELDS, NAMES, FIELDS, DIGITS, DIGITS, BODIES, st.sampled_from([b"POST", b"HEAD"]))
def test_a_reply_head_that_is_known_again_reads_as_if_it_were_new(
    line: bytes, fields: bytes, name: bytes, more: bytes, first: bytes, second: bytes, body: bytes, method: bytes
) -> None:
    latest = known_head.read_reply(None, _heads(line, fields, name, more, first), b"POST")
    data = _heads(line, fields, name, more, second) + body
    anew = reply_head.read_plain(data, method)
    found = known_head.read_reply(None if latest is None else latest[0], data, method)
    assert (found is None) == (anew is None)
    if found is None or anew is None:
        return
    known, end = found
    assert (known.head, known.keep, end) == anew
    assert known.as_came == (reply_head.write(known.head, 1, close=False) == data[:end])


def test_another_length_is_all_that_may_differ() -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nAccept: */*\r\n\r\n"
    found = known_head.read(None, head + b"{}")
    assert found is not None
    known = found[0]
    longer = known.again(head.replace(b": 2", b": 1234") + b"{")
    assert longer is not None
    assert (longer[0].head.length, longer[1]) == (1234, len(head) + 3)
    assert b"Content-Length: 1234\r\n" in longer[0].head.lines + b"\r\n"
    assert longer[0].again(head) is not None
    for other in (b": a", b"/v1", b"POST", b"*/*", b"Accept"):
        assert known.again(head.replace(other, b"x")) is None
    assert known.again(head[:-2]) is None
    assert known.again(head.replace(b": 2", b": 2\r\nContent-Length: 2")) is None


def test_a_long_head_is_not_kept() -> None:
    head = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nCookie: " + b"c" * 5000 + b"\r\n\r\n"
    found = known_head.read(None, head)
    assert found is not None
    assert found[0].again(head) is None
    assert KnownHead(found[0].head).again(head) is None
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: " + b"c" * 5000 + b"\r\n\r\n"
    taken = known_head.read_reply(None, reply, b"GET")
    assert taken is not None
    assert isinstance(taken[0], KnownReply)
    assert taken[0].again(reply) is None
