"""HTTP/1.1 messages read by the book (RFC 9112), slowly and on its own account: the judge over what passes the proxy shares no code with it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}

Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Message:
    """``start`` without its HTTP version; ``body`` after transfer decoding; ``whole`` false while more must come; ``interim``: the 1xx heads before it."""

    start: bytes
    fields: Fields
    body: bytes = b""
    whole: bool = False
    length: int = 0  # bytes of the wire it took
    interim: tuple[tuple[bytes, tuple[tuple[bytes, bytes], ...]], ...] = ()

    def values(self, name: bytes) -> list[bytes]:
        return [value for found, value in self.fields if found.lower() == name]

    def options(self) -> set[bytes]:
        return {option.strip().lower() for value in self.values(b"connection") for option in value.split(b",")}

    def end_to_end(self) -> Fields:
        """The fields that are not this hop's own, in order, case and number as sent."""
        drop = HOP_BY_HOP | self.options() - {b"content-length", b"transfer-encoding", b"host"}
        return [one for one in self.fields if one[0].lower() not in drop and not one[0].lower().startswith(b"proxy-")]

    def digest(self) -> str:
        """SHA-256 of all that has to be equal."""
        told = hashlib.sha256()
        for part in (self.start, self.end_to_end(), self.body, self.whole, self.interim):
            told.update(repr(part).encode())
        return told.hexdigest()


def _head(raw: bytes, at: int) -> tuple[bytes, Fields, int] | None:
    end = raw.find(b"\r\n\r\n", at)
    if end < 0:
        return None
    start, *lines = raw[at:end].split(b"\r\n")
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        assert colon, line
        fields.append((name, value.strip(b" \t")))
    return start, fields, end + 4


def request(raw: bytes) -> Message | None:
    """The request at the beginning of ``raw`` once its head is there."""
    if (read := _head(raw, 0)) is None:
        return None
    start, fields, at = read
    message = Message(start.rpartition(b" ")[0], fields)
    return _body(message, raw, at, close=False)


def reply(raw: bytes, method: bytes, *, ended: bool) -> Message | None:
    """The reply at the beginning of ``raw`` once its head is there; ``ended``: the connection gives no more."""
    at = 0
    interim: list[tuple[bytes, tuple[tuple[bytes, bytes], ...]]] = []
    while (read := _head(raw, at)) is not None:
        start, fields, at = read
        message = Message(start.partition(b" ")[2], fields, interim=tuple(interim))
        status = int(message.start[:3])
        if 100 <= status < 200 and status != 101:
            interim.append((message.start, tuple(message.end_to_end())))
            continue
        if method == b"HEAD" or status in {204, 304}:
            return replace(message, whole=True, length=at)
        got = _body(message, raw, at, close=True)
        to_the_end = not got.values(b"transfer-encoding") and not got.values(b"content-length")
        return replace(got, whole=ended) if to_the_end else got
    return None


def _body(message: Message, raw: bytes, at: int, *, close: bool) -> Message:
    if b"chunked" in [value.lower() for value in message.values(b"transfer-encoding")]:
        return _chunked(message, raw, at)
    if lengths := message.values(b"content-length"):
        end = at + int(lengths[0])
        return replace(message, body=raw[at:end], whole=len(raw) >= end, length=end)
    if close:
        return replace(message, body=raw[at:], length=len(raw))
    return replace(message, whole=True, length=at)


def _chunked(message: Message, raw: bytes, at: int) -> Message:
    body = bytearray()
    while (end := raw.find(b"\r\n", at)) >= 0:
        size = int(raw[at:end].partition(b";")[0], 16)
        at = end + 2
        if not size:
            while (end := raw.find(b"\r\n", at)) >= 0:
                if end == at:
                    return replace(message, body=bytes(body), whole=True, length=end + 2)
                at = end + 2  # a trailer
            break
        body += raw[at : at + size]
        if len(raw) < at + size + 2:
            break
        assert raw[at + size : at + size + 2] == b"\r\n"
        at += size + 2
    return replace(message, body=bytes(body))
