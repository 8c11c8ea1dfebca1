"""vLLM's dialect against a real vLLM, and against our reference engine, which speaks it too."""

import asyncio
import json

import pytest

from engines.dialect import Call, Endpoint
from engines.http_fetch import connect
from engines.probe import probe
from engines.registry import detect, dialect
from proxy.compare.sse import SseReader
from tests.engines.endpoints.live import agree, replies

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
PATHS = {CHAT: "/v1/chat/completions", COMPLETIONS: "/v1/completions"}
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
PARTY = [{"role": "user", "content": "Repeat exactly: 🎉🥳 日本語 naïve Ω"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
#: Decode against prefill: bf16 as measured before on this model (0.22 at most), fp32 far below.
NOISE = {"vllm": 0.5, "reference": 1e-4}


@pytest.fixture(
    params=[
        pytest.param(("vllm_bf16", "vllm"), marks=pytest.mark.vllm, id="vllm"),
        pytest.param(("reference_fp32", "reference"), marks=pytest.mark.torch, id="reference"),
    ]
)
def engine(request):
    """The base URL of an engine that speaks the dialect, and the dialect."""
    fixture, name = request.param
    return request.getfixturevalue(fixture), dialect(name)


def with_engine(url, use):
    async def main():
        async with connect(url, timeout=120) as fetch:
            return await use(fetch)

    return asyncio.run(main())


def bodies():
    shared = {"model": "smollm2-135m", "temperature": 0, "max_tokens": 20}
    for stream in (False, True):
        for named, more in (
            ("plain", {}),
            ("logprobs", {"logprobs": True, "top_logprobs": 3}),
            ("stop", {"stop": ["Paris"]}),
        ):
            for messages in (FRANCE, PARTY):
                yield pytest.param(
                    CHAT,
                    {**shared, "messages": messages, "stream": stream, **more},
                    id=f"chat-{named}-{stream}-{len(messages[0]['content'])}",
                )
        for named, more in (("plain", {}), ("logprobs", {"logprobs": 2})):
            yield pytest.param(
                COMPLETIONS,
                {**shared, "prompt": "Say 🎉🎌 and:", "stream": stream, **more},
                id=f"completions-{named}-{stream}",
            )
    yield pytest.param(
        COMPLETIONS,
        {**shared, "prompt": ["One two", "a b c"], "stream": True, "n": 2, "temperature": 0.9, "seed": 3},
        id="lists",
    )


BODIES = list(bodies())


@pytest.mark.parametrize(("endpoint", "body"), BODIES)
def test_every_token_has_its_id_and_value(engine, endpoint, body):
    url, speak = engine

    async def use(fetch):
        shaped = speak.ask(endpoint, body, 20)
        reply = speak.read(endpoint, shaped, await fetch(Call(PATHS[endpoint], shaped)))
        assert reply.error is None
        assert len(reply.choices) == (4 if "n" in body else 1)
        for choice in reply.choices:
            assert (choice.has_ids, choice.rows_missing) == (True, False)
            assert len(choice.tokens) == choice.count
            assert all(token.logprob is not None for token in choice.tokens)
            assert all(len(token.top) >= (20 if "logprobs" not in body else 1) for token in choice.tokens)
        assert sum(choice.count for choice in reply.choices) == reply.completion_tokens
        rendered = await speak.prompt_ids(fetch, endpoint, body)
        assert [choice.prompt_ids for choice in reply.choices[:: body.get("n", 1)]] == list(rendered)

    with_engine(url, use)


@pytest.mark.parametrize(
    "extra",
    [
        {"tools": TOOLS, "tool_choice": "none"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"add_generation_prompt": False, "continue_final_message": True},
        {"messages": [{"role": "system", "content": "Be brief."}, *FRANCE]},
        {"messages": [{"role": "user", "content": "<|im_end|> hi"}]},
    ],
)
def test_prompt_ids_are_those_it_generates_from(engine, extra):
    url, speak = engine
    body = {"model": "smollm2-135m", "messages": FRANCE, "max_tokens": 1, "temperature": 0, **extra}

    async def use(fetch):
        shaped = speak.ask(CHAT, body, 2)
        reply = speak.read(CHAT, shaped, await fetch(Call(PATHS[CHAT], shaped)))
        assert reply.error is None
        (ids,) = await speak.prompt_ids(fetch, CHAT, body)
        assert reply.choices[0].prompt_ids == ids
        assert reply.prompt_tokens == len(ids)

    with_engine(url, use)


def test_scoring_against_decoding(engine):
    url, speak = engine
    body = {"model": "smollm2-135m", "messages": PARTY, "max_tokens": 32, "temperature": 0}

    async def use(fetch):
        shaped = speak.ask(CHAT, body, 20)
        reply = speak.read(CHAT, shaped, await fetch(Call(PATHS[CHAT], shaped)))
        (choice,) = reply.choices
        ids = tuple(token.id for token in choice.tokens)
        rows = await speak.score(fetch, "smollm2-135m", choice.prompt_ids, ids, 20)
        assert [row.token.id for row in rows] == list(ids)
        assert [row.index for row in rows] == list(range(len(ids)))
        assert all(len(row.token.top) in (20, 21) for row in rows)
        return max(abs(row.token.logprob - choice.tokens[row.index].logprob) for row in rows)

    gap = with_engine(url, use)
    print(f"{speak.name}: decode against scoring {gap:.2e} nats at most")
    assert gap < NOISE[speak.name]


def test_visible_text_to_ids_and_back(engine):
    url, speak = engine

    async def use(fetch):
        ids = await speak.tokenize(fetch, "The capital of France is 🎉", "smollm2-135m")
        assert ids[:5] == (504, 3575, 282, 4649, 314)
        assert await speak.detokenize(fetch, ids, "smollm2-135m") == "The capital of France is 🎉"

    with_engine(url, use)


def parsed(answer, *, stream):
    assert answer.status == 200
    if not stream:
        return [json.loads(answer.body)]
    reader = SseReader()
    found = reader.feed(answer.body) + reader.finish()
    return [json.loads(event.data) for event in found if event.data != b"[DONE]"]


def settled(value, number=lambda value: pytest.approx(value, abs=0.2)):  # bf16 moves with what is cached
    """What one reply shares with the next, its numbers as ``number`` has them."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list):
        return [settled(item, number) for item in value]
    if isinstance(value, dict):
        moment = ("id", "created", "prompt_tokens_details")
        return {key: settled(item, number) for key, item in value.items() if key not in moment}
    return value


def joined(events):
    """Neighbours that say the same kind of thing as one event: a server that is faster than its socket puts several tokens into one."""
    found = []
    for event in events:
        if found and event["choices"] and kind(found[-1]) == kind(event):
            found[-1] = merged(found[-1], event)
        else:
            found.append(event)
    return found


def kind(event):
    """What the choices bring; an end, and the system's name, come beside the last tokens or alone."""
    return [(list(choice.get("delta", ())), choice["logprobs"] is None) for choice in event["choices"]]


def merged(one, other, key=""):
    """Rows one after the other, the text of a delta too; all else is said again in each event."""
    match one, other:
        case dict(), dict():
            both = {name: merged(item, other[name], name) if name in other else item for name, item in one.items()}
            return both | {name: item for name, item in other.items() if name not in one}
        case [dict() as first, *_], [dict() as second, *_] if key == "choices":
            return [merged(first, second)]
        case list(), list():
            return one + other
        case str(), str() if key in ("content", "text"):
            return one + other
        case _:
            return other


@pytest.mark.parametrize(("endpoint", "body"), [one for one in BODIES if one.id != "lists"])
def test_an_injected_reply_stripped_is_the_clients_own(engine, endpoint, body):
    url, speak = engine

    async def use(fetch):
        await fetch(Call(PATHS[endpoint], body))  # the next ones find the same cache
        for _ in range(6):
            plain = parsed(await fetch(Call(PATHS[endpoint], body)), stream=body["stream"])
            enlarged = parsed(
                await fetch(Call(PATHS[endpoint], speak.inject(endpoint, body, 20))), stream=body["stream"]
            )
            stripped = [speak.strip(endpoint, body, event) for event in enlarged]
            kept = [event for event in stripped if event is not None]
            if len(kept) == len(plain):
                break
        assert settled(joined(kept)) == settled(joined(plain), number=float)

    with_engine(url, use)


def test_it_is_recognised_and_probed(engine):
    url, speak = engine

    async def use(fetch):
        assert await detect(fetch) == speak.name
        return await probe(fetch, speak), await probe(fetch, speak)

    found, again = with_engine(url, use)
    seen = found.capabilities
    print(found.footprint.as_json(), seen, found.findings)
    assert found.findings == ()
    assert (seen.token_ids, seen.rows_per_token, seen.stream_same, seen.forced) == (True, True, True, True)
    assert (seen.top_logprobs, seen.logprob_mode) == (20, "raw")
    assert seen.logits_step == ("bf16" if speak.name == "vllm" else "fp32")
    assert seen.self_noise < NOISE[speak.name]
    assert found.footprint.id == again.footprint.id
    assert found.footprint.value("dtype") == ("bf16" if speak.name == "vllm" else "fp32")
    assert found.footprint.value("tokenizer_hash")


def test_responses_and_messages_say_what_a_chat_says(vllm_fp32):
    agree(replies(vllm_fp32, dialect("vllm")))
