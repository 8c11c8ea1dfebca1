"""A stream's events after stripping, byte for byte: only what was added is gone, and nothing comes twice."""

from __future__ import annotations

import json

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engines.registry import dialect
from proxy.config import Primary, Sampling
from proxy.traffic.inject import Injection
from proxy.traffic.reply_head import Framing, ReplyHead
from tests.wire.client import ask, parse, post
from tests.wire.engine import STREAM, Engine, chunk, once, reply
from tests.wire.proxied import proxied

CLIENT = {"model": "m", "messages": [], "stream": True}
PLAIN = b'{"choices": [{"index":0,"delta":{"content":"q"},"logprobs":null}]}'
ADDED = b'{"choices": [{"index":0,"delta":{"content":"q"},"logprobs":{"content":[{"logprob":-0.5}]}}]}'
BOM = b"\xef\xbb\xbf"


def stripped(*pieces: bytes, limit: int = 1 << 20, body: dict = CLIENT) -> bytes:
    injection = Injection(dialect("openai"), "chat_completions", limit)
    injection.gather(json.dumps(body).encode())
    assert injection.shape(lambda _: True) is not None
    injection.head(ReplyHead(200, b"OK", b"", Framing.CHUNKED, None, stream=True))
    return b"".join(injection.piece(piece)[1] for piece in pieces) + injection.end()[1]


@pytest.mark.parametrize(
    ("came", "goes"),
    [
        (BOM + b"data: " + ADDED + b"\n\n", BOM + b"data: " + PLAIN + b"\n\n"),
        (BOM + b": hello\n\ndata: " + ADDED + b"\n\n", BOM + b": hello\n\ndata: " + PLAIN + b"\n\n"),
        (
            b"id: 7\r\ndata: " + ADDED + b"\r\nevent: note\r\n\r\n",
            b"id: 7\r\ndata: " + PLAIN + b"\r\nevent: note\r\n\r\n",
        ),
        (b"data:" + ADDED + b" \r\r", b"data:" + PLAIN + b" \r\r"),
        (
            b"database: 1\ndata: " + ADDED.replace(b" [", b"\ndata: [", 1) + b"\ndata\n\n",
            b"database: 1\ndata: " + PLAIN.replace(b" [", b"\ndata: [", 1) + b"\ndata\n\n",
        ),
        (
            b"data:  {\ndata: " + ADDED[1:].replace(b"}]}}", b"\ndata:}]}}") + b"\ndata\n\n",
            b"data:  {\ndata: " + PLAIN[1:] + b"\ndata:\n\n",
        ),
        (b"data: " + ADDED, b"data: " + PLAIN),
        (b"data: " + ADDED + b"\nid: 1", b"data: " + PLAIN + b"\nid: 1"),
    ],
    ids=[
        "mark",
        "mark before a comment",
        "other fields",
        "old line ends",
        "several lines",
        "lines lost",
        "no blank line",
        "half",
    ],
)
def test_an_event_keeps_everything_but_what_was_added(came: bytes, goes: bytes) -> None:
    assert stripped(came) == goes


def test_a_mark_in_the_middle_of_a_stream_is_no_mark() -> None:
    odd = BOM + b"data: " + ADDED + b"\n\n"  # a field of another name there
    assert stripped(b"data: [DONE]\n\n", odd) == b"data: [DONE]\n\n" + odd


def test_values_keep_their_size_in_replies_and_requests() -> None:
    more = b',"seed":18446744073709551616,"created":123456789012345678901234567890,"x":-1e-7}'
    [event] = stripped(b"data: " + ADDED[:-1] + more + b"\n\n").split(b"\n\n")[:-1]
    assert event == b"data: " + PLAIN[:-1] + more
    injection = Injection(dialect("openai"), "chat_completions", 1 << 20)
    injection.gather(json.dumps(CLIENT | {"seed": 2**64, "user": "é"}).encode())
    enlarged = injection.shape(lambda _: True)
    assert enlarged is not None
    assert json.loads(enlarged) == CLIENT | {"seed": 2**64, "user": "é", "logprobs": True, "top_logprobs": 20}


