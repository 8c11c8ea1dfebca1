"""Plain heads are read without the parser: never otherwise than the parser and the rules behind it would."""

from __future__ import annotations

from typing import Any

import httptools
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic import plain_head, reply_head, request_head
from proxy.traffic.origin import read_origin
from proxy.traffic.refusals import Refusal
from proxy.traffic.reply_head import ReplyHead
from proxy.traffic.request_head import RequestHead

ORIGIN = read_origin("http://engine:8000/base")
VALUES = st.one_of(
    st.binary(max_size=12),
    st.text(alphabet="abc,;= \t\"'-/0123456789:", max_size=12).map(str.encode),
    st.sampled_from(
        [
            b"close",
            b"Close",
            b"keep-alive",
            b"chunked",
            b"12",
            b"0",
            b"+3",
            b"1 2",
            b"h:1",
            b"a@b",
            b"upgrade",
            b"skip",
            b"100-continue",
        ]
    ),
)
NAMES = st.one_of(
    st.sampled_from([
        b"Host", b"host", b"Content-Length", b"content-length", b"Connection", b"Transfer-Encoding", b"TE", b"Te", b"Trailer", b"Upgrade", b"Expect",
        b"Keep-Alive", b"Close", b"Proxy-Connection", b"X-Parhelion", b"Accept", b"X-Host", b"Content-Type", b"X-A b", b"A:", b"", b"caf\xc3\xa9", b"hosts", b"teh",
    ]),
    st.text(alphabet="abcXYZ-_!~", min_size=1, max_size=6).map(str.encode),
)  # fmt: skip
SEPARATORS = st.sampled_from([b": ", b":", b":  ", b" : ", b":\t"])
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b" \r\n", b"\r\n "])
FIELDS = st.lists(
    st.tuples(NAMES, SEPARATORS, VALUES, ENDS).map(b"".join)
    | st.tuples(st.sampled_from([b"Accept", b"X-B"]), st.just(b": "), st.just(b"text"), st.just(b"\r\n")).map(b"".join),
    max_size=6,
).map(b"".join)
LINES = st.sampled_from(
    [b"POST /v1/chat/completions HTTP/1.1\r\n"] * 4
    + [b"GET /a?b=c#d HTTP/1.1\r\n", b"GET /a HTTP/1.0\r\n", b"GET http://a/ HTTP/1.1\r\n", b"OPTIONS * HTTP/1.1\r\n", b"FOO / HTTP/1.1\r\n", b"GET  / HTTP/1.1\r\n", b"GET /\xff HTTP/1.1\r\n"]
)  # fmt: skip
STATUSES = st.sampled_from(
    [b"HTTP/1.1 200 OK\r\n"] * 4
    + [b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 100 Continue\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 \r\n", b"HTTP/1.1 200\r\n", b"HTTP/1.1 999 So it is \r\n", b"HTTP/1.1 304 Not Modified\r\n"]
)  # fmt: skip


class Parsed:
    """What llhttp makes of a head."""

    def __init__(self, kind: Any, data: bytes) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.reason = b""
        self.whole = False
        self.parser = kind(self)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError:
            self.whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_headers_complete(self) -> None:
        self.whole = True


def parsed_request(data: bytes) -> RequestHead | Refusal | None:
    parsed = Parsed(httptools.HttpRequestParser, data)
    return request_head.read(data.partition(b"\r\n")[0], parsed.fields) if parsed.whole else None


@given(line=LINES, host=st.sampled_from([b"Host: a:1\r\n"] * 3 + [b""]), fields=FIELDS)
def test_a_plain_request_head_means_what_the_parser_says(line: bytes, host: bytes, fields: bytes) -> None:
    data = line + host + fields + b"\r\n"
    found = request_head.read_plain(data)
    if found is None:
        return
    head, end = found
    assert end == len(data)
    slow = parsed_request(data)
    assert slow == head
    assert isinstance(slow, RequestHead)
    for keep in (True, False):
        assert request_head.write(head, ORIGIN, keep_host=keep) == request_head.write(slow, ORIGIN, keep_host=keep)


@given(
    line=STATUSES,
    length=st.sampled_from([b"Content-Length: 5\r\n"] * 3 + [b""]),
    fields=FIELDS,
    method=st.sampled_from([b"POST", b"HEAD"]),
)
def test_a_plain_reply_head_means_what_the_parser_says(
    line: bytes, length: bytes, fields: bytes, method: bytes
) -> None:
    data = line + length + fields + b"\r\n"
    found = reply_head.read_plain(data, method)
    if found is None:
        return
    head, keep, end = found
    assert end == len(data)
    parsed = Parsed(httptools.HttpResponseParser, data)
    assert parsed.whole
    slow = reply_head.read(parsed.parser.get_status_code(), parsed.reason, parsed.fields, method)
    assert slow == head
    assert isinstance(slow, ReplyHead)
    assert parsed.parser.should_keep_alive() is keep
    for minor in (0, 1):
        assert reply_head.write(head, minor, close=True) == reply_head.write(slow, minor, close=True)


def test_a_field_that_connection_names_is_not_passed_on_whichever_way_it_is_read() -> None:
    request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nClose: 1\r\n\r\n"
    assert request_head.read_plain(request) is None
    slow = parsed_request(request)
    assert isinstance(slow, RequestHead)
    assert b"Close" not in slow.lines
    assert (
        reply_head.read_plain(request.replace(b"GET / HTTP/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: 0"), b"GET")
        is None
    )


def test_what_clients_and_engines_send_is_plain() -> None:
    sent = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAccept-Encoding: gzip, deflate, zstd\r\nConnection: keep-alive\r\n"
        b"Accept: application/json\r\nContent-Type: application/json\r\nUser-Agent: OpenAI/Python 2.1.0\r\nAuthorization: Bearer sk-1\r\n"
        b"X-Stainless-Async: false\r\nContent-Length: 2\r\n\r\n{}"
    )  # fmt: skip
    found = request_head.read_plain(sent)
    assert found is not None
    head, end = found
    assert (head.length, head.keep_alive, sent[end:]) == (2, True, b"{}")
    written = request_head.write(head, ORIGIN, keep_host=False)
    assert written.startswith(b"POST /base/v1/chat/completions HTTP/1.1\r\nHost: engine:8000\r\nAccept-Encoding: gzip")
    assert b"Connection" not in written
    came = b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}"
    taken = reply_head.read_plain(came, b"POST")
    assert taken is not None
    assert reply_head.write(taken[0], 1, close=False) + b"{}" == came


@given(
    st.lists(
        st.tuples(st.sampled_from([b"Host", b"X-A", b"host-x"]), st.sampled_from([b"a", b"", b"b: c", b" lead"])),
        max_size=5,
    )
)
def test_lines_and_fields_are_the_same_thing(pairs: list[tuple[bytes, bytes]]) -> None:
    fields = [(name.lower(), name, value) for name, value in pairs]
    assert plain_head.fields(plain_head.lines(fields)) == fields
