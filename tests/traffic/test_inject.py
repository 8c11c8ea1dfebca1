"""``primary.logprobs: inject``: replies recorded from real engines go through the proxy enlarged, and reach the client without what was added."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from engines.registry import dialect
from proxy.config import EngineName, Limits, Match, Primary, Rule, Sampling
from proxy.counters import Slot
from proxy.exchange import Ended
from proxy.traffic.inject import Injection
from proxy.traffic.reply_head import Framing, ReplyHead
from tests.wire.client import ask, parse, post
from tests.wire.engine import STREAM, Connection, Engine, always, chunk, once, reply, stream
from tests.wire.judge import judging
from tests.wire.proxied import proxied

FIXTURES = Path(__file__).parents[1] / "fixtures"
CLIENT = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "temperature": 0,
}
PROMPT = {"model": "smollm2-135m", "prompt": "The capital of France is", "temperature": 0}
ADDED = {"logprobs", "token_ids", "prompt_token_ids", "__verbose"}

RECORDED: list[tuple[EngineName, str, str]] = [
    ("vllm", "vllm-cpu-bf16/chat_return_token_ids.json", "/v1/chat/completions"),
    ("vllm", "vllm-cpu-bf16/chat_multibyte_logprobs.json", "/v1/chat/completions"),
    ("vllm", "vllm-cpu-bf16/completions_return_token_ids.json", "/v1/completions"),
    ("vllm", "vllm-cpu-bf16/chat_stream_return_token_ids.sse", "/v1/chat/completions"),
    ("vllm", "vllm-cpu-bf16/completions_stream_logprobs.sse", "/v1/completions"),
    ("llama_cpp", "llama.cpp-q4_1/chat_logprobs.json", "/v1/chat/completions"),
    ("llama_cpp", "llama.cpp-q4_1/completions_logprobs.json", "/v1/completions"),
    ("llama_cpp", "llama.cpp-q4_1/chat_stream_multibyte_logprobs.sse", "/v1/chat/completions"),
    ("llama_cpp", "llama.cpp-q4_1/completions_stream_logprobs.sse", "/v1/completions"),
]


def bare(value: Any) -> Any:
    """A reply without the values that injection adds, whatever their place."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key not in ADDED}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def has_added(value: Any) -> bool:
    if isinstance(value, dict):
        return any((key in ADDED and inner) or has_added(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(has_added, value))


def events(raw: bytes) -> list[bytes]:
    return [event.removeprefix(b"data: ") for event in raw.split(b"\n\n") if event]


def inject(engine: EngineName, url: str) -> Primary:
    return Primary(url=url, engine=engine, logprobs="inject")


@pytest.mark.parametrize(("engine_name", "name", "path"), RECORDED, ids=[name for _, name, _ in RECORDED])
def test_a_recorded_reply_comes_back_as_if_nothing_had_been_asked(
    engine_name: EngineName, name: str, path: str, state: Path
) -> None:
    recorded = (FIXTURES / name).read_bytes()
    streamed = name.endswith(".sse")
    answer = (
        stream(*(recorded[start : start + 700] for start in range(0, len(recorded), 700)))
        if streamed
        else [reply(recorded)]
    )
    client = json.dumps({**(CLIENT if "chat" in path else PROMPT), "stream": streamed}, indent=1).encode()

    async def main() -> None:
        async with (
            judging(state) as judge,
            Engine(always(*answer)) as engine,
            proxied(engine.url, state, primary=inject(engine_name, engine.url)) as proxy,
        ):
            got = parse(await ask(proxy.address, post(client, path, fields="Accept-Encoding: gzip, br\r\nX-A: 1\r\n")))
            assert got.whole
            if streamed:
                mine = [json.loads(event) for event in events(got.body) if event != b"[DONE]"]
                theirs = [json.loads(event) for event in events(recorded) if event != b"[DONE]"]
                assert got.body.endswith(b"data: [DONE]\n\n") == recorded.endswith(b"data: [DONE]\n\n")
            else:
                mine, theirs = [json.loads(got.body)], [json.loads(recorded)]
            assert not any(map(has_added, mine))
            assert any(map(has_added, theirs))
            assert [bare(value) for value in mine] == [bare(value) for value in theirs]
            [request] = engine.requests
            asked = json.loads(request.body)
            assert asked["logprobs"] in {True, 20}
            assert request.value(b"accept-encoding") == b"identity"
            assert request.value(b"content-length") == b"%d" % len(request.body)
            [exchange] = await judge.until(1)
            assert exchange.injected
            assert exchange.request_body == client
            assert b"".join(piece for _, piece in exchange.pieces) == recorded
            assert (proxy[Slot.INJECTED], proxy[Slot.INJECT_REFUSED]) == (1, 0)

    uvloop.run(main())


def test_a_reply_that_changes_nothing_keeps_its_bytes(state: Path) -> None:
    odd = b'{ "choices" : [] , "x": 1.0e0 }'
    sse = [b'event: note\nid: 7\ndata: {"choices": [ ]}\n\n', b": ping\n\n", b"data: not json\n\n", b"data: [DONE]\n\n"]

    async def main() -> None:
        for answer, body in (([reply(odd)], odd), (stream(*sse), b"".join(sse))):
            async with (
                Engine(always(*answer)) as engine,
                proxied(engine.url, state, primary=inject("vllm", engine.url)) as proxy,
            ):
                assert parse(await ask(proxy.address, post(json.dumps(CLIENT).encode()))).body == body
                assert proxy[Slot.INJECTED] == 1

    uvloop.run(main())


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("status", ["400 Bad Request", "422 Unprocessable", "500 Internal Server Error"])
def test_a_refusal_of_the_enlarged_request_is_not_the_clients(status: str, chunked: bool, state: Path) -> None:
    client = json.dumps(CLIENT).encode()

    async def main() -> None:
        async def behave(connection: Connection) -> None:
            while True:
                request = await connection.request()
                refused = b"logprobs" in request.body
                await connection.send(
                    reply(b'{"error":"logprobs"}', status=status) if refused else reply(b'{"fine":1}')
                )

        async with (
            judging(state) as judge,
            Engine(behave) as engine,
            proxied(engine.url, state, primary=inject("vllm", engine.url)) as proxy,
        ):
            request = post(client)
            if chunked:
                head, _, _ = request.partition(b"Content-Length")
                request = (
                    head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(client[:9]) + chunk(client[9:]) + chunk(b"")
                )
            assert parse(await ask(proxy.address, request)).body == b'{"fine":1}'
            assert engine.requests[1].body == client
            assert proxy[Slot.INJECT_REFUSED] == 1
            [exchange] = await judge.until(1)
            assert (exchange.injected, exchange.status, exchange.ended) == (False, 200, Ended.COMPLETE)
            assert [piece for _, piece in exchange.pieces] == [b'{"fine":1}']
            assert proxy.balanced()

    uvloop.run(main())


def test_a_client_error_stays_what_the_primary_says_of_the_clients_own_request(state: Path) -> None:
    async def main() -> None:
        async with (
            Engine(always(reply(b'{"error":"model"}', status="404 Not Found"))) as engine,
            proxied(engine.url, state, primary=inject("vllm", engine.url)) as proxy,
        ):
            got = parse(await ask(proxy.address, post(json.dumps(CLIENT).encode())))
            assert (got.status, got.body) == (404, b'{"error":"model"}')
            assert len(engine.requests) == 2

    uvloop.run(main())


UNTOUCHED = {
    "not json": post(b"{nope"),
    "not an object": post(b"[1]"),
    "another route": post(b'{"input": "x"}', "/v1/embeddings"),
    "encoded": post(gzip.compress(json.dumps(CLIENT).encode()), fields="Content-Encoding: gzip\r\n"),
    "opted out": post(json.dumps(CLIENT).encode(), fields="x-parhelion: skip\r\n"),
    "too large": post(json.dumps({**CLIENT, "user": "u" * 5000}).encode()),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_cannot_be_enlarged_goes_out_as_it_came(name: str, state: Path) -> None:
    raw = UNTOUCHED[name]
    body = raw.partition(b"\r\n\r\n")[2]

    async def main() -> None:
        async with Engine(always(reply(b'{"choices":[{"logprobs":{"content":[]}}]}'))) as engine:
            limits = Limits(capture_bytes=4096)
            async with proxied(engine.url, state, primary=inject("vllm", engine.url), limits=limits) as proxy:
                got = parse(await ask(proxy.address, raw))
                assert got.body == b'{"choices":[{"logprobs":{"content":[]}}]}'
                assert engine.requests[0].body == body
                assert proxy[Slot.INJECTED] == 0
                assert proxy.balanced()

    uvloop.run(main())


def test_a_reply_that_cannot_be_stripped_is_passed_as_it_came(state: Path) -> None:
    large = json.dumps({"choices": [{"logprobs": {"content": [1] * 5000}}]}).encode()
    packed = gzip.compress(b'{"choices":[{"logprobs":{"content":[]}}]}')
    html = b"<html>"
    event = b"data: " + large
    cases = [
        ([reply(large)], large),
        ([reply(packed, fields=b"Content-Type: application/json\r\nContent-Encoding: gzip\r\n")], packed),
        ([reply(html, fields=b"Content-Type: text/html\r\n")], html),
        (
            stream(event[:3000], event[3000:9000], event[9000:] + b"\n\n", b"data: [DONE]\n\n"),
            event + b"\n\ndata: [DONE]\n\n",
        ),
    ]

    async def main() -> None:
        for answer, body in cases:
            async with Engine(always(*answer, pause=0.002)) as engine:
                limits = Limits(capture_bytes=4096)
                async with proxied(engine.url, state, primary=inject("vllm", engine.url), limits=limits) as proxy:
                    got = parse(await ask(proxy.address, post(json.dumps(CLIENT).encode())))
                    assert (got.body, got.whole) == (body, True)
                    assert proxy[Slot.INJECTED] == 1
                    assert proxy.balanced()

    uvloop.run(main())


def test_a_cut_stays_a_cut(state: Path) -> None:
    async def main() -> None:
        for answer, body in (
            (
                [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n", b'{"choi'],
                b'{"choi',
            ),
            ([STREAM, chunk(b'data: {"choices":[]}\n\n')], b'data: {"choices":[]}\n\n'),
        ):
            async with (
                Engine(once(*answer)) as engine,
                proxied(engine.url, state, primary=inject("vllm", engine.url)) as proxy,
            ):
                got = parse(await ask(proxy.address, post(json.dumps(CLIENT).encode())))
                assert (got.status, got.body, got.whole) == (200, body, False)

    uvloop.run(main())


def test_an_offered_request_is_enlarged_only_where_its_rule_fits(state: Path) -> None:
    sampling = Sampling(rate=0.0, rules=(Rule(Match(model="smol*"), 1.0),), salt="s")

    async def main() -> None:
        async with (
            Engine(always(reply(b"{}"))) as engine,
            proxied(engine.url, state, primary=inject("vllm", engine.url), sampling=sampling) as proxy,
        ):
            for model in ("smollm2", "other"):
                await ask(proxy.address, post(json.dumps({**CLIENT, "model": model}).encode()))
            assert (proxy[Slot.OFFERED], proxy[Slot.INJECTED]) == (2, 1)
            assert [b"logprobs" in request.body for request in engine.requests] == [True, False]

    uvloop.run(main())


def test_the_dialect_is_found_out_when_nobody_names_it(state: Path) -> None:
    async def main() -> None:
        async def behave(connection: Connection) -> None:
            while True:
                request = await connection.request()
                known = request.line.startswith((b"GET /v1/models", b"GET /version"))
                body = b'{"version":"0.32.0","data":[{"id":"m","owned_by":"vllm"}]}' if known else b"{}"
                await connection.send(
                    reply(body, status="404 Not Found" if b"GET" in request.line and not known else "200 OK")
                )

        async with Engine(behave) as engine, proxied(engine.url, state, primary=inject("auto", engine.url)) as proxy:
            for _ in range(500):
                await ask(proxy.address, post(json.dumps(CLIENT).encode()))
                if proxy[Slot.INJECTED]:
                    break
            assert proxy[Slot.INJECTED] == 1
            assert json.loads(engine.requests[-1].body)["return_token_ids"] is True

    uvloop.run(main())


@given(st.data())
def test_any_split_of_a_stream_is_stripped_alike(data: st.DataObject) -> None:
    recorded = (FIXTURES / "vllm-cpu-bf16/chat_stream_return_token_ids.sse").read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(recorded)), max_size=20)))
    pieces = [recorded[a:b] for a, b in zip([0, *cuts], [*cuts, len(recorded)], strict=True)]
    assert _stripped(pieces) == _stripped([recorded])


def _stripped(pieces: list[bytes]) -> bytes:
    injection = Injection(dialect("vllm"), "chat_completions", 1 << 20)
    injection.gather(json.dumps(CLIENT).encode())
    assert injection.shape(lambda _: True) is not None
    head = ReplyHead(200, b"OK", b"", Framing.CHUNKED, None, stream=True)
    assert injection.head(head) is head
    return b"".join(injection.piece(piece)[1] for piece in pieces) + injection.end()[1]
