"""Reconfiguring a running service, the kept salt, and the coarse timer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from proxy.counters import Counters
from proxy.traffic.client_side import ClientSide
from proxy.traffic.deadlines import Deadlines
from proxy.traffic.handoff import Handoff
from proxy.traffic.process import kept_salt, serve
from proxy.traffic.service import Service, snapshot_of
from tests.wire.client import Wire, ask, get, parse
from tests.wire.engine import STREAM, Connection, Engine, always, chunk, reply
from tests.wire.proxied import config_for


def test_a_swap_takes_effect_with_the_next_request_and_open_ones_end_as_they_began(state: Path) -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def slow(connection: Connection) -> None:
            await connection.request()
            await connection.send(STREAM, chunk(b"old"))
            await go.wait()
            await connection.send(chunk(b" to the end"), chunk(b""))

        async with Engine(slow) as first, Engine(always(reply(b"new"))) as second:
            loop = asyncio.get_running_loop()
            counters = Counters.create(state / "c.bin")
            deadlines = Deadlines(loop)
            handoff = Handoff(loop, str(state / "judge.sock"), "t", counters, 1 << 20)
            snapshot = snapshot_of(config_for(first.url, state), "s", None)
            service = Service(loop, snapshot, incarnation="t", counters=counters, deadlines=deadlines, handoff=handoff)
            server = await loop.create_server(lambda: ClientSide(service), "127.0.0.1", 0)
            address = server.sockets[0].getsockname()
            async with Wire(address) as wire:
                await wire.send(get("/a"))
                await wire.until(b"old")
                service.reconfigure(snapshot_of(config_for(second.url, state), "s", None))
                assert parse(await ask(address, get("/b"))).body == b"new"
                go.set()
                assert b" to the end" in await wire.rest()
            server.close()
            await service.idle.wait()
            await service.close()
            assert (first.connections, second.connections) == (1, 1)
            counters.close()

    uvloop.run(main())


def test_the_salt_is_made_once_and_kept_private(state: Path) -> None:
    first = kept_salt(state / "deep" / "er")
    assert len(first) == 64
    assert kept_salt(state / "deep" / "er") == first
    assert (state / "deep" / "er" / "salt").stat().st_mode & 0o077 == 0
    assert [path.name for path in (state / "deep" / "er").iterdir()] == ["salt"]


def test_what_makes_serving_impossible_is_said(state: Path) -> None:
    import socket

    async def main() -> None:
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        with pytest.raises(ValueError, match="http://"):
            await serve(
                config_for("nonsense", state), incarnation="x", sock=sock, ready=lambda: None, stop=asyncio.Event()
            )
        Counters.create(state / "counters.bin").close()
        (state / "counters").mkdir()
        Counters.create(state / "counters" / "x.bin").close()
        with pytest.raises(FileExistsError):
            await serve(
                config_for("http://h", state), incarnation="x", sock=sock, ready=lambda: None, stop=asyncio.Event()
            )
        sock.close()

    uvloop.run(main())


def test_deadlines_tell_what_has_expired_and_only_that() -> None:
    class Thing:
        def __init__(self, deadline: float) -> None:
            self.deadline = deadline
            self.told = 0

        def expired(self) -> None:
            self.told += 1
            self.deadline = float("inf")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(loop, round_seconds=0.04)
        ticks: list[float] = []
        deadlines.every_tick(ticks.append)
        things = [Thing(loop.time() + span) for span in (0.0, 0.05, 100.0)] + [Thing(0.0)]
        numbers = [deadlines.watch(thing) for thing in things]
        deadlines.drop(things[3], numbers[3])
        deadlines.start()
        await asyncio.sleep(0.3)
        deadlines.stop()
        assert [thing.told for thing in things] == [1, 1, 0, 0]
        assert len(ticks) > 3
        assert ticks == sorted(ticks)
        seen = len(ticks)
        await asyncio.sleep(0.05)
        assert len(ticks) == seen

    uvloop.run(main())
