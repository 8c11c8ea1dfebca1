"""The intake: frames in, one exchange after another out, bounded, and nothing of an earlier connection forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from proxy.exchange import Ended, Exchange
from proxy.judge.intake import Intake, size_of
from proxy.traffic.wire import Hello, encode_frame


def exchange(number: int, size: int = 10, incarnation: str = "t0") -> Exchange:
    body = bytes(size)
    return Exchange(
        f"x{number}", incarnation, 0.0, 0.5, "POST", "/v1/completions", (), body, 200, (), (), 0, 0, Ended.COMPLETE
    )


class Ledger:
    """Remembers what it was asked to reconcile."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    async def reconcile(self, incarnation: str, handed_over: int) -> None:
        self.calls.append((incarnation, handed_over))

    async def bury(self, incarnation: str) -> None:
        self.calls.append((incarnation, -1))


async def connect(path: Path, *frames: Hello | Exchange) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_unix_connection(str(path))
    for frame in frames:
        writer.write(encode_frame(frame))
    await writer.drain()
    return writer


async def until(condition: object) -> None:
    async with asyncio.timeout(5):
        while not condition():  # type: ignore[operator]  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)


async def take(intake: Intake) -> Exchange:
    await until(lambda: len(intake))
    one = intake.next()
    assert one is not None
    return one


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


def test_exchanges_come_out_in_order(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = Ledger()
        intake = Intake(1 << 20, ledger.reconcile, ledger.bury)
        server = await intake.listen(tmp_path / "judge.sock")
        writer = await connect(tmp_path / "judge.sock", Hello("t0", 0), exchange(1), exchange(2))
        assert [(await take(intake)).id, (await take(intake)).id] == ["x1", "x2"]
        assert intake.in_flight["t0"] == 2
        intake.settled("t0")
        intake.settled("t0")
        assert not intake.in_flight
        assert ledger.calls == [("t0", 0)]
        intake.close()
        assert intake.next() is None
        await close(writer)
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_who_works_is_told_of_each_arrival(tmp_path: Path) -> None:
    async def run() -> None:
        intake = Intake(1 << 20, Ledger().reconcile, Ledger().bury)
        seen: list[str] = []

        def arrived() -> None:
            while (one := intake.next()) is not None:
                seen.append(one.id)

        intake.arrived = arrived
        server = await intake.listen(tmp_path / "judge.sock")
        writer = await connect(tmp_path / "judge.sock", Hello("t0", 0), exchange(1), exchange(2))
        await until(lambda: seen == ["x1", "x2"])
        assert intake.waiting_bytes == 0
        intake.close()
        await close(writer)
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_a_full_queue_stops_the_reading_and_loses_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        intake = Intake(20_000, Ledger().reconcile, Ledger().bury)
        server = await intake.listen(tmp_path / "judge.sock")
        total = 400
        writer = await connect(tmp_path / "judge.sock", Hello("t0", 0))
        pushing = asyncio.ensure_future(push(writer, total))
        await until(lambda: intake.waiting_bytes >= 20_000)
        await asyncio.sleep(0.05)
        assert not pushing.done()  # the sender is held by the socket, not by us
        assert intake.waiting_bytes < 20_000 + 2 * (256 << 10)  # one read beyond the bound, at most
        seen = []
        while len(seen) < total:
            seen.append((await take(intake)).id)
        await pushing
        assert seen == [f"x{number}" for number in range(total)]
        assert intake.waiting_bytes == 0
        intake.close()
        await close(writer)
        server.close()
        await server.wait_closed()

    async def push(writer: asyncio.StreamWriter, total: int) -> None:
        for number in range(total):
            writer.write(encode_frame(exchange(number, size=4000)))
            await writer.drain()

    asyncio.run(run())


def test_a_second_greeting_waits_until_nothing_of_that_incarnation_is_in_flight(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = Ledger()
        intake = Intake(1 << 20, ledger.reconcile, ledger.bury)
        server = await intake.listen(tmp_path / "judge.sock")
        first = await connect(tmp_path / "judge.sock", Hello("t0", 0), exchange(1))
        await take(intake)
        await close(first)
        second = await connect(tmp_path / "judge.sock", Hello("t0", 1), exchange(2))
        await asyncio.sleep(0.1)
        assert ledger.calls == [("t0", 0)]
        assert len(intake) == 0  # held back: it must not count before the earlier ones are accounted for
        intake.settled("t0")
        await until(lambda: len(intake) == 1)
        assert [call for call in ledger.calls if call[1] >= 0] == [("t0", 0), ("t0", 1)]
        intake.close()
        await close(second)
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_who_hangs_up_is_accounted_for_once_nothing_of_it_is_in_flight(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = Ledger()
        intake = Intake(1 << 20, ledger.reconcile, ledger.bury)
        server = await intake.listen(tmp_path / "judge.sock")
        writer = await connect(tmp_path / "judge.sock", Hello("t0", 0), exchange(1))
        await take(intake)
        await close(writer)
        await asyncio.sleep(0.1)
        assert ledger.calls == [("t0", 0)]
        intake.settled("t0")
        await until(lambda: ledger.calls == [("t0", 0), ("t0", -1)])
        intake.close()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_a_stranger_on_the_socket_is_hung_up_on(tmp_path: Path) -> None:
    async def run() -> None:
        intake = Intake(1 << 20, Ledger().reconcile, Ledger().bury)
        server = await intake.listen(tmp_path / "judge.sock")
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "judge.sock"))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_the_weight_of_an_exchange_is_its_bodies() -> None:
    assert size_of(exchange(1, size=5000)) == 6024