def test_a_request_too_deep_for_a_key_goes_out_as_it_came(state) -> None:
    body = b'{"messages":[{"role":"user","content":' + b"[" * 300 + b"]" * 300 + b"}]}"

    async def main() -> None:
        sampling = Sampling(rate=0.5, by="conversation", salt="s")
        primary = Primary(url="", engine="openai", logprobs="inject")
        async with (
            Engine(once(reply(b"{}"))) as engine,
            proxied(engine.url, state, primary=replace(primary, url=engine.url), sampling=sampling) as proxy,
        ):
            assert parse(await ask(proxy.address, post(body))).body == b"{}"
            assert engine.requests[0].body == body

    uvloop.run(main())


def test_a_request_is_enlarged_in_its_place() -> None:
    injection = Injection(dialect("openai"), "chat_completions", 1 << 20)
    injection.gather(b'{ "top_p" : 1.50e0, "logprobs" : null , "messages": ["\\u00e9"], "x":123456789012345678901 }')
    assert injection.shape(lambda _: True) == (
        b'{ "top_p" : 1.50e0, "logprobs" : true , "messages": ["\\u00e9"], "x":123456789012345678901,"top_logprobs":20 }'
    )


def test_logprobs_that_are_no_numbers_are_taken_out_all_the_same() -> None:
    assert stripped(b"data: " + ADDED.replace(b"-0.5", b"NaN") + b"\n\n") == b"data: " + PLAIN + b"\n\n"


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (b'data: {"choices":[{"index":0,"delta":{"content":"q', True),
        (b'data: {"choices":[{"index":0,"delta":{"content":"q"}', True),
        (b"data: [DO", True),
        (b": ping", True),
        (b"data: logprobs", True),
        (b'data: {"choices":[{"logprobs":{"content":[{"logprob":-0.5', False),
        (b'data: {"choices":[{"delta":{},"token_ids":[5', False),
        (b'data: {"choices":[{"delta":{},"logpr', False),
        (b'data: {"prompt_t', False),
        (b'data: {"__verb', False),
    ],
)
def test_an_event_that_is_cut_short_is_shown_only_if_it_holds_nothing_of_ours(last: bytes, shown: bool) -> None:
    assert stripped(b"data: [DONE]\n\n", last) == b"data: [DONE]\n\n" + last * shown


@given(st.integers(0, len(ADDED)))
def test_no_cut_lets_anything_of_ours_through(at: int) -> None:
    got = stripped(b"data: " + ADDED[:at])
    assert b'"l' not in got or got == b"data: " + PLAIN


@pytest.mark.parametrize("last", [b'{"choices":[{"output_ids":[5', b'{"choices":[{"outp', b'{"choices":[{"respo'])
def test_ids_under_other_engines_names_are_not_let_through_either(last: bytes) -> None:
    assert stripped(b"data: " + last) == b""


def test_an_event_over_the_limit_at_the_end_of_a_stream_is_passed_on() -> None:
    large = b"data: " + b"x" * 5000
    assert stripped(b"data: [DONE]\n\n" + large, limit=4096) == b"data: [DONE]\n\n" + large


def test_many_pieces_of_one_event_are_not_copied_again_and_again() -> None:
    event = b'data: {"x":"' + b"y" * 400_000 + b'"}\n\n'
    assert stripped(*(event[at : at + 1] for at in range(len(event)))) == event


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (b'data: {"choices":[{"index":0,"delta":{"content":"q', True),
        (b'data: {"choices":[{"logprobs":{"content":[{"logprob":-0.5', False),
    ],
)
def test_a_cut_stream_shows_its_last_event_as_plain_passing_would(last: bytes, shown: bool, state) -> None:
    async def main() -> None:
        async with (
            Engine(once(STREAM, chunk(b"data: " + ADDED + b"\n\n" + last))) as engine,
            proxied(engine.url, state, primary=Primary(url=engine.url, engine="openai", logprobs="inject")) as proxy,
        ):
            got = parse(await ask(proxy.address, post(json.dumps(CLIENT).encode())))
            assert (got.status, got.whole) == (200, False)
            assert got.body == b"data: " + PLAIN + b"\n\n" + last * shown

    uvloop.run(main())
