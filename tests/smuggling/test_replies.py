"""Every reply vector: what an engine says in two ways never reaches a client, and never becomes the answer to another request."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from pathlib import Path

import pytest
import uvloop

from proxy.counters import Slot
from tests.figures import Figure
from tests.smuggling.vectors import Vector, read, unescaped
from tests.wire.client import Wire, parse
from tests.wire.engine import Connection, Engine, reply
from tests.wire.proxied import Proxy, proxied

REPLIES = read("replies.txt")
POISON = "HTTP/1.1 200 OK\\r\\nX-Poison: y\\r\\nContent-Length: 6\\r\\n\\r\\npoison"
_PARTS = re.compile("(<pause>|<close>)")
_FIELD = re.compile(rb"[!#-'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*")
_SECONDS = 10.0


def engine_for(vectors: dict[str, Vector]) -> Engine:
    """An engine that answers ``/vector/NAME`` with that vector's bytes, and anything else with what was asked."""

    async def behave(connection: Connection) -> None:
        while True:
            request = await connection.request()
            target = request.line.split(b" ")[1].decode()
            if not target.startswith("/vector/"):
                await connection.send(reply(target.encode()))
                continue
            for part in _PARTS.split(vectors[target.removeprefix("/vector/")].text.replace("<poison>", POISON)):
                if part == "<close>":
                    return
                if part == "<pause>":
                    await asyncio.sleep(0.05)
                elif part:
                    await connection.send(unescaped(part))

    return Engine(behave)


class Got:
    """What a client got: every byte, and the answers to two good requests sent behind the vector."""

    def __init__(self) -> None:
        self.raw = b""
        self.after: list[str] = []


async def play(vectors: list[Vector]) -> dict[str, Got]:
    """Each vector on a connection of its own, and the two good ones on another, over whatever connections to the engine are kept."""
    found: dict[str, Got] = {}
    state = Path(tempfile.mkdtemp(prefix="phl"))
    try:
        async with (
            engine_for({vector.name: vector for vector in vectors}) as engine,
            proxied(engine.url, state) as proxy,
        ):
            for vector in vectors:
                got = found[vector.name] = Got()
                got.raw = await _ask(proxy, f"{method(vector)} /vector/{vector.name}")
                if "<pause>" in vector.text:
                    await asyncio.sleep(0.1)
                for number in range(2):
                    raw = await _ask(proxy, f"GET /good/{vector.name}/{number}")
                    got.after.append(parse(raw).body.decode())
            await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
            assert proxy.balanced()
            assert not engine.errors
    finally:
        shutil.rmtree(state)
    return found


async def _ask(proxy: Proxy, line: str) -> bytes:
    async with asyncio.timeout(_SECONDS), Wire(proxy.address) as wire:
        await wire.send(f"{line} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
        return await wire.rest()


@pytest.fixture(scope="module")
def found() -> dict[str, Got]:
    return uvloop.run(play(REPLIES))


def method(vector: Vector) -> str:
    """What the client asks with."""
    return "HEAD" if vector.name.startswith("head-") else "GET"


def without_interim(raw: bytes) -> bytes:
    """The reply proper; the standard library takes a 103 for one."""
    while raw.startswith(b"HTTP/1.1 1"):
        raw = raw.partition(b"\r\n\r\n")[2]
    return raw


@pytest.mark.parametrize("vector", REPLIES, ids=lambda vector: vector.name)
def test_a_reply_is_passed_on_or_refused_and_never_answers_another(found: dict[str, Got], vector: Vector) -> None:
    got = found[vector.name]
    assert got.after == [f"/good/{vector.name}/{number}" for number in range(2)]
    assert b"poison" not in got.raw.lower()
    assert_clean(got.raw)
    answer = parse(without_interim(got.raw), method(vector))
    match vector.expected.split():
        case [*interim, "502"]:
            assert (answer.status, answer.whole) == (502, True)
            assert b'"code":"primary_' in answer.body
            assert interim or got.raw.startswith(b"HTTP/1.1 502 "), "nothing came before it"
        case ["pass", status, *body]:
            assert (answer.status, answer.body.decode(), answer.whole) == (int(status), "".join(body), True)
        case ["cut", status, *body]:
            assert (answer.status, answer.body.decode(), answer.whole) == (int(status), "".join(body), False)
        case other:
            pytest.fail(f"{other} is not an expectation")


def assert_clean(raw: bytes) -> None:
    """Every head in it, interim ones too, is of clean lines."""
    while True:
        head, _, rest = raw.partition(b"\r\n\r\n")
        line, *fields = head.split(b"\r\n")
        assert re.fullmatch(rb"HTTP/1\.1 [0-9]{3} [\t -~\x80-\xff]*", line), line
        for field in fields:
            assert _FIELD.fullmatch(field), field
        if not line.startswith(b"HTTP/1.1 1"):
            return
        raw = rest


def test_there_are_many(found: dict[str, Got], figure: Figure) -> None:
    others = [name for name, got in found.items() if got.after != [f"/good/{name}/{number}" for number in range(2)]]
    assert (len(found) >= 60, others) == (True, [])
    figure("row 13, replies", f"{len(found)} reply vectors: {len(others)} became the answer to another request")


def test_a_reply_that_nobody_asked_for_yet_answers_at_most_the_first_request(state: Path) -> None:
    """An engine that speaks first on every connection, and answers late: what it owes is never taken for the answer to another request."""

    async def behave(connection: Connection) -> None:
        await connection.send(reply(b"unasked"))
        while True:
            request = await connection.request()
            await asyncio.sleep(0.02)
            await connection.send(reply(request.line.split(b" ")[1]))

    async def main() -> list[str]:
        got = []
        async with Engine(behave) as engine, proxied(engine.url, state) as proxy:
            for number in range(20):
                got.append(parse(await _ask(proxy, f"GET /{number}")).body.decode())
                await asyncio.sleep(0.05)
        return got

    for number, body in enumerate(uvloop.run(main())):
        assert body in (f"/{number}", "unasked") or '"code":"primary_' in body
