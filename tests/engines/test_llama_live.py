"""The llama.cpp dialect against a real server: ids, prompts, scoring, injection, probe."""

import asyncio
import json

import pytest

from engines.dialect import Call, Endpoint
from engines.http_fetch import connect
from engines.probe import probe
from engines.registry import detect, dialect
from engines.stepping import MOST_STEPS
from proxy.compare.sse import SseReader
from tests.engines.endpoints.live import agree, replies

pytestmark = pytest.mark.llama

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
PATHS = {CHAT: "/v1/chat/completions", COMPLETIONS: "/v1/completions"}
LLAMA = dialect("llama_cpp")

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
PARTY = [{"role": "user", "content": "Repeat exactly: 🎉🥳 日本語 naïve Ω"}]


def with_engine(url, use):
    async def main():
        async with connect(url) as fetch:
            return await use(fetch)

    return asyncio.run(main())


async def asked(fetch, endpoint, body, top=5):
    shaped = LLAMA.ask(endpoint, {"temperature": 0, "max_tokens": 24, **body}, top)
    reply = LLAMA.read(endpoint, shaped, await fetch(Call(PATHS[endpoint], shaped)))
    assert reply.error is None
    return reply


@pytest.mark.parametrize(
    "body",
    [
        {"messages": PARTY, "max_tokens": 32},
        {"messages": PARTY, "max_tokens": 31},
        {"messages": PARTY, "stream": True, "stream_options": {"include_usage": True}},
        {"messages": PARTY, "stop": ["🥳🥳", "\n\n🎉"]},
        {"messages": FRANCE, "stop": ["toiled", "la Marx"]},
        {"messages": FRANCE, "stop": ["la Mar"]},
        {"messages": [{"role": "user", "content": "Say hi"}], "max_tokens": 60, "stop": ["today?!"]},
    ],
    ids=["characters", "cut character", "stream", "stop with characters", "near stops", "stop", "end token"],
)
def test_every_token_has_its_id_and_the_rows_add_up(llama, body):
    async def use(fetch):
        reply = await asked(fetch, CHAT, body)
        (choice,) = reply.choices
        assert (choice.rows_missing, choice.has_ids, choice.count) == (False, True, reply.completion_tokens)
        assert len(choice.tokens) == choice.count
        spelled = await LLAMA.detokenize(fetch, tuple(token.id for token in choice.tokens), None)
        assert spelled.startswith(choice.text)
        own = b"".join(token.data or b"" for token in choice.tokens)
        if all(token.data for token in choice.tokens):
            assert own.decode(errors="ignore").startswith(choice.text)
        assert sum(token.logprob is not None for token in choice.tokens) >= choice.count // 4
        return choice

    with_engine(llama, use)


def test_the_parts_of_a_merged_row_are_told_apart(llama):
    async def use(fetch):
        (choice,) = (await asked(fetch, CHAT, {"messages": PARTY, "max_tokens": 9})).choices
        ids = [token.id for token in choice.tokens]
        assert ids[3:6] == [15107, 232, 227]  # the parts of " 🎉"
        assert [token.logprob is None for token in choice.tokens[3:6]] == [True, True, False]
        assert choice.tokens[5].data == b"\x89"

    with_engine(llama, use)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (CHAT, {"messages": FRANCE}),
        (CHAT, {"messages": [{"role": "system", "content": "Be brief."}, *PARTY]}),
        (CHAT, {"messages": [{"role": "user", "content": "<|im_end|> hi <|im_start|>"}]}),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "in parts"}]}]}),
        (
            CHAT,
            {"messages": [*FRANCE, {"role": "assistant", "content": "Paris."}, {"role": "user", "content": "Sure?"}]},
        ),
        (COMPLETIONS, {"prompt": "The capital of France is"}),
        (COMPLETIONS, {"prompt": "<|im_start|>user\nhi<|im_end|>\n"}),
        (COMPLETIONS, {"prompt": [504, 3575, 282]}),
    ],
)
def test_prompt_ids_are_exactly_what_it_generates_from(llama, endpoint, body):
    async def use(fetch):
        reply = await asked(fetch, endpoint, {**body, "max_tokens": 6})
        (ids,) = await LLAMA.prompt_ids(fetch, endpoint, body)
        assert len(ids) == reply.prompt_tokens
        from_ids = await asked(fetch, COMPLETIONS, {"prompt": list(ids), "max_tokens": 6})
        mine, its = reply.choices[0].tokens, from_ids.choices[0].tokens
        assert [token.id for token in mine] == [token.id for token in its]
        assert [token.logprob for token in mine] == pytest.approx([token.logprob for token in its], abs=1e-4)

    with_engine(llama, use)


