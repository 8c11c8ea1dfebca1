"""The intake: frames in, one exchange after another out, bounded, and nothing of an earlier connection forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from proxy.counters import Counters, Receipt, Slot
from proxy.exchange import Ended, Exchange
from proxy.judge.intake import Intake, size_of
from proxy.traffic.wire import Hello, encode_frame


def exchange(number: int, size: int = 10, incarnation: str = "t0") -> Exchange:
    body = bytes(size)
    return Exchange(
        f"x{number}", incarnation, 0.0, 0.5, "POST", "/v1/completions", (), body, 200, (), (), 0, 0, Ended.COMPLETE
    )


class Ledger:
    """Remembers what it was told and asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.taken: list[str] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    def took(self, exchanges: Sequence[Exchange], payloads: Sequence[bytes]) -> Sequence[Exchange]:
        assert [msgspec.msgpack.decode(one, type=Exchange) for one in payloads] == list(exchanges)
        self.taken += [one.id for one in exchanges]
        return exchanges

    async def reconcile(self, incarnation: str, handed_over: int) -> None:
        self.calls.append((incarnation, handed_over))
        await self.go_on.wait()

    async def bury(self, incarnation: str) -> None:
        self.calls.append((incarnation, -1))


def intake_for(folder: Path, ledger: Ledger, capacity: int = 1 << 20) -> Intake:
    if not (folder / "t0.bin").exists():
        Counters.create(folder / "t0.bin").close()
    return Intake(capacity, folder, ledger.took, ledger.reconcile, ledger.bury)


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
        intake = intake_for(tmp_path, ledger)
        server = await intake.listen(tmp_path / "judge.sock")
        writer = await connect(tmp_path / "judge.sock", Hello("t0", 0), exchange(1), exchange(2))
        assert [(await take(intake)).id, (await take(intake)).id] == ["x1", "x2"]
        assert ledger.taken == ["x1", "x2"]
        assert ledger.calls == [("t0", 0)]
        intake.close()
        assert intake.next() is None
        await close(writer)
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_who_works_is_told_of_each_arrival(tmp_path: Path) -> None:
    async def run() -> None:
        intake = intake_for(tmp_path, Ledger())
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
        intake = intake_for(tmp_path, Ledger(), 20_000)
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


