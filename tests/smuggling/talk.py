"""One vector over one connection: what is sent, what comes back, and what the engine behind it all has seen."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from dataclasses import dataclass, field

from tests.smuggling.vectors import Vector
from tests.wire.client import Wire
from tests.wire.engine import Connection, Engine

PATIENCE = 10.0  # for an answer that must come
_SILENCE = 0.3  # for one that must not
_BODILESS = {b"HEAD"}
_run = secrets.token_hex(2)
_serial = itertools.count()


@dataclass(frozen=True)
class Answer:
    """A reply as the client reads it: ``saw`` is what the engine said of the request it answers, empty when it was not the engine's."""

    status: int
    saw: str
    head: bytes
    body: bytes


@dataclass
class Outcome:
    """What became of one vector.

    ``answers`` until the connection's end or silence, ``later`` those to the good request that was sent behind it where the connection still stood;
    ``closed`` whether the peer ended it before; ``seen`` what the engine saw under this mark, in order.
    """

    mark: str
    answers: list[Answer] = field(default_factory=list)
    later: list[Answer] = field(default_factory=list)
    closed: bool = False
    seen: list[str] = field(default_factory=list)

    @property
    def meant(self) -> list[str]:
        """What the engine saw, but for the follow-up."""
        return [one for one in self.seen if one != self.next]

    @property
    def answered(self) -> list[str]:
        """What the engine said it saw in all the answers of its own that came back, in order."""
        return [one.saw for one in (*self.answers, *self.later) if one.saw]

    @property
    def next(self) -> str:
        """The follow-up as the engine sees it."""
        return f"GET /next-{self.mark} 0"

    @property
    def followed(self) -> bool:
        """Whether the follow-up got its own answer, and nothing else came."""
        return [one.saw for one in self.later] == [self.next]


async def echo(connection: Connection) -> None:
    """Answer every request with what was seen of it, in a header, so that HEAD tells as much."""
    while True:
        request = await connection.request()
        method, target, _ = request.line.split(b" ", 2)
        mark = request.value(b"X-Mark") or b""
        saw = b"%b %b%b %d" % (method, target[:120], mark, len(request.body))
        await connection.send(b"HTTP/1.1 200 OK\r\nX-Saw: %b\r\nContent-Length: 0\r\n\r\n" % saw)


def seen(engine: Engine, mark: str) -> list[str]:
    """What the engine has seen under a mark: method, target and body length of each request, in order."""
    found = []
    for request in engine.requests:
        if mark.encode() in request.head:
            method, target, _ = request.line.split(b" ", 2)
            named = request.value(b"X-Mark") or b""
            found.append(f"{method.decode()} {target[:120].decode('latin-1')}{named.decode()} {len(request.body)}")
    return found


async def read_answer(wire: Wire, *, bodiless: bool) -> Answer | None:
    """Read the next final reply; None at the end of the connection."""
    while True:
        try:
            head = await wire.until(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        status = int(head.split(b" ", 2)[1])
        if status >= 200:
            break
    named = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        named[name.lower()] = value.strip()
    body = b""
    if bodiless or status in (204, 304):
        pass
    elif named.get(b"transfer-encoding") == b"chunked":
        while size := int((await wire.until(b"\r\n"))[:-2], 16):
            body += (await wire.reader.readexactly(size + 2))[:-2]
        await wire.until(b"\r\n")
    elif b"content-length" in named:
        body = await wire.reader.readexactly(int(named[b"content-length"]))
    else:
        body = await wire.rest()
    return Answer(status, named.get(b"x-saw", b"").decode("latin-1"), head, body)


async def talk(address: tuple[str, int], vector: Vector, pieces: str = "whole", patience: float = PATIENCE) -> Outcome:
    """Send a vector as one piece, as head and body, or byte by byte; then, where the connection still stands, a good request."""
    mark = f"{_run}{next(_serial):04x}"
    outcome = Outcome(mark)
    raw = vector.wire(mark)
    bodiless = raw.partition(b" ")[0] in _BODILESS
    expects = 2 if vector.expected.startswith("two") else 1
    async with Wire(address) as wire:
        with contextlib.suppress(ConnectionError):
            for piece in _cut(raw, pieces):
                await wire.send(piece)
                await asyncio.sleep(0.005 if pieces == "head" else 0)
        with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError):
            while len(outcome.answers) < expects and not outcome.closed:
                async with asyncio.timeout(_SILENCE if vector.expected == "waits" or outcome.answers else patience):
                    answer = await read_answer(wire, bodiless=bodiless)
                outcome.closed = answer is None
                outcome.answers += [answer] if answer else []
        if outcome.answers and not outcome.closed:
            await _follow(wire, outcome, patience)
    return outcome


async def _follow(wire: Wire, outcome: Outcome, patience: float) -> None:
    good = f"GET /next-{outcome.mark} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
    with contextlib.suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(patience):
            await wire.send(good)
            while answer := await read_answer(wire, bodiless=False):
                outcome.later.append(answer)
    outcome.closed = not outcome.later


def _cut(raw: bytes, pieces: str) -> list[bytes]:
    match pieces:
        case "whole":
            return [raw]
        case "head":
            end = raw.find(b"\r\n\r\n") + 4
            return [raw[:end], raw[end:]] if 4 <= end < len(raw) else [raw]
        case _ if len(raw) > 2000:
            return [raw[:40], raw[40:1000], raw[1000:-3], raw[-3:]]
        case _:
            return [raw[place : place + 1] for place in range(len(raw))]
