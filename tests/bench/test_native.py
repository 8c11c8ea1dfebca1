"""The fake engine and the load client: what they count is what happened."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.bench.native import Engine, Work, engine, load
from tests.bench.payloads import json_reply, logprobs_reply, request, sse_reply


@pytest.fixture
def fake() -> Iterator[Engine]:
    with engine("primary", "shadow") as running:
        running.answer(json_reply(1300))
        yield running


def test_payloads_have_the_sizes_that_are_asked_for() -> None:
    assert len(request(1024)) == 1024
    assert len(request(1 << 20, stream=True)) == 1 << 20
    assert len(json_reply(1300).body) == 1300
    events = sse_reply(128).body.split(b"\n\n")
    assert len(events) == 128 + 2
    assert {len(event) + 2 for event in events[:127]} == {235}
    assert 90_000 < len(logprobs_reply(128, 20).body) < 100_000
    assert 200_000 < len(logprobs_reply(128, 20, as_vllm=True).body) < 240_000


@pytest.mark.parametrize(
    "reply", [json_reply(1300), sse_reply(16), sse_reply(16, pace=1000)], ids=["json", "sse", "paced"]
)
def test_a_closed_loop_is_counted_on_both_sides(fake: Engine, reply: object) -> None:
    fake.answer(reply)  # type: ignore[arg-type]  # parametrised
    took = load(fake.port["primary"], Work(request(1024), connections=4, seconds=20, requests=200))
    assert (took["issued"], took["done"], took["failed"], took["bad_status"]) == (200, 200, 0, 0)
    stats = fake.stats("primary")
    assert (stats["accepted"], stats["requests"], stats["replied"], stats["cut"]) == (4, 200, 200, 0)
    assert fake.stats("shadow")["requests"] == 0


def test_the_delay_of_every_paced_event_is_seen(fake: Engine) -> None:
    fake.answer(sse_reply(16, pace=2000))
    took = load(fake.port["primary"], Work(request(1024), connections=2, seconds=20, requests=10))
    assert took["stamped"] == 160
    assert 0 < took["chunk_p50"] <= took["chunk_p99"]
    assert took["latency_p50"] >= 15 * 2000 > took["first_p50"] > 0


def test_an_open_loop_keeps_its_rate_and_times_from_when_a_request_was_due(fake: Engine) -> None:
    fake.answer(json_reply(1300, delay=20_000))
    took = load(fake.port["primary"], Work(request(1024), connections=1, seconds=0.5, rate=100))
    assert took["done"] == 50
    assert took["latency_p99"] > 200_000  # one connection does 50 a second: the last ones have waited


def test_a_reply_that_is_not_read_is_not_counted(fake: Engine) -> None:
    fake.answer(logprobs_reply(128, 20))
    body = request(1024)
    with socket.create_connection(("127.0.0.1", fake.port["shadow"])) as line:
        line.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1024\r\n\r\n" + body)
        assert line.recv(1000)  # the head and a little: then it hangs up
    _until(lambda: fake.stats("shadow")["open"] == 0)
    stats = fake.stats("shadow")
    assert (stats["requests"], stats["replied"], stats["cut"]) == (1, 0, 1)


def test_a_stream_that_is_left_is_not_counted(fake: Engine) -> None:
    fake.answer(sse_reply(40, pace=10_000))
    with socket.create_connection(("127.0.0.1", fake.port["shadow"])) as line:
        line.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert line.recv(1000)
    _until(lambda: fake.stats("shadow")["open"] == 0)
    assert (fake.stats("shadow")["replied"], fake.stats("shadow")["cut"]) == (0, 1)


@pytest.mark.parametrize("illness", ["hang", "deaf", "reset", "cut"])
def test_an_ill_engine_answers_nothing_to_its_end(fake: Engine, illness: str) -> None:
    fake.sicken("primary", illness)
    took = load(fake.port["primary"], Work(request(1024), connections=2, seconds=0.2, grace=0.2))
    assert took["done"] == 0
    assert fake.stats("primary")["replied"] == 0
    fake.sicken("primary", "ok")
    assert load(fake.port["primary"], Work(request(1024), connections=2, seconds=9, requests=20))["done"] == 20


def test_an_engine_that_is_down_refuses_and_comes_back_on_its_port(fake: Engine) -> None:
    fake.sicken("primary", "down")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", fake.port["primary"]))
    fake.sicken("primary", "ok")
    assert load(fake.port["primary"], Work(request(1024), connections=1, seconds=9, requests=5))["done"] == 5


def test_a_slow_engine_takes_ten_times_as_long(fake: Engine) -> None:
    fake.answer(json_reply(1300, delay=3000))
    fake.sicken("primary", "slow")
    took = load(fake.port["primary"], Work(request(1024), connections=1, seconds=20, requests=5))
    assert took["latency_p50"] >= 30_000


@pytest.mark.parametrize("reply", [json_reply(1300), sse_reply(16)], ids=["json", "sse"])
@pytest.mark.parametrize("spoilt", [b"sun", None])
def test_verification_sees_a_changed_byte_in_either_direction(
    fake: Engine, reply: object, spoilt: bytes | None
) -> None:
    fake.answer(reply)  # type: ignore[arg-type]  # parametrised
    fake.tell("verify 1")
    port = fake.port["primary"] if spoilt is None else _spoiling(fake.port["primary"], spoilt)
    took = load(port, Work(request(1024), connections=1, seconds=20, requests=20, verify=True))
    assert (took["done"], took["mismatched"]) == (20, 0 if spoilt is None else 20)


def _spoiling(port: int, word: bytes) -> int:
    """A relay that changes a word on its way down."""
    server = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        client, _ = server.accept()
        upstream = socket.create_connection(("127.0.0.1", port))
        with client, upstream, server:
            threading.Thread(target=lambda: _copy(client, upstream, lambda data: data), daemon=True).start()
            _copy(upstream, client, lambda data: data.replace(word, b"SUN"))

    threading.Thread(target=run, daemon=True).start()
    return int(server.getsockname()[1])


def _copy(source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(change(data))
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)
