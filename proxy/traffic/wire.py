"""What goes from a traffic process to a judge: frames of 4 bytes of little-endian length and a msgpack value.

House rules. Pure: bytes in, values out. The first frame of a connection is a ``Hello``, every later one an ``Exchange``; both carry the
wire version, and a reader refuses what it does not know. ``WireError`` is the only error: the connection is then of no more use.
"""

from __future__ import annotations

import struct

from msgspec import DecodeError, Struct, msgpack

from proxy.exchange import WIRE_VERSION, Exchange

_LENGTH = struct.Struct("<I")
PREFIX = _LENGTH.size
#: The msgpack value of a frame, wherever it lies.
Payload = bytes | memoryview
#: Nobody captures this much: a longer frame is a stranger on the socket.
MAX_FRAME = 1 << 30
#: A greeting is a name and two numbers: whoever begins with more is a stranger, and is not listened to until it has sent a gigabyte.
_MAX_HELLO = 1 << 10


class WireError(ValueError):
    """The bytes are not a hand-over of this version."""


class Hello(Struct, frozen=True, array_like=True):
    """Who speaks: the counters file's ``incarnation``, and how many exchanges it has handed over on earlier connections."""

    incarnation: str
    handed_over_before: int
    version: int = WIRE_VERSION


_encoder = msgpack.Encoder()
_hello = msgpack.Decoder(Hello)
_exchange = msgpack.Decoder(Exchange)


def encode_frame(value: Hello | Exchange) -> bytes:
    """One frame. Raises struct.error beyond 4 GiB."""
    payload = encode(value)
    return prefix(payload) + payload


#: The payload of a frame.
encode = _encoder.encode


def prefix(payload: bytes) -> bytes:
    """What stands before a payload. Raises struct.error beyond 4 GiB."""
    return _LENGTH.pack(len(payload))


class FrameReader:
    """Cuts a byte stream, split anywhere, into frames; ``feed`` raises ``WireError``.

    Nothing is copied but a frame that did not come in one read, once: ``payloads`` look into what was read, and keep it as long as they live.
    """

    __slots__ = ("_greeted", "_limit", "_needed", "_parts", "payloads", "pending")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._parts: list[bytes | memoryview] = []
        self._needed = PREFIX  # bytes without which there is nothing to be read in the parts
        self._greeted = False
        self._limit = limit
        self.pending = 0  # bytes of a frame that has begun and not ended
        self.payloads: list[Payload] = []

    def feed(self, data: bytes) -> list[Hello | Exchange]:
        """Take the next bytes, return the values they complete; ``payloads`` are then what those were decoded from."""
        payloads: list[Payload] = []
        self.payloads = payloads
        values: list[Hello | Exchange] = []
        size = self.pending + len(data)
        if self._parts:
            self._parts.append(data)
            if size < self._needed:
                self.pending = size
                return values
            data = b"".join(self._parts)
        view = memoryview(data)
        start, self._needed = 0, PREFIX
        while size - start >= PREFIX:
            (length,) = _LENGTH.unpack_from(view, start)
            if length > (self._limit if self._greeted else _MAX_HELLO):
                raise WireError("a frame is longer than any exchange can be")
            end = start + PREFIX + length
            if end > size:
                self._needed = end - start
                break
            payload = view[start + PREFIX : end]
            payloads.append(payload)
            values.append(self._decode(payload))
            start = end
        self.pending = size - start
        self._parts = [view[start:]] if start < size else []
        return values

    def _decode(self, payload: memoryview) -> Hello | Exchange:
        try:
            value = _exchange.decode(payload) if self._greeted else _hello.decode(payload)
        except DecodeError:
            raise WireError("a frame is not what was expected in its place") from None
        if value.version != WIRE_VERSION:
            raise WireError(f"the other side speaks version {value.version}, this one {WIRE_VERSION}")
        self._greeted = True
        return value