def test_a_traffic_process_is_heard_on_its_newest_connection_alone(tmp_path: Path) -> None:
    """What an older connection still holds unread is accounted for as lost by the new greeting: it must not come in as well."""

    async def run() -> None:
        ledger = Ledger()
        intake = intake_for(tmp_path, ledger, 1000)
        server = await intake.listen(tmp_path / "judge.sock")
        first = await connect(tmp_path / "judge.sock", Hello("t0", 0), exchange(1, size=5000))
        await until(lambda: len(intake) == 1)  # and now the queue is full, and nothing more is read
        first.write(encode_frame(exchange(2)))
        await first.drain()
        second = await connect(tmp_path / "judge.sock", Hello("t0", 2), exchange(3))
        await until(lambda: len(intake) == 2)
        assert ("t0", 2) in ledger.calls
        assert [one.id for one in (intake.next(), intake.next()) if one is not None] == ["x1", "x3"]
        await asyncio.sleep(0.1)
        assert len(intake) == 0
        assert len(ledger.taken) == 2
        intake.close()
        for writer in (first, second):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_what_is_taken_is_acknowledged_and_what_comes_again_is_not_taken_twice(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = Ledger()
        intake = intake_for(tmp_path, ledger)
        receipt = Receipt(tmp_path / "t0.bin")
        receipt.count = 3  # of an earlier life
        server = await intake.listen(tmp_path / "judge.sock")
        first = await connect(tmp_path / "judge.sock", Hello("t0", 3), exchange(4), exchange(5))
        await until(lambda: receipt.count == 5)
        second = await connect(tmp_path / "judge.sock", Hello("t0", 4), exchange(5), exchange(6))  # it knew of one only
        await until(lambda: receipt.count == 6)
        assert ledger.taken == ["x4", "x5", "x6"]
        assert ledger.calls[:2] == [("t0", 3), ("t0", 4)]
        intake.close()
        for writer in (first, second):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        receipt.close()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_what_is_kept_is_acknowledged_before_anything_is_done_with_it(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = Ledger()
        intake = intake_for(tmp_path, ledger)
        receipt = Receipt(tmp_path / "t0.bin")
        seen: list[tuple[int, int]] = []
        intake.arrived = lambda: seen.append((len(ledger.taken), receipt.count))
        server = await intake.listen(tmp_path / "judge.sock")
        writer = await connect(tmp_path / "judge.sock", Hello("t0", 0), exchange(1), exchange(2))
        await until(lambda: len(seen) == 2)
        assert all(taken == acknowledged > 0 for taken, acknowledged in seen)
        intake.close()
        await close(writer)
        receipt.close()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_who_cannot_be_acknowledged_to_is_not_heard(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = Ledger()
        intake = intake_for(tmp_path, ledger)
        server = await intake.listen(tmp_path / "judge.sock")
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "judge.sock"))
        writer.write(encode_frame(Hello("nobody", 0)) + encode_frame(exchange(1)))
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        assert ledger.taken == []
        intake.close()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_who_hangs_up_is_accounted_for_after_all_it_sent_has_come_in(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = Ledger()
        ledger.go_on.clear()
        intake = intake_for(tmp_path, ledger)
        server = await intake.listen(tmp_path / "judge.sock")
        writer = await connect(tmp_path / "judge.sock", Hello("t0", 0), exchange(1))
        await until(lambda: bool(ledger.calls))
        await close(writer)
        await asyncio.sleep(0.1)
        assert ledger.calls == [("t0", 0)]
        ledger.go_on.set()
        await until(lambda: ledger.calls == [("t0", 0), ("t0", -1)])
        assert ledger.taken == ["x1"]
        intake.close()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_who_stops_takes_what_came_during_a_greeting_before_hanging_up_and_nothing_after(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = Ledger()
        ledger.go_on.clear()
        intake = intake_for(tmp_path, ledger)
        server = await intake.listen(tmp_path / "judge.sock")
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "judge.sock"))
        writer.writelines(encode_frame(frame) for frame in (Hello("t0", 0), exchange(1), exchange(2)))
        await until(lambda: ledger.calls)
        await asyncio.sleep(0.05)  # for both to lie there
        intake.close()
        assert await reader.read() == b""  # now its sender takes back what is not acknowledged
        counters = Counters.attach(tmp_path / "t0.bin")
        assert (ledger.taken, counters[Slot.ACKNOWLEDGED]) == (["x1", "x2"], 2)
        ledger.go_on.set()
        await asyncio.sleep(0.05)
        assert (ledger.taken, counters[Slot.ACKNOWLEDGED], len(intake)) == (["x1", "x2"], 2, 2)
        counters.close()
        await close(writer)
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_a_stranger_on_the_socket_is_hung_up_on(tmp_path: Path) -> None:
    async def run() -> None:
        intake = intake_for(tmp_path, Ledger())
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


def test_what_is_under_way_takes_room_from_what_waits(tmp_path: Path) -> None:
    async def run() -> None:
        intake = intake_for(tmp_path, Ledger(), 20_000)
        intake.under_way = 16_000
        server = await intake.listen(tmp_path / "judge.sock")
        writer = await connect(tmp_path / "judge.sock", Hello("t0", 0))
        for number in range(400):
            writer.write(encode_frame(exchange(number, size=4000)))
        await until(lambda: len(intake))
        await asyncio.sleep(0.05)
        came = len(intake)
        assert 0 < came < 400  # it was full with the first read
        intake.under_way = 20_000  # all that is taken goes under way: an empty queue, and no room
        while intake.next() is not None:
            pass
        assert intake.crowded
        await asyncio.sleep(0.05)
        assert not len(intake)
        intake.under_way = 0
        assert intake.next() is None  # whoever has room looks, and it is read on
        while came < 400:
            await take(intake)
            came += 1
        intake.close()
        await close(writer)
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_what_the_judge_holds_is_told_to_each_traffic_process_in_parts(tmp_path: Path) -> None:
    async def run() -> None:
        intake = intake_for(tmp_path, Ledger())
        Counters.create(tmp_path / "t1.bin").close()
        server = await intake.listen(tmp_path / "judge.sock")
        told = [Counters.attach(tmp_path / f"{name}.bin") for name in ("t0", "t1")]
        writers = [await connect(tmp_path / "judge.sock", Hello(name, 0)) for name in ("t0", "t1")]
        await until(lambda: len(intake.connected()) == 2)
        writers[0].write(encode_frame(exchange(1, size=200_000)))
        await until(lambda: len(intake))
        weight = size_of(exchange(1, size=200_000))
        assert [one[Slot.JUDGE_BYTES] for one in told] == [weight // 2] * 2
        intake.under_way, intake.answered = 300_000, 100_000
        await take(intake)
        assert [one[Slot.JUDGE_BYTES] for one in told] == [200_000] * 2
        intake.under_way = intake.answered = 0
        assert intake.next() is None
        assert [one[Slot.JUDGE_BYTES] for one in told] == [0] * 2
        intake.close()
        for writer in writers:
            await close(writer)
        for one in told:
            one.close()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_the_weight_of_an_exchange_is_its_bodies() -> None:
    assert size_of(exchange(1, size=5000)) == 6024


def test_many_small_pieces_weigh_what_they_take() -> None:
    """A queue filled with streams must not take twice the memory that it was given."""

    def made() -> list[Exchange]:
        pieces = [tuple((1000 + at, bytes([65 + at % 20]) * 40 + b"%d" % at) for at in range(500)) for _ in range(40)]
        return [
            Exchange("x", "t0", 0.0, 0.5, "POST", "/v1/completions", (), b"{}", 200, (), one, 0, 0, Ended.COMPLETE)
            for one in pieces
        ]

    tracemalloc.start()
    try:
        exchanges = made()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == pytest.approx(sum(map(size_of, exchanges)), rel=0.15)
