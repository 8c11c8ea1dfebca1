"""Exchanges made from a seed: every coding x framing x kind of body x way of arriving, with heads that real servers rarely send and must be kept."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import brotli
import zstandard

from tests.fidelity.reading import HOP_BY_HOP

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": lambda data: gzip.compress(data, 1),
    "deflate": lambda data: zlib.compress(data, 1),
    "br": lambda data: brotli.compress(data, quality=1),
    "zstd": lambda data: zstandard.ZstdCompressor(level=1).compress(data),
}
FRAMINGS = ("length", "chunked", "close", "http/1.0")
KINDS = ("json", "sse LF", "sse CRLF", "sse CR", "binary", "empty")
ARRIVALS = ("whole", "head apart", "anywhere", "byte by byte")
#: Each combination is made so many times, every time with another head.
ROUNDS = 22

_TOKEN = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_VALUE = bytes([*range(0x21, 0x7F), *range(0x80, 0x100)])
_RESERVED = HOP_BY_HOP | {
    b"content-length",
    b"host",
    b"expect",
    b"x-parhelion",
    b"x-exchange",
    b"x-private",
    b"content-encoding",
    b"content-type",
}
_METHODS = (b"POST",) * 6 + (b"GET", b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PATCH")
_PATHS = (
    b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings", b"/v1/responses", b"/v1/messages", b"/v1/rerank", b"/score", b"/v1/models",
    b"/v1/audio/transcriptions", b"/v1/files/file-1/content", b"/", b"/v1/a%2Fb/../c//d?x=%20y&k=/..&q={z}", b"/metrics?a=b&a=c",
)  # fmt: skip
_STATUSES = (
    b"200 OK", b"200 OK", b"200 OK", b"200 ", b"200 fine, thanks", b"201 Created", b"202 Accepted", b"206 Partial Content", b"207 Multi-Status", b"299 Odd",
    b"302 Found", b"400 Bad Request", b"401 Unauthorized", b"404 Not Found", b"409 Conflict", b"418 I'm a teapot", b"422 Unprocessable \xe9ntity",
    b"429 Slow\tdown", b"499 Client", b"500 Internal Server Error", b"503 Busy", b"599 Last", b"204 No Content", b"304 Not Modified",
)  # fmt: skip


@dataclass(frozen=True)
class Exchange:
    """What a client sends, what the engine answers and in which pieces, and whether the engine closes afterwards."""

    name: str
    method: bytes
    request: bytes
    pieces: tuple[bytes, ...]
    closes: bool


def exchanges(seed: int) -> Iterator[Exchange]:
    """All of them: 480 combinations, ``ROUNDS`` times."""
    for index in range(ROUNDS):
        for number, (coding, framing, kind, arrival) in enumerate(
            itertools.product(CODINGS, FRAMINGS, KINDS, ARRIVALS)
        ):
            lot = random.Random(f"{seed}/{index}/{number}")
            yield _exchange(lot, f"{index}: {coding}, {framing}, {kind}, {arrival}", coding, framing, kind, arrival)


def streams(seed: int, count: int) -> Iterator[Exchange]:
    """Event streams in many pieces."""
    for number in range(count):
        lot = random.Random(f"{seed}/stream/{number}")
        kind = lot.choice(KINDS[1:4])
        yield _exchange(
            lot,
            f"stream {number}: {kind}",
            lot.choice([*CODINGS]),
            lot.choice(FRAMINGS[1:3]),
            kind,
            "anywhere",
            plain=True,
        )


def _exchange(
    lot: random.Random, name: str, coding: str, framing: str, kind: str, arrival: str, *, plain: bool = False
) -> Exchange:
    method = b"POST" if plain else lot.choice(_METHODS)
    status = b"200 OK" if plain else lot.choice(_STATUSES)
    body = CODINGS[coding](_content(lot, kind))
    bodiless = method == b"HEAD" or status[:3] in {b"204", b"304"}
    fields = _fields(lot)
    if kind != "empty":
        fields.append(
            (
                b"Content-Type",
                {"json": b"application/json", "binary": b"audio/mpeg"}.get(kind, b"text/event-stream; charset=utf-8"),
            )
        )
    if coding != "identity":
        fields.append((lot.choice([b"Content-Encoding", b"content-encoding"]), coding.encode()))
    fields += _hop_by_hop(lot)
    version, sent = b"HTTP/1.1", [body]
    match framing:
        case "length":
            fields.append((lot.choice([b"Content-Length", b"content-length", b"CONTENT-LENGTH"]), b"%d" % len(body)))
        case "chunked" if status[:3] not in {b"204", b"304"}:
            fields.append(
                (lot.choice([b"Transfer-Encoding", b"transfer-encoding"]), lot.choice([b"chunked", b"Chunked"]))
            )
            sent = _chunks(lot, body)
        case "http/1.0":
            version = b"HTTP/1.0"
    closes = framing in {"close", "http/1.0"}
    if closes and bodiless:  # else nobody could know before the next request
        fields = [one for one in fields if one != (b"Connection", b"keep-alive")] + [(b"Connection", b"close")]
    lot.shuffle(fields)
    head = b"%b %b\r\n" % (version, status) + _written(lot, fields) + b"\r\n"
    if bodiless:
        sent = []
    before = _interim(lot) if version == b"HTTP/1.1" else b""
    return Exchange(name, method, _request(lot, method), tuple(_pieces(lot, before + head, sent, arrival)), closes)


def _content(lot: random.Random, kind: str) -> bytes:
    size = lot.choice([1, 40, 400, 400, 4000, 20_000])
    if kind == "empty":
        return b""
    if kind == "binary":
        return lot.randbytes(size)
    words = lot.choices(["a", "Straße ", "日本語", "🥳", "\\u00e9", '"', "\n", "\u2028", "x" * 30], k=max(1, size // 4))
    if kind == "json":
        return json.dumps({"choices": [{"text": "".join(words)}]}, ensure_ascii=lot.random() < 0.5).encode()
    end = {"sse LF": b"\n", "sse CRLF": b"\r\n", "sse CR": b"\r"}[kind]
    lines = [b"\xef\xbb\xbfdata: first", b""]
    for word in words[:60]:
        lines += lot.choice([[b": a comment", b""], [b":"], [b"event: note"], [b"id: 7", b"retry: 10"], []])
        lines += [b"data: " + json.dumps({"delta": word}, ensure_ascii=False).encode(), b""]
    return end.join([*lines, b"data: [DONE]", b"", b""])


def _chunks(lot: random.Random, body: bytes) -> list[bytes]:
    """The body as chunks of odd sizes, with extensions, zeros in front and trailers."""
    out = []
    at = 0
    while at < len(body):
        size = min(lot.choice([1, 2, 3, 17, 400, 5000, 70_000]), len(body) - at)
        line = lot.choice([b"%x", b"%X", b"000%x", b'%x;name="v a l"', b"%x;flag"]) % size
        out.append(line + b"\r\n" + body[at : at + size] + b"\r\n")
        at += size
    return [*out, b"0\r\n" + lot.choice([b"", b"", b"X-Trailer: 1\r\nX-Other: 2\r\n"]) + b"\r\n"]


def _pieces(lot: random.Random, head: bytes, sent: list[bytes], arrival: str) -> list[bytes]:
    whole = head + b"".join(sent)
    match arrival:
        case "whole":
            return [whole]
        case "head apart":
            return [head, *filter(None, sent)]
        case "byte by byte":  # those of a window, wherever it falls
            first = lot.randrange(len(whole))
            last = min(first + 60, len(whole))
            return [*filter(None, [whole[:first], *(whole[at : at + 1] for at in range(first, last)), whole[last:]])]
        case _:
            cuts = sorted(lot.sample(range(1, len(whole)), min(len(whole) - 1, lot.randint(1, 20))))
            return [whole[a:b] for a, b in itertools.pairwise([0, *cuts, len(whole)])]


def _name(lot: random.Random) -> bytes:
    while True:
        name = bytes(lot.choices(_TOKEN, k=lot.randint(1, 20)))
        if name.lower() not in _RESERVED and not name.lower().startswith(b"proxy-"):
            return name


def _value(lot: random.Random) -> bytes:
    if lot.random() < 0.02:
        return bytes(lot.choices(_VALUE, k=lot.choice([1000, 8000])))
    words = [bytes(lot.choices(_VALUE, k=lot.randint(1, 12))) for _ in range(lot.randint(0, 4))]
    return lot.choice([b" ", b"\t", b"  "]).join(words)


def _fields(lot: random.Random) -> list[tuple[bytes, bytes]]:
    fields = [(_name(lot), _value(lot)) for _ in range(lot.randint(0, 8))]
    for name in (b"Set-Cookie", b"set-cookie", b"VARY", b"x-Request-ID", b"Date", b"Server"):
        fields += [(name, _value(lot))] * lot.choice([0, 0, 1, 2])
    return fields


def _hop_by_hop(lot: random.Random) -> list[tuple[bytes, bytes]]:
    return lot.choice([
        [], [], [(b"Connection", b"keep-alive"), (b"Keep-Alive", b"timeout=5, max=9")], [(b"CONNECTION", b"x-private ,, "), (b"X-Private", b"1"), (b"x-private", b"2")],
        [(b"Proxy-Authenticate", b"Basic"), (b"Trailer", b"X-Trailer")], [(b"Connection", b"close")],
    ])  # fmt: skip


def _interim(lot: random.Random) -> bytes:
    return lot.choice([b""] * 6 + [
        b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nLINK: <b>\r\n\r\nHTTP/1.1 103 Again\r\nX-A: \xe9\r\n\r\n",
    ])  # fmt: skip


def _written(lot: random.Random, fields: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(
        name + b":" + lot.choice([b"", b" ", b" ", b" ", b"\t "]) + value + lot.choice([b"", b"", b" "]) + b"\r\n"
        for name, value in fields
    )


def _request(lot: random.Random, method: bytes) -> bytes:
    body = lot.randbytes(lot.choice([0, 1, 50, 3000])) if method in {b"POST", b"PUT", b"PATCH", b"DELETE"} else b""
    fields = [
        *_fields(lot)[:6],
        (lot.choice([b"Host", b"host"]), b"client.test:80"),
        (b"Authorization", b"Bearer sk-1"),
        *_hop_by_hop(lot)[:2],
    ]
    fields = [one for one in fields if one != (b"Connection", b"close")]
    if body and lot.random() < 0.3:
        fields.append((b"Transfer-Encoding", b"chunked"))
        body = b"".join(_chunks(lot, body))
    elif body or lot.random() < 0.5:
        fields.append((b"Content-Length", b"%d" % len(body)))
    lot.shuffle(fields)
    return b"%b %b HTTP/1.1\r\n" % (method, lot.choice(_PATHS)) + _written(lot, fields) + b"\r\n" + body
