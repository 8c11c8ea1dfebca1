"""Together's integer, Fireworks' ids and echo, and what none of them is asked."""

import asyncio
import json

import pytest

from engines.dialect import DialectError, Endpoint
from engines.hosted import FIREWORKS, OPENROUTER, TOGETHER
from engines.probe import probe
from proxy.compare.align import countable
from tests.engines import accents
from tests.engines.accents import TOKENS, answer

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS


@pytest.mark.parametrize(
    ("client", "asked"),
    [
        ({}, {"logprobs": 5}),
        ({"logprobs": True, "top_logprobs": 8}, {"logprobs": 8}),
        ({"logprobs": 12}, {"logprobs": 12}),
        ({"logprobs": 99}, {"logprobs": 20}),
        ({"stream": True, "stream_options": {"include_usage": True}}, {"logprobs": 5}),
        ({"temperature": 0, "top_p": 0.7}, {"temperature": 0, "top_p": 1, "logprobs": 5}),
        ({"temperature": 0.5, "top_p": 0.7}, {"temperature": 0.5, "top_p": 0.7, "logprobs": 5}),
    ],
)
def test_together_takes_a_number_and_is_asked_whole(client, asked):
    assert TOGETHER.ask(CHAT, client, 5) == {**asked, "stream": False}
    assert TOGETHER.ask(CHAT, {}, 0)["logprobs"] == 2


def test_together_values_that_are_all_zero_are_no_values():
    whole = accents.together_whole()
    arrays = whole["choices"][0]["logprobs"]
    arrays["token_logprobs"] = [0.0] * len(TOKENS)
    (choice,) = TOGETHER.read(CHAT, {"top_p": 0.9}, answer(whole)).choices
    assert [token.logprob for token in choice.tokens] == [None] * len(TOKENS)
    assert (choice.has_ids, choice.has_logprobs, countable(choice)) == (True, False, True)
    arrays["token_logprobs"][1] = -0.5
    assert TOGETHER.read(CHAT, {}, answer(whole)).choices[0].tokens[0].logprob == 0.0


def test_together_streams_are_read_where_a_client_asked_for_one():
    (choice,) = TOGETHER.read(CHAT, {"stream": True}, answer(accents.together_stream())).choices
    assert [token.id for token in choice.tokens] == [said.id for said in TOKENS]
    assert choice.has_logprobs


def test_fireworks_is_asked_for_ids():
    asked = FIREWORKS.ask(COMPLETIONS, {"prompt": "x", "logprobs": 3, "stream": True}, 20)
    assert asked == {
        "prompt": "x",
        "logprobs": True,
        "top_logprobs": 5,
        "stream": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True},
    }


def test_fireworks_ids_of_alternatives():
    (choice,) = FIREWORKS.read(CHAT, {}, answer(accents.FIREWORKS.whole())).choices
    assert choice.tokens[0].top[1].id == 7


class Fireworks:
    """Plays the two questions: a reply with the prompt's ids, and an echo with values."""

    def __init__(self, *, extra=1, other=False):
        self.extra, self.other = extra, other

    def chat(self, body):
        assert (body["max_tokens"], body["return_token_ids"], "stream" in body) == (1, True, False)
        return {**accents.FIREWORKS.whole(), "prompt_token_ids": [1, 2, 3]}

    def completions(self, body):
        if isinstance(body["prompt"], str):
            return {"choices": [{"index": 0, "text": "", "prompt_token_ids": [4, 5]}]}
        ids = body["prompt"][-body["echo_last"] :] + [99] * self.extra
        known = {said.id: said for said in TOKENS}
        rows = [
            accents.FIREWORKS.row(known[one]) if one in known else {"token": "?", "logprob": -9.0, "token_id": one}
            for one in ids
        ]
        if self.other:
            rows[0]["token_id"] += 1
        return {"choices": [{"index": 0, "text": "", "logprobs": {"content": rows}}]}

    def fetch(self, scripted):
        return scripted({"/v1/chat/completions": self.chat, "/v1/completions": self.completions})


def test_fireworks_renders_by_answering_with_one_token(scripted):
    fetch = Fireworks().fetch(scripted)
    body = {"messages": [], "stream": True, "max_completion_tokens": 50, "n": 2}
    assert asyncio.run(FIREWORKS.prompt_ids(fetch, CHAT, body)) == ((1, 2, 3),)
    assert asyncio.run(FIREWORKS.prompt_ids(fetch, COMPLETIONS, {"prompt": "x"})) == ((4, 5),)


@pytest.mark.parametrize("extra", [0, 1])
def test_fireworks_scores_by_echo(scripted, extra):
    ids = tuple(said.id for said in TOKENS)
    fetch = Fireworks(extra=extra).fetch(scripted)
    scored = asyncio.run(FIREWORKS.score(fetch, "m", (1, 2, 3), ids, 20))
    assert [(one.index, one.token.id, one.token.logprob) for one in scored] == [
        (at, said.id, said.logprob) for at, said in enumerate(TOKENS)
    ]
    assert fetch.calls[0].body["top_logprobs"] == 5


@pytest.mark.parametrize(
    ("played", "reason"), [(Fireworks(extra=2), "no_prompt_logprobs"), (Fireworks(other=True), "scored_other_tokens")]
)
def test_fireworks_echoes_something_else(scripted, played, reason):
    with pytest.raises(DialectError) as error:
        asyncio.run(FIREWORKS.score(played.fetch(scripted), "m", (1,), (TOKENS[0].id, TOKENS[1].id), 5))
    assert error.value.reason == reason


def test_nothing_is_injected_into_what_was_never_seen_live():
    assert TOGETHER.inject is FIREWORKS.inject is OPENROUTER.inject is None


def test_a_list_of_models_by_itself_and_the_fingerprint_of_a_reply(scripted):
    whole = {**accents.OPENROUTER.whole(), "system_fingerprint": "fp_1"}
    fetch = scripted({"/v1/models": lambda _: [{"id": "v/m"}], "/v1/chat/completions": lambda _: whole})
    found = asyncio.run(probe(fetch, OPENROUTER))
    assert (found.model, found.footprint.value("config_hash")) == ("v/m", "fp_1")
    assert not any(call.path.startswith(("/version", "/info")) for call in fetch.calls)
    assert json.dumps(found.footprint.as_json())
