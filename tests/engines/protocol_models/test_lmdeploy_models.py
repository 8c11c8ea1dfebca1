"""LMDeploy's own models and checks accept what its dialect sends, nothing of it ignored, and what they dump is read as what was put in."""

import asyncio
import json

import pytest

from engines.canary import question, values_mode
from engines.dialect import Answer, Endpoint
from engines.lmdeploy import DIALECT
from engines.registry import detect
from proxy.compare.token_stream import Alternative, Channel
from proxy.judge.request import asked
from proxy.judge.shape import shadow_body

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
MODELS = {CHAT: "ChatCompletionRequest", COMPLETIONS: "CompletionRequest"}
USER = [{"role": "user", "content": "hi"}]
VOCABULARY = {4: "</think>", 5: "The", 6: "Ġsea", 7: "ðŁ", 8: "ĮĬ", 9: "Ġocean", 10: "A"}
IDS = [5, 6, 7, 8]
#: What the PyTorch engine hands over: the chosen token first, then the most likely ones.
MAPS = [{5: -0.1, 10: -2.5}, {6: -0.7, 9: -0.6}, {7: -0.25, 10: -3.0}, {8: -0.5, 10: -4.0}]
USAGE = {"prompt_tokens": 3, "completion_tokens": 4}
TOKENS = [(5, "The", b"The", -0.1), (6, " sea", b" sea", -0.7), (7, "", b"\xf0\x9f", -0.25), (8, "", b"\x8c\x8a", -0.5)]


def answer(body, kind="application/json"):
    return Answer(200, (("content-type", kind),), ((9, body.encode()),))


def told(tokens):
    return [(token.id, token.text, token.data, token.logprob) for token in tokens]


BODIES = [
    (CHAT, {"messages": USER, "stream": True, "temperature": 0, "top_k": -1}),
    (CHAT, {"messages": USER, "temperature": 0.5, "top_k": -1, "min_p": 0.1, "n": 2, "frequency_penalty": None}),
    (COMPLETIONS, {"prompt": "The", "stream": True, "max_tokens": 4, "logprobs": 2, "temperature": 0.0}),
]


@pytest.mark.parametrize("engine", ["pytorch", "turbomind"])
@pytest.mark.parametrize(("endpoint", "body"), BODIES, ids=range(len(BODIES)))
def test_what_a_shadow_is_asked_is_understood(lmdeploy, endpoint, body, engine):
    sent = shadow_body(
        asked(endpoint, "/", {"model": "m", **body}), DIALECT, models={}, defaults=DIALECT.defaults, top_logprobs=20
    )
    seen = lmdeploy("accept", model=MODELS[endpoint], body=sent, engine=engine)
    assert (seen["ignored"], seen["refused"]) == ([], "")
    assert seen["value"] == sent
    if endpoint is CHAT:
        assert (seen["value"]["return_token_ids"], seen["value"]["logprobs"], seen["value"]["top_logprobs"]) == (
            True,
            True,
            20,
        )


def test_what_is_injected_is_understood(lmdeploy):
    for body in ({"messages": USER}, {"messages": USER, "stream": True, "logprobs": True, "top_logprobs": 3}):
        seen = lmdeploy("accept", model=MODELS[CHAT], body=DIALECT.inject(CHAT, {"model": "m", **body}, 20))
        assert (seen["ignored"], seen["refused"]) == ([], "")


def test_logprobs_need_a_mode_and_ids_do_not(lmdeploy):
    canary = question(CHAT, "m")
    refused = lmdeploy("accept", model=MODELS[CHAT], body=DIALECT.ask(CHAT, canary, 5), mode=None)["refused"]
    assert "logprobs_mode" in refused
    assert lmdeploy("accept", model=MODELS[CHAT], body=DIALECT.ask(CHAT, canary, 0), mode=None)["refused"] == ""
    prompt = DIALECT.ask(COMPLETIONS, question(COMPLETIONS, "m"), 5)
    assert lmdeploy("accept", model=MODELS[COMPLETIONS], body=prompt, mode=None)["refused"] == ""


