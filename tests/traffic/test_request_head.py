"""The rules for request heads, on any fields."""

from __future__ import annotations

import httptools
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic import request_head
from proxy.traffic.origin import Origin, read_origin
from proxy.traffic.refusals import BAD_FRAMING, BAD_HOST, BAD_TARGET, BAD_VERSION, HEAD_TOO_LARGE, MALFORMED, Refusal
from proxy.traffic.request_head import RequestHead

ORIGIN = read_origin("http://engine:8000/base")
TOKEN = st.text("abcXYZ019-_!#$%&'*+.^`|~", min_size=1, max_size=12).map(str.encode)
VALUE = st.binary(max_size=20).map(lambda raw: bytes(byte for byte in raw if byte >= 32 and byte != 127).strip())
NAMES = st.one_of(
    TOKEN,
    st.sampled_from([
        b"Host", b"host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Keep-Alive", b"TE", b"Trailer", b"Upgrade", b"Proxy-X",
        b"Expect", b"X-Parhelion",
    ]),
)  # fmt: skip
VALUES = st.one_of(
    VALUE, st.sampled_from([b"chunked", b"3", b"0", b"close", b"x, Host", b"engine", b"skip", b"100-continue"])
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=12)
LINES = st.sampled_from(
    [b"POST /a?b HTTP/1.1", b"GET / HTTP/1.0", b"OPTIONS * HTTP/1.1", b"POST http://x/ HTTP/1.1", b"GET /", b"x"]
)


class Reader:
    """llhttp as a second opinion of what was written."""

    def __init__(self, raw: bytes) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.ended = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(raw)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.ended = True


@given(LINES, FIELDS)
def test_any_head_is_refused_or_written_so_that_another_parser_reads_the_same(
    line: bytes, fields: list[tuple[bytes, bytes]]
) -> None:
    head = request_head.read(line, fields)
    if isinstance(head, Refusal):
        return
    written = request_head.write(head, ORIGIN, keep_host=False)
    assert written.count(b"\r\n\r\n") == 1
    assert written.endswith(b"\r\n\r\n")
    again = Reader(written)
    assert again.ended
    names = [name.lower() for name, _ in again.fields]
    assert names.count(b"host") == 1
    assert dict(zip(names, (value for _, value in again.fields), strict=True))[b"host"] == b"engine:8000"
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    assert (b"transfer-encoding" in names) == head.chunked
    assert not {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"proxy-x", b"x-parhelion"} & set(names)
    sent = [pair for pair in again.fields if pair[0].lower() not in (b"host", b"transfer-encoding", b"content-length")]
    ours = iter(fields)
    assert all(any((name, value.strip()) == (n, v.strip()) for n, v in ours) for name, value in sent), (
        "order, case and values are kept"
    )


@given(FIELDS)
def test_two_statements_of_length_are_never_accepted(fields: list[tuple[bytes, bytes]]) -> None:
    twice = [*fields, (b"Host", b"x"), (b"Content-Length", b"1"), (b"content-LENGTH", b"1")]
    assert isinstance(request_head.read(b"POST / HTTP/1.1", twice), Refusal)
    both = [*fields, (b"Host", b"x"), (b"Content-Length", b"1"), (b"Transfer-Encoding", b"chunked")]
    assert isinstance(request_head.read(b"POST / HTTP/1.1", both), Refusal)


def read(line: bytes = b"POST /v1 HTTP/1.1", *fields: tuple[bytes, bytes]) -> RequestHead | Refusal:
    return request_head.read(line, [(b"Host", b"h"), *fields])


def test_what_is_refused_and_as_what() -> None:
    assert read(b"GET /") is BAD_VERSION
    assert read(b"GET / HTTP/3.0") is BAD_VERSION
    assert read(b"GET / ICY/1.1") is MALFORMED
    assert read(b"GET") is MALFORMED
    assert read(b"GET x HTTP/1.1") is BAD_TARGET
    assert read(b"CONNECT / HTTP/1.1") is BAD_TARGET
    assert read(b"GET /%zz\x80 HTTP/1.1") is BAD_TARGET
    assert request_head.read(b"GET / HTTP/1.1", []) is BAD_HOST
    assert read(b"GET / HTTP/1.1", (b"host", b"h")) is BAD_HOST
    assert read(b"GET / HTTP/1.1", (b"Content-Length", b"1_0")) is BAD_FRAMING
    assert read(b"GET / HTTP/1.1", (b"Content-Length", b"\xb2")) is BAD_FRAMING
    assert read(b"GET / HTTP/1.1", (b"Transfer-Encoding", b"gzip")) is BAD_FRAMING
    assert read(b"GET / HTTP/1.0", (b"Transfer-Encoding", b"chunked")) is BAD_FRAMING
    assert read(b"GET / HTTP/1.1", *[(b"X", b"1")] * 200) is HEAD_TOO_LARGE


def test_connection_names_what_goes_but_never_what_frames_or_routes() -> None:
    head = read(
        b"POST / HTTP/1.1", (b"Connection", b"X-A , Content-Length"), (b"X-A", b"1"), (b"Content-Length", b"2"), (b"connection", b"host,X-b"), (b"x-B", b"1")
    )  # fmt: skip
    assert isinstance(head, RequestHead)
    assert [name for _, name, _ in head.fields] == [b"Host", b"Content-Length"]
    assert (head.keep_alive, head.length, head.has_body) == (True, 2, True)


def test_versions_decide_how_long_the_connection_lives() -> None:
    assert read(b"GET / HTTP/1.1").keep_alive  # type: ignore[union-attr]  # a refusal would fail as well
    assert not read(b"GET / HTTP/1.1", (b"Connection", b"Close")).keep_alive  # type: ignore[union-attr]  # as above
    assert not read(b"GET / HTTP/1.0", (b"Connection", b"keep-alive")).keep_alive  # type: ignore[union-attr]  # as above


def test_a_body_of_ours_gets_a_length_of_ours() -> None:
    head = read(b"POST /a HTTP/1.1", (b"Accept-Encoding", b"br"), (b"Transfer-Encoding", b"chunked"), (b"X-A", b"1"))
    assert isinstance(head, RequestHead)
    other = request_head.with_body(head, 7, {b"accept-encoding": b"identity"})
    assert request_head.write(other, Origin("e", 80, tls=False, host=b"e", prefix=b""), keep_host=True) == (
        b"POST /a HTTP/1.1\r\nHost: h\r\nX-A: 1\r\naccept-encoding: identity\r\ncontent-length: 7\r\n\r\n"
    )
