"""What goes from a traffic process to a judge: frames of 4 bytes of little-endian length and a msgpack value.

House rules. Pure: bytes in, values out. The first frame of a connection is a ``Hello``, every later one an ``Exchange``; both carry the
wire version, and a reader refuses what it does not know. ``WireError`` is the only error: the connection is then of no more use.
"""

from __future__ import annotations

from msgspec import DecodeError, Struct, msgpack

from proxy.exchange import WIRE_VERSION, Exchange

_PREFIX = 4
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
    """One frame. Raises OverflowError beyond 4 GiB."""
    payload = _encoder.encode(value)
    return len(payload).to_bytes(_PREFIX, "little") + payload


class FrameReader:
    """Cuts a byte stream, split anywhere, into frames; ``feed`` raises ``WireError``."""

    __slots__ = ("_buffer", "_greeted", "_limit", "payloads")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self._greeted = False
        self._limit = limit
        self.payloads: list[bytes] = []

    def feed(self, data: bytes) -> list[Hello | Exchange]:
        """Take the next bytes, return the values they complete; ``payloads`` are then what those were decoded from."""
        self.payloads = payloads = []
        buffer = self._buffer
        buffer += data
        values: list[Hello | Exchange] = []
        start = 0
        while len(buffer) - start >= _PREFIX:
            end = start + _PREFIX + int.from_bytes(buffer[start : start + _PREFIX], "little")
            if end - start - _PREFIX > (self._limit if self._greeted else _MAX_HELLO):
                raise WireError("a frame is longer than any exchange can be")
            if end > len(buffer):
                break
            payloads.append(bytes(buffer[start + _PREFIX : end]))
            values.append(self._decode(payloads[-1]))
            start = end
        del buffer[:start]
        return values

    @property
    def pending(self) -> int:
        """Bytes of a frame that has begun and not ended."""
        return len(self._buffer)

    def _decode(self, payload: bytes) -> Hello | Exchange:
        try:
            value = _exchange.decode(payload) if self._greeted else _hello.decode(payload)
        except DecodeError:
            raise WireError("a frame is not what was expected in its place") from None
        if value.version != WIRE_VERSION:
            raise WireError(f"the other side speaks version {value.version}, this one {WIRE_VERSION}")
        self._greeted = True
        return value