class Recording:
    """A fetch that keeps the calls and gives one answer."""

    def __init__(self, reply):
        self.calls, self.reply = [], reply

    async def __call__(self, call):
        self.calls.append(call)
        return answer(self.reply)


def test_scoring_is_understood_and_read(lmdeploy):
    fetch = Recording(lmdeploy("scores", ids=IDS[:2], maps=MAPS[:2], top=2))
    rows = asyncio.run(DIALECT.score(fetch, "m", (1, 2), (5, 6), 2))
    assert [(row.index, row.token.id, row.token.logprob) for row in rows] == [(0, 5, -0.1), (1, 6, -0.7)]
    assert rows[1].token.top == (Alternative(-0.6, 9), Alternative(-0.7, 6))
    seen = lmdeploy("accept", model="GenerateReqInput", body=fetch.calls[0].body)
    assert (seen["ignored"], seen["refused"], seen["value"]) == ([], "", fetch.calls[0].body)
    assert (
        "PyTorch"
        in lmdeploy("accept", model="GenerateReqInput", body=fetch.calls[0].body, engine="turbomind")["refused"]
    )


def test_prompts_are_rendered_by_requests_that_are_understood(lmdeploy):
    fetch = Recording(lmdeploy("dump", model="EncodeResponse", fields={"input_ids": [1, 2], "length": 2}))
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, {"messages": USER})) == ((1, 2),)
    assert asyncio.run(DIALECT.prompt_ids(fetch, COMPLETIONS, {"prompt": "The"})) == ((1, 2),)
    assert asyncio.run(DIALECT.tokenize(fetch, "The", "m")) == (1, 2)
    seen = [lmdeploy("accept", model="EncodeRequest", body=call.body) for call in fetch.calls]
    assert [one["ignored"] for one in seen] == [[], [], []]
    assert [one["value"] for one in seen] == [call.body for call in fetch.calls]


def test_a_whole_chat_is_read_as_what_was_put_in(lmdeploy):
    reply = lmdeploy(
        "chat",
        message={"content": "The sea\U0001f30a"},
        step={"ids": IDS, "maps": MAPS},
        vocabulary=VOCABULARY,
        usage=USAGE,
    )
    found = DIALECT.read(CHAT, DIALECT.ask(CHAT, {}, 2), answer(reply))
    choice = found.choices[0]
    assert told(choice.tokens) == TOKENS
    assert [token.top for token in choice.tokens[:2]] == [
        (Alternative(-0.1, 5, "The", b"The"), Alternative(-2.5, None, "A", b"A")),
        (Alternative(-0.6, None, " ocean", b" ocean"), Alternative(-0.7, 6, " sea", b" sea")),
    ]
    assert (found.error, found.prompt_tokens, choice.count, choice.rows_missing) == (None, 3, 4, False)


def test_pairs_of_a_client_that_wants_those(lmdeploy):
    step = {"ids": IDS, "maps": MAPS, "asked": ["return_logprob"]}
    reply = lmdeploy("chat", message={"content": "The sea\U0001f30a"}, step=step, vocabulary=VOCABULARY, usage=USAGE)
    tokens = DIALECT.read(CHAT, {"return_logprob": True}, answer(reply)).choices[0].tokens
    assert [(token.id, token.logprob) for token in tokens] == [(known, value) for known, _, _, value in TOKENS]


