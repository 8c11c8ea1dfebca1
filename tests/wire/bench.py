"""The client side without sockets: bytes in, and what the primary and the client would have been sent."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import uvloop

from proxy.counters import Counters, Slot
from proxy.traffic.client_side import ClientSide
from proxy.traffic.deadlines import Deadlines
from proxy.traffic.handoff import Handoff
from proxy.traffic.relay import Relay
from proxy.traffic.reply_head import Framing, ReplyHead
from proxy.traffic.service import Service, snapshot_of
from tests.wire.proxied import config_for

_serial = itertools.count()


class Transport:
    """What a client connection is written to."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, piece: bytes) -> None:
        self.written += piece

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += b"".join(pieces)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    write_eof = abort = close

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Primary:
    """Takes every request and answers it at once when it is whole; stands for pool and connection."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.waiting: list[Relay] = []

    def serve(self, relay: Relay) -> None:
        self.sent.append(b"")
        self.waiting.append(relay)
        relay.attached(self)  # type: ignore[arg-type]  # all that is used of a connection

    def send(self, pieces: list[bytes]) -> None:
        self.sent[-1] += b"".join(pieces)

    def answer(self) -> None:
        while self.waiting and self.waiting[0].request_sent:
            relay = self.waiting.pop(0)
            relay.reply([ReplyHead(200, b"OK", b"", Framing.CHUNKED, None, stream=False)], [b"x"], 0.0)
            relay.reply_over(0.0)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Bench:
    """A service without sockets."""

    def __init__(self, state: Path) -> None:
        self.loop = uvloop.new_event_loop()
        self.counters = Counters.create(state / f"{next(_serial)}.bin")
        deadlines = Deadlines(self.loop)
        handoff = Handoff(self.loop, str(state / "judge.sock"), "t", self.counters, 1 << 30)
        snapshot = snapshot_of(config_for("http://primary", state), "s", None)
        self.service = Service(
            self.loop, snapshot, incarnation="t", counters=self.counters, deadlines=deadlines, handoff=handoff
        )

    def run(self, pieces: list[bytes]) -> tuple[list[bytes], bytes, bool]:
        """Feed one connection; what the primary got, what the client got, and whether the connection is closed."""
        primary, transport = Primary(), Transport()
        self.service.pool = primary  # type: ignore[assignment]  # all that is used of a pool
        client = ClientSide(self.service)
        client.connection_made(transport)  # type: ignore[arg-type]  # all that is used of a transport
        for piece in pieces:
            if transport.closed:
                break
            client.data_received(piece)
            primary.answer()
        client.connection_lost(None)
        return primary.sent, transport.written, transport.closed

    def balanced(self) -> bool:
        c = self.counters
        return (
            c[Slot.RECEIVED] == c[Slot.NOT_SAMPLED] + c[Slot.SAMPLED]
            and c[Slot.SAMPLED] == c[Slot.QUEUED] + c[Slot.SHED_CAPTURE] + c[Slot.SHED_QUEUE]
            and c[Slot.OPEN_SAMPLED] == c[Slot.CLIENT_CONNECTIONS] == self.service.open_exchanges == 0
        )