def test_scoring_gives_what_decoding_gave(llama):
    async def use(fetch):
        gaps = []
        for messages in (FRANCE, PARTY):
            reply = await asked(fetch, CHAT, {"messages": messages, "max_tokens": 32})
            (prompt,) = await LLAMA.prompt_ids(fetch, CHAT, {"messages": messages})
            tokens = reply.choices[0].tokens
            rows = await LLAMA.score(fetch, None, prompt, tuple(token.id for token in tokens), 5)
            assert len(rows) == min(MOST_STEPS, len(tokens))
            assert (rows[0].index, rows[-1].index) == (0, len(tokens) - 1)
            for row in rows:
                assert row.token.id == tokens[row.index].id
                assert len(row.token.top) == 5
                if tokens[row.index].logprob is not None:
                    gaps.append(abs(row.token.logprob - tokens[row.index].logprob))
        return gaps

    gaps = with_engine(llama, use)
    assert len(gaps) >= 15
    assert max(gaps) < 1e-4
    print(f"decode against scoring: {max(gaps):.2e} nats at most over {len(gaps)} positions")


def test_a_token_nobody_would_choose_has_its_value_too(llama):
    async def use(fetch):
        (prompt,) = await LLAMA.prompt_ids(fetch, CHAT, {"messages": FRANCE})
        (row,) = await LLAMA.score(fetch, None, prompt, (35906,), 3)
        assert row.token.id not in {one.id for one in row.token.top}
        assert -40 < row.token.logprob < row.token.top[-1].logprob

    with_engine(llama, use)


def events(answer):
    reader = SseReader()
    found = reader.feed(answer.body) + reader.finish()
    return [json.loads(event.data) for event in found if event.data != b"[DONE]"]


def settled(value):
    """What two answers to one request share; values move by a few 1e-6 between a cold and a warm prompt."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, list):
        return [settled(item) for item in value]
    if isinstance(value, dict):
        hidden = (
            {"id", "created", "timings", "prompt_tokens_details"} if "id" not in value or "object" in value else set()
        )
        return {key: settled(item) for key, item in value.items() if key not in hidden}
    return value


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (CHAT, {"messages": FRANCE}),
        (CHAT, {"messages": FRANCE, "stream": True}),
        (CHAT, {"messages": PARTY, "stream": True, "stream_options": {"include_usage": True}}),
        (CHAT, {"messages": FRANCE, "stream": True, "stop": ["toiled", "la Mar"]}),
        (CHAT, {"messages": FRANCE, "logprobs": True, "top_logprobs": 2}),
        (CHAT, {"messages": FRANCE, "logprobs": True, "stream": True}),
        (COMPLETIONS, {"prompt": "Once upon"}),
        (COMPLETIONS, {"prompt": "Once upon", "logprobs": 2}),
        (COMPLETIONS, {"prompt": "Once upon", "stream": True}),
        (COMPLETIONS, {"prompt": ["Once upon", "a"], "stream": True}),
    ],
)
def test_an_injected_reply_stripped_is_the_clients_own(llama, endpoint, body):
    async def use(fetch):
        client = {"temperature": 0, "max_tokens": 12, **body}
        plain = await fetch(Call(PATHS[endpoint], client))
        enlarged = await fetch(Call(PATHS[endpoint], LLAMA.inject(endpoint, client, 20)))
        assert plain.status == enlarged.status == 200
        parse = events if body.get("stream") else (lambda answer: [json.loads(answer.body)])
        stripped = [LLAMA.strip(endpoint, client, event) if event else event for event in parse(enlarged)]
        assert settled([event for event in stripped if event is not None]) == settled(
            [event for event in parse(plain) if event is not None]
        )

    with_engine(llama, use)


def test_it_is_recognised_and_probed(llama):
    async def use(fetch):
        assert await detect(fetch) == "llama_cpp"
        return await probe(fetch, LLAMA), await probe(fetch, LLAMA)

    found, again = with_engine(llama, use)
    seen = found.capabilities
    assert found.findings == ()
    assert (seen.token_ids, seen.rows_per_token, seen.stream_same, seen.forced) == (True, True, True, True)
    assert (seen.top_logprobs, seen.logprob_mode, seen.logits_step, seen.context_length) == (20, "raw", "fp32", 2048)
    assert seen.self_noise < 1e-4
    assert found.footprint.id == again.footprint.id
    assert found.footprint.value("quantization") == "Q4_1"
    assert (found.defaults.temperature, found.defaults.top_k) == (0.8, 40)


def test_responses_and_messages_say_what_a_chat_says(llama):
    agree(replies(llama, LLAMA))