def test_turbomind_greedy_and_a_token_that_was_filtered_away(lmdeploy):
    step = {"ids": [5, 6], "maps": [{5: 0.0}, {6: 0.0}]}
    reply = lmdeploy(
        "chat",
        message={"content": "The sea"},
        step=step,
        vocabulary=VOCABULARY,
        usage={**USAGE, "completion_tokens": 2},
    )
    assert values_mode(DIALECT.read(CHAT, {}, answer(reply)).choices[0].tokens) == "renormalised"
    step = {"ids": [5, 6], "maps": [{5: -0.1, 10: -2.5}, {9: -0.7}]}  # rows at minus infinity are deleted
    reply = lmdeploy(
        "chat",
        message={"content": "The sea"},
        step=step,
        vocabulary=VOCABULARY,
        usage={**USAGE, "completion_tokens": 2},
    )
    choice = DIALECT.read(CHAT, {}, answer(reply)).choices[0]
    assert [(token.id, token.logprob) for token in choice.tokens] == [(5, -0.1), (6, None)]


def test_a_stream(lmdeploy):
    events = [
        {"delta": {"reasoning_content": "The"}, "step": {"ids": IDS[:1], "maps": MAPS[:1]}},
        {"delta": {"content": ""}, "step": {"ids": [4], "maps": [{4: -0.01}]}},  # a parser's marker
        {"delta": {"content": " sea"}},
        {"delta": {"content": "\U0001f30a"}, "step": {"ids": IDS[1:], "maps": MAPS[1:]}},
        {"delta": {"content": ""}, "finish_reason": "stop"},
    ]
    body = lmdeploy("chat_stream", events=events, vocabulary=VOCABULARY, usage={**USAGE, "completion_tokens": 5})
    whole = answer(body, "text/event-stream")
    found = DIALECT.read(CHAT, {"stream": True}, whole)
    choice = found.choices[0]
    assert told(choice.tokens) == [TOKENS[0], (4, "</think>", b"</think>", -0.01), *TOKENS[1:]]
    assert (choice.reasoning, choice.text, choice.rows_missing, found.error) == ("The", " sea\U0001f30a", False, None)
    assert choice.tokens[0].channel is Channel.REASONING
    data = body.encode()
    pieces = tuple((at, data[at : at + 1]) for at in range(len(data)))
    assert DIALECT.read(CHAT, {"stream": True}, Answer(200, whole.headers, pieces)) == found


def test_an_injected_reply_is_stripped_to_the_clients_own(lmdeploy):
    def settled(reply):
        return {name: value for name, value in reply.items() if name not in ("id", "created")}

    def whole(asked_for):
        step = {"ids": IDS, "maps": MAPS, "asked": asked_for}
        return json.loads(lmdeploy("chat", message={"content": "The"}, step=step, vocabulary=VOCABULARY, usage=USAGE))

    injected = whole(["logprobs", "return_token_ids"])
    assert settled(DIALECT.strip(CHAT, {}, injected)) == settled(whole([]))
    assert settled(DIALECT.strip(CHAT, {"logprobs": True}, whole(["logprobs", "return_token_ids"]))) == settled(
        whole(["logprobs"])
    )

    def stream(asked_for):
        step = {"ids": IDS[:1], "maps": MAPS[:1], "asked": asked_for}
        marker = [{"delta": {"content": ""}, "step": step}] if asked_for else []
        made = [
            {"delta": {"content": "The"}, "step": step},
            *marker,
            {"delta": {"content": ""}, "finish_reason": "stop"},
        ]
        body = lmdeploy("chat_stream", events=made, vocabulary=VOCABULARY, usage=USAGE)
        return [json.loads(line.removeprefix("data: ")) for line in body.split("\n\n")[:-2]]

    stripped = [DIALECT.strip(CHAT, {"stream": True}, event) for event in stream(["logprobs", "return_token_ids"])]
    assert [settled(event) for event in stripped if event is not None] == [settled(event) for event in stream([])]


def test_it_is_recognised_and_its_errors_are_labels(lmdeploy):
    cards = [{"id": "m", "root": "m"}]
    assert asyncio.run(detect(Recording(lmdeploy("dump", model="ModelList", fields={"data": cards})))) == "lmdeploy"
    flat = lmdeploy(
        "dump", model="ErrorResponse", fields={"message": "m", "type": "invalid_request_error", "code": 400}
    )
    assert DIALECT.read(CHAT, {}, answer(flat)).error == "error_in_body"
