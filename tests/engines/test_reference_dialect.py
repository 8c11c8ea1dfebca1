"""The reference engine's dialect against a served toy of its HTTP shapes, and against the engine's own reply writer."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from engines.dialect import Answer, Call, Endpoint
from engines.http_fetch import connect
from engines.probe import probe
from engines.reference.logprobs import Ranked, Row
from engines.reference.protocol import Shown
from engines.reference.replies import Reply, whole
from engines.reference.tokens import TokenTable
from engines.reference.work import PromptRead, Step
from engines.registry import detect, dialect
from tests.toy import Server, Toy

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
PATHS = {CHAT: "/v1/chat/completions", COMPLETIONS: "/v1/completions"}
OURS = dialect("reference")
HELLO = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12, "temperature": 0}


@asynccontextmanager
async def served(toy):
    runner = web.AppRunner(Server(toy).application())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with connect(f"http://127.0.0.1:{runner.addresses[0][1]}") as fetch:
            yield fetch
    finally:
        await runner.cleanup()


def with_toy(use, **settings):
    async def main():
        async with served(Toy(**settings)) as fetch:
            return await use(fetch)

    return asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("endpoint", "body"), [(CHAT, HELLO), (COMPLETIONS, {"prompt": "Hello", "temperature": 0, "max_tokens": 9})]
)
def test_asked_read_and_scored(endpoint, body, stream):
    async def use(fetch):
        client = {**body, "stream": stream}
        shaped = OURS.ask(endpoint, client, 20)
        reply = OURS.read(endpoint, shaped, await fetch(Call(PATHS[endpoint], shaped)))
        (choice,) = reply.choices
        (prompt,) = await OURS.prompt_ids(fetch, endpoint, client)
        assert (reply.error, reply.prompt_tokens, choice.prompt_ids) == (None, len(prompt), prompt)
        assert (choice.has_ids, choice.rows_missing, choice.count) == (True, False, body["max_tokens"])
        assert [len(token.top) for token in choice.tokens] == [20] * choice.count
        ids = tuple(token.id for token in choice.tokens)
        rows = await OURS.score(fetch, "toy", prompt, ids, 20)
        assert [row.token.logprob for row in rows] == [token.logprob for token in choice.tokens]
        assert [[one.id for one in row.token.top] for row in rows] != [[]] * choice.count

    with_toy(use)


def test_recognised_and_probed():
    async def use(fetch):
        return await detect(fetch), await probe(fetch, OURS)

    name, found = with_toy(use, temperature=0.7)
    assert (name, found.findings) == ("reference", ())
    assert (found.capabilities.forced, found.capabilities.top_logprobs, found.capabilities.logprob_mode) == (
        True,
        20,
        "raw",
    )
    assert (found.capabilities.self_noise, found.capabilities.stream_same) == (0.0, True)
    assert (found.defaults.temperature, found.footprint.value("dtype")) == (0.7, "fp32")


def test_a_coarse_grid_is_seen():
    async def use(fetch):
        return (await probe(fetch, OURS)).capabilities.logits_step

    assert with_toy(use, step=0.125) == "bf16"
    assert with_toy(use) == "fp32"


TABLE = TokenTable((b"He", b"llo", b" \xf0\x9f", b"\x8e\x89", b"<end>"), frozenset({4}))
EVENTS = [
    PromptRead(0, None),
    Step(0, 1, Row(Ranked(1, -0.5, 2), (Ranked(0, -0.25, 1), Ranked(1, -0.5, 2))), "llo", 0),
    Step(0, 2, Row(Ranked(2, -1.0, 1), (Ranked(2, -1.0, 1), Ranked(3, -2.0, 2))), " ", 3),
    Step(0, 3, Row(Ranked(3, -0.75, 1)), "🎉", 4),
    Step(0, 4, Row(Ranked(4, -0.125, 1), ()), "", 5, "stop"),
]


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("labels", [True, False])
def test_what_the_engine_writes_is_read(chat, labels):
    shown = Shown(rows=True, ids=True, tokens_as_ids=labels)
    made = Reply(
        id="x", created=9, model="m", fingerprint="f", chat=chat, n=1, prompts=((0, 1),), shown=shown, table=TABLE
    )
    body = json.dumps(whole(made, EVENTS)).encode()
    seen = OURS.read(
        CHAT if chat else COMPLETIONS, {}, Answer(200, (("content-type", "application/json"),), ((0, body),))
    )
    (choice,) = seen.choices
    assert [token.id for token in choice.tokens] == [1, 2, 3, 4]
    assert [token.logprob for token in choice.tokens] == [-0.5, -1.0, -0.75, -0.125]
    assert (choice.rows_missing, choice.prompt_ids, choice.finish_reason) == (False, (0, 1), "stop")
    if chat or not labels:  # a label in completions tells nothing of the bytes
        assert choice.tokens[1].data == b" \xf0\x9f"
        assert choice.tokens[1].text == ""
    if labels:
        assert [one.id for one in choice.tokens[0].top] == [0, 1]
