"""Every request vector against the live path itself, sent at once, as head and body, and byte by byte."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import h11
import orjson
import pytest
import uvloop

from proxy.counters import Slot
from tests.figures import Figure
from tests.smuggling.talk import Outcome, echo, seen, talk
from tests.smuggling.vectors import REQUESTS, Vector
from tests.wire.engine import Engine
from tests.wire.proxied import proxied

SPLITS = ("whole", "head", "bytes")
Key = tuple[str, str]


class Run:
    """All vectors in all splits: their outcomes, how many bytes reached the engine for each, and everything the engine was sent."""

    def __init__(self) -> None:
        self.outcomes: dict[Key, Outcome] = {}
        self.reached: dict[Key, int] = {}
        self.engine = Engine(echo)

    async def play(self) -> None:
        state = Path(tempfile.mkdtemp(prefix="phl"))
        try:
            async with self.engine, proxied(self.engine.url, state, shadows=()) as proxy:
                for vector in REQUESTS:
                    for pieces in SPLITS:
                        before = len(self.engine.received)
                        outcome = self.outcomes[vector.name, pieces] = await talk(proxy.address, vector, pieces)
                        outcome.seen = seen(self.engine, outcome.mark)
                        self.reached[vector.name, pieces] = len(self.engine.received) - before
                await proxy.until(Slot.CLIENT_CONNECTIONS, 0)
                assert proxy.balanced()
        finally:
            shutil.rmtree(state)


@pytest.fixture(scope="module")
def run() -> Run:
    run = Run()
    uvloop.run(run.play())
    assert not run.engine.errors
    return run


def test_there_are_at_least_sixty_vectors() -> None:
    assert len(REQUESTS) >= 60
    assert {"length and chunked together", "chunks", "targets", "versions", "hosts", "fields", "pipelining"} <= {
        vector.section for vector in REQUESTS
    }


@pytest.mark.parametrize("pieces", SPLITS)
@pytest.mark.parametrize("vector", REQUESTS, ids=lambda vector: vector.name)
def test_a_vector_is_refused_with_close_or_is_one_request(run: Run, vector: Vector, pieces: str) -> None:
    outcome, reached = run.outcomes[vector.name, pieces], run.reached[vector.name, pieces]
    assert not any("hidden" in one for one in outcome.seen), outcome
    match vector.expected.split():
        case ["refuse", status, code]:
            _assert_refused(outcome, int(status), code)
            assert reached == 0, outcome
        case ["cut" | "broken" as word]:
            _assert_refused(outcome, 400, "bad_framing")
            assert reached == 0 or word == "broken" or pieces != "whole", outcome
        case ["waits"]:
            assert (outcome.answers, outcome.seen) == ([], []), outcome
        case ["last"]:
            assert outcome.closed, outcome
            _assert_answered(outcome, 1)
        case ["one"]:
            _assert_answered(outcome, 1)
            _assert_followed(outcome)
        case ["two", *last]:
            both = len(outcome.seen) > 1
            assert both or last, outcome
            _assert_answered(outcome, 2 if both else 1)
            if both:
                _assert_followed(outcome)
        case other:
            pytest.fail(f"{other} is not an expectation")


def _assert_refused(outcome: Outcome, status: int, code: str) -> None:
    """Our constant answer, nothing behind it, and no whole request at the engine."""
    [answer] = outcome.answers
    assert (answer.status, orjson.loads(answer.body)["error"]["code"]) == (status, code), outcome
    assert b"\r\nConnection: close\r\n" in answer.head
    assert outcome.mark.encode() not in answer.head + answer.body, "nothing a client sent is echoed"
    assert outcome.closed, outcome
    assert outcome.seen == [], outcome


def _assert_answered(outcome: Outcome, count: int) -> None:
    """So many requests at the engine, and the answer to each came back for it."""
    assert [answer.saw for answer in outcome.answers] == outcome.meant, outcome
    assert len(outcome.meant) == count, outcome


def _assert_followed(outcome: Outcome) -> None:
    assert outcome.followed, outcome


def test_another_parser_reads_the_same_requests_in_what_the_engine_was_sent(run: Run, figure: Figure) -> None:
    """h11 knows nothing of llhttp; two parsers that agree on every byte leave nothing to smuggle."""
    requests, checked = run.engine.requests, 0
    for request in requests:
        reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        reader.receive_data(request.head + b"\r\n\r\n" + request.raw_body)
        reader.receive_data(b"")
        head = reader.next_event()
        assert isinstance(head, h11.Request)
        method, target, _ = request.line.split(b" ")
        assert (head.method, head.target, head.http_version) == (method, target, b"1.1")
        assert [(name.lower(), value) for name, value in request.fields] == [
            (name, value) for name, value in head.headers if name != b"transfer-encoding" or value == b"chunked"
        ]
        body = b""
        while isinstance(event := reader.next_event(), h11.Data):
            body += event.data
        assert isinstance(event, h11.EndOfMessage)
        assert body == request.body
        last = reader.next_event()  # behind an offer to switch it waits for the answer
        assert isinstance(last, h11.ConnectionClosed) or (
            last is h11.PAUSED and request.value(b"upgrade") == b"websocket"
        )
        assert reader.trailing_data == (b"", True), "not a byte is left over"
        checked += 1
    assert checked > 200
    refused = [vector.name for vector in REQUESTS if vector.expected.startswith("refuse")]
    reached = sum(run.reached[name, pieces] for name in refused for pieces in SPLITS)
    assert reached == 0
    kinds = Counter(vector.expected.split()[0] for vector in REQUESTS)
    figure("row 13, alone", f"{len(REQUESTS)} request vectors x {len(SPLITS)} splits, {dict(kinds)}; {reached} bytes at the engine of those refused by their head")  # fmt: skip
