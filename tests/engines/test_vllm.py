"""vLLM: what is asked, how prompts are rendered, how given tokens are scored (on recorded replies)."""

import asyncio
import json

import pytest

from engines.dialect import DialectError, Endpoint
from engines.vllm import DIALECT, ask, cache_salt, inject

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS


def test_rivals_by_id_unless_the_client_wants_texts():
    assert ask(CHAT, {}, 20) == {
        "logprobs": True,
        "top_logprobs": 20,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }
    assert "return_tokens_as_token_ids" not in ask(CHAT, {"logprobs": True}, 20)
    assert ask(COMPLETIONS, {}, 20)["logprobs"] == 20
    assert ask(CHAT, {"logprobs": True, "return_tokens_as_token_ids": True}, 2)["return_tokens_as_token_ids"] is True


def test_a_stream_stays_a_stream_and_inject_asks_for_no_usage():
    body = {"stream": True}
    assert ask(CHAT, body, 2)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in inject(CHAT, body, 2)
    assert inject(COMPLETIONS, {"logprobs": 2}, 20) == {"logprobs": 2, "return_token_ids": True}
    assert inject(CHAT, {"return_token_ids": 1}, 20) == {"return_token_ids": 1}  # vLLM takes it for true
    assert body == {"stream": True}


def test_a_token_without_a_delta_is_the_clients_where_it_asked_for_logprobs():
    def event():
        row = {"token": "", "logprob": -0.5, "bytes": [], "top_logprobs": []}
        choice = {"index": 0, "delta": {}, "logprobs": {"content": [row]}, "finish_reason": None, "token_ids": [7]}
        return {"id": "c", "choices": [choice]}

    body = {"model": "m", "messages": [], "stream": True}
    assert DIALECT.strip(CHAT, body, event()) is None
    kept = DIALECT.strip(CHAT, {**body, "logprobs": True, "top_logprobs": 3}, event())
    assert kept["choices"][0]["logprobs"] == event()["choices"][0]["logprobs"]
    assert kept["choices"][0]["token_ids"] is None
    without = event()
    without["choices"][0]["logprobs"] = None
    assert DIALECT.strip(CHAT, {**body, "logprobs": True, "top_logprobs": 3}, without) is None


def test_cache_salt():
    assert cache_salt({"model": "m"}, "x") == {"model": "m", "cache_salt": "x"}


def test_chat_prompts_are_rendered_by_the_engine(scripted):
    fetch = scripted({"/tokenize": {"tokens": [1, 2, 3]}})
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{}],
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0,
        "user": "x",
    }
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, body)) == ((1, 2, 3),)
    assert fetch.calls[0].body == {key: body[key] for key in ("model", "messages", "tools", "chat_template_kwargs")}


def test_completions_prompts_of_every_shape(scripted):
    fetch = scripted({"/tokenize": lambda body: {"tokens": [len(body["prompt"])]}})

    def rendered(prompt):
        return asyncio.run(DIALECT.prompt_ids(fetch, COMPLETIONS, {"prompt": prompt}))

    assert rendered("abc") == ((3,),)
    assert rendered(["a", "bc"]) == ((1,), (2,))
    assert rendered([7, 8]) == ((7, 8),)
    assert rendered([[7], [8, 9]]) == ((7,), (8, 9))
    for wrong in (None, 5, [None], {"x": 1}, [[1.5]]):
        with pytest.raises(DialectError, match="prompt_shape"):
            rendered(wrong)


def test_pictures_are_not_rendered(scripted):
    body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}
    with pytest.raises(DialectError, match="multimodal"):
        asyncio.run(DIALECT.prompt_ids(scripted({}), CHAT, body))


def test_scoring_reads_the_rows_after_the_prompt(recorded, scripted):
    reply = json.loads(recorded("vllm-cpu-bf16", "completions_prompt_logprobs").answer.body)
    fetch = scripted({"/v1/completions": reply})
    rows = asyncio.run(DIALECT.score(fetch, "m", (504, 3575, 282, 4649, 314), (7042, 30), 2))
    assert fetch.calls[0].body["prompt"] == [504, 3575, 282, 4649, 314, 7042, 30]
    assert fetch.calls[0].body["prompt_logprobs"] == 2
    assert fetch.calls[0].body["max_tokens"] == 1
    assert [(row.index, row.token.id, row.token.text) for row in rows] == [(0, 7042, " Paris"), (1, 30, ".")]
    assert rows[0].token.logprob == pytest.approx(-0.2534148693)
    assert [one.id for one in rows[1].token.top] == [30, 28]


def test_scored_token_beyond_the_asked_alternatives_is_listed_last(recorded, scripted):
    reply = json.loads(recorded("vllm-cpu-bf16", "completions_prompt_logprobs").answer.body)
    rows = asyncio.run(
        DIALECT.score(scripted({"/v1/completions": reply}), None, (504,), (3575, 282, 4649, 314, 7042, 30), 2)
    )
    assert [one.id for one in rows[0].token.top] == [29, 28, 3575]
    assert rows[0].token.logprob == pytest.approx(-11.5946311951)


def test_the_first_token_of_all_has_no_row(recorded, scripted):
    reply = json.loads(recorded("vllm-cpu-bf16", "completions_prompt_logprobs").answer.body)
    ids = (504, 3575, 282, 4649, 314, 7042, 30)
    rows = asyncio.run(DIALECT.score(scripted({"/v1/completions": reply}), "m", (), ids, 2))
    assert [row.index for row in rows] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"choices": [{"prompt_logprobs": None}]}, "no_prompt_logprobs"),
        ({"choices": []}, "no_prompt_logprobs"),
        ({"choices": [{"prompt_logprobs": [None, {"9": {"logprob": -1}}]}]}, "scored_other_tokens"),
    ],
)
def test_replies_that_score_something_else_are_refused(scripted, reply, reason):
    with pytest.raises(DialectError, match=reason):
        asyncio.run(DIALECT.score(scripted({"/v1/completions": reply}), "m", (1,), (2,), 2))


def test_tokenize_and_back(scripted):
    fetch = scripted({"/tokenize": {"tokens": [4]}, "/detokenize": {"prompt": "x"}})
    assert asyncio.run(DIALECT.tokenize(fetch, "x", "m")) == (4,)
    assert fetch.calls[0].body == {"prompt": "x", "add_special_tokens": False, "model": "m"}
    assert asyncio.run(DIALECT.detokenize(fetch, (4,), None)) == "x"
    assert fetch.calls[1].body == {"tokens": [4]}
