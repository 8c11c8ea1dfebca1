"""TGI: what it would refuse or misread is left out of a shadow's copy; its lists, its tokenizing routes."""

import asyncio

import pytest

from engines.dialect import DialectError, Endpoint
from engines.tgi import DIALECT
from tests.engines.accents import TGI, answer

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS


@pytest.mark.parametrize(
    ("client", "asked"),
    [
        ({"presence_penalty": 0.0}, {}),  # it would be a repetition penalty of 2
        ({"presence_penalty": 0.5}, {"presence_penalty": 0.5}),
        ({"temperature": 0.7, "top_p": 1.0}, {"temperature": 0.7}),  # 1.0 is out of its range
        ({"temperature": 0.7, "top_p": 0.9}, {"temperature": 0.7, "top_p": 0.9}),
        ({"temperature": 0, "top_p": 0.9}, {"temperature": 0}),
        ({"stop": "\n"}, {"stop": ["\n"]}),
        ({"stop": ["\n"]}, {"stop": ["\n"]}),
        ({"logit_bias": {}, "n": 1}, {}),
        ({"logit_bias": {"5": 1}, "n": 2}, {"logit_bias": {"5": 1}, "n": 2}),
        ({"max_completion_tokens": 9}, {"max_tokens": 9}),
    ],
)
def test_the_shadows_copy(client, asked):
    assert DIALECT.ask(CHAT, client, 5) == {**asked, "logprobs": True, "top_logprobs": 5}
    assert DIALECT.ask(COMPLETIONS, client, 5) == asked


def test_as_many_alternatives_as_it_was_found_to_give():
    client = {"logprobs": True, "top_logprobs": 20}  # of another engine's client
    assert [DIALECT.ask(CHAT, client, top)["top_logprobs"] for top in (0, 5, 20)] == [2, 5, 20]
    assert (
        DIALECT.inject(CHAT, {}, 20)["top_logprobs"] == 5
    )  # on the live path a refusal would cost the client a second try


def test_the_live_path_keeps_the_clients_words():
    client = {"presence_penalty": 0.0, "top_p": 1.0, "stop": "\n"}
    assert DIALECT.inject(CHAT, client, 5) == {**client, "logprobs": True, "top_logprobs": 5}


def test_more_alternatives_than_asked_for_are_kept():
    whole = TGI.whole()
    tied = [{"token": text, "logprob": -2.0} for text in "abcdef"]
    whole["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = tied
    seen = DIALECT.read(CHAT, {"top_logprobs": 5}, answer(whole)).choices[0]
    assert [one.text for one in seen.tokens[0].top] == list("abcdef")


def test_a_list_decoded_without_blanks_names_the_chosen_token_only():
    whole = TGI.whole()
    for row in whole["choices"][0]["logprobs"]["content"]:
        for one in row["top_logprobs"]:
            one["token"] = one["token"].strip()
    seen = DIALECT.read(CHAT, {}, answer(whole)).choices[0]
    assert [[one.text for one in token.top] for token in seen.tokens[1:3]] == [[" sea", None], [" is", None]]


@pytest.mark.parametrize(("reason", "wanted"), [("stop_sequence", "stop"), ("eos_token", "stop"), ("length", "length")])
def test_its_words_for_the_end(reason, wanted):
    whole = TGI.whole()
    whole["choices"][0]["finish_reason"] = reason
    assert DIALECT.read(CHAT, {}, answer(whole)).choices[0].finish_reason == wanted


def test_one_call_by_itself_in_an_event():
    call = {"index": 0, "id": "", "type": "function", "function": {"name": "find", "arguments": '{"a":1}'}}
    head = b'data: {"choices":[{"index":0,"finish_reason":"stop","delta":{"role":"assistant","tool_calls":'
    import json

    seen = DIALECT.read(CHAT, {}, answer(head + json.dumps(call).encode() + b"}}]}\n\ndata: [DONE]\n\n"))
    assert [(one.name, one.arguments) for one in seen.choices[0].tool_calls] == [("find", '{"a":1}')]


def row(known, start, stop):
    return {"id": known, "text": "x" * (stop - start), "start": start, "stop": stop}


ROWS = [row(1, 0, 0), row(504, 0, 3), row(3575, 3, 7), row(2, 0, 0)]


def test_prompts_as_ids(scripted):
    fetch = scripted(
        {"/chat_tokenize": {"templated_text": "...", "tokenize_response": ROWS}, "/tokenize": lambda _: ROWS}
    )
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "stream": True}
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, body)) == ((1, 504, 3575, 2),)
    assert fetch.calls[0].body == {"messages": body["messages"]}
    assert asyncio.run(DIALECT.prompt_ids(fetch, COMPLETIONS, {"prompt": ["The sea", "x"]})) == ((1, 504, 3575, 2),) * 2
    assert [call.body for call in fetch.calls[1:]] == [{"inputs": "The sea"}, {"inputs": "x"}]


def test_visible_text_as_ids_without_the_special_tokens(scripted):
    fetch = scripted({"/tokenize": lambda _: ROWS})
    assert asyncio.run(DIALECT.tokenize(fetch, "The sea", "m")) == (504, 3575)


@pytest.mark.parametrize(
    ("endpoint", "body", "reason"),
    [
        (COMPLETIONS, {"prompt": [1, 2]}, "prompt_shape"),
        (COMPLETIONS, {"prompt": "x"}, "unexpected_reply"),
        (CHAT, {"messages": []}, "status_404"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "multimodal"),
    ],
)
def test_prompts_that_cannot_be_told(scripted, endpoint, body, reason):
    with pytest.raises(DialectError) as error:
        asyncio.run(DIALECT.prompt_ids(scripted({"/tokenize": {"tokens": [1]}}), endpoint, body))
    assert error.value.reason == reason


def test_it_scores_nothing():
    assert DIALECT.score is None
    assert DIALECT.detokenize is None
    assert any("decoder_input_details" in note for note in DIALECT.notes)
