"""Row 7: what the primary does wrong the client sees as it would directly: the same truncation, no made-up ending, and nothing is asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
import uvloop

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation import load
from tests.isolation.stage import Metrics, arms, settled
from tests.isolation.threaded import change, threaded
from tests.running import parhelion
from tests.wire.engine import STREAM, Behaviour, Connection, Engine, always, chunk, reply, stream

REQUESTS = 2000
AT_ONCE = 20
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
#: Long enough for what was sent to have been read before a reset takes it back.
MOMENT = 0.05


def plays(*pieces: bytes, end: str = "close") -> Behaviour:
    """Answer one request with the pieces; then close, reset, or send no more and wait for the peer."""

    async def behave(connection: Connection) -> None:
        await connection.request()
        await connection.send(*pieces)
        if end == "reset":
            await asyncio.sleep(MOMENT)
            connection.reset()
        elif end == "half":
            connection.half_close()
            while await connection.read_raw():
                pass

    return behave


LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
BARE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
CELLS: dict[str, Behaviour] = {
    "slow": always(*stream(EVENT, EVENT, EVENT), pause=0.01),
    "slow, of known length": always(BARE[:17], reply(b"{}" * 50)[17:60], reply(b"{}" * 50)[60:], pause=0.01),
    "cut between events": plays(STREAM, chunk(EVENT)),
    "cut inside a chunk": plays(STREAM, chunk(EVENT), b"ff\r\ndata: "),
    "cut short of its length": plays(LENGTH, b'{"choices": ['),
    "reset between events": plays(STREAM, chunk(EVENT), end="reset"),
    "reset short of its length": plays(LENGTH, b'{"choices": [', end="reset"),
    "half-closed in a stream": plays(STREAM, chunk(EVENT), b"ff\r\ndata: ", end="half"),
    "half-closed short of its length": plays(LENGTH, b'{"choices": [', end="half"),
    "ended by closing": plays(BARE, b'{"choices": []}'),
    "reset where closing would end it": plays(BARE, b'{"choices": ', end="reset"),
}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, ProxyProcess]]:
    """An engine whose behaviour each test sets, and a proxy in front of it."""
    with threaded(CELLS["slow"]) as engine:
        settings = {"url": engine.url, "engine": "openai"}
        shadows = arms("http://127.0.0.1:9")
        with parhelion(tmp_path_factory.mktemp("scripted"), engine.url, shadows, primary=settings) as proxy:
            yield engine, proxy


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_a_client_sees_what_it_would_see_directly(
    name: str, scripted: tuple[Engine, ProxyProcess], figure: Callable[[str, str], None]
) -> None:
    engine, proxy = scripted
    change(engine, CELLS[name])
    direct = uvloop.run(load.expect(engine.url))
    before, had, tally = Metrics(proxy), len(engine.requests), load.Tally()
    uvloop.run(load.drive(proxy.clients, REQUESTS, direct, tally, at_once=AT_ONCE))
    asked = sum(1 for one in engine.requests[had:] if b"halo" in one.body)  # the judge asks for other things
    seen = settled(proxy, before.sum("received_total") + REQUESTS)
    cut = "incomparable:primary_cut"
    cuts = seen.ended("cand").get(cut, 0) - before.ended("cand").get(cut, 0)
    same = f"{REQUESTS - tally.failed} of {REQUESTS} as directly ({'whole' if direct[0].whole else 'cut'})"
    figure("row 7", f"{name}: {same}, asked {asked} times, {cuts} recorded as cut")
    assert (tally.failed, tally.wrong) == (0, [])
    assert asked == REQUESTS
    assert cuts == (0 if direct[0].whole else REQUESTS)
