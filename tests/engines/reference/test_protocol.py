"""Request bodies: what is understood, and what is refused with which words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.reference import prompts, protocol
from engines.reference.refusal import RefusalError, decode
from engines.reference.sampling import Sampling

BOUNDS = protocol.Bounds(
    max_logprobs=50, vocabulary=100, max_model_len=200, defaults=Sampling(temperature=0.6, top_k=20)
)
CHAT = {"messages": [{"role": "user", "content": "Hello"}]}


def chat(**fields):
    return protocol.generation({**CHAT, **fields}, BOUNDS, chat=True, longest=10)


def completion(**fields):
    return protocol.generation({"prompt": "a", **fields}, BOUNDS, chat=False, longest=10)


def refusal(call, *arguments, **fields):
    with pytest.raises(RefusalError) as caught:
        call(*arguments, **fields)
    return caught.value


def outcome(read, body):
    """What reading gives: a value, or the refusal."""
    try:
        return read(body)
    except RefusalError as refused:
        return refused


def test_a_silent_request_gets_the_models_own_sampling():
    wanted = chat()
    assert (wanted.sampling, wanted.max_tokens, wanted.n, wanted.top) == (
        Sampling(temperature=0.6, top_k=20),
        190,
        1,
        None,
    )


def test_null_means_not_given():
    fields = (
        "temperature",
        "top_p",
        "stop",
        "n",
        "seed",
        "logprobs",
        "max_tokens",
        "stream_options",
        "logit_bias",
        "response_format",
        "tools",
    )
    assert chat(**dict.fromkeys(fields)) == chat()


def test_completions_default_to_sixteen_tokens_and_may_ask_for_none():
    assert (completion().max_tokens, completion(max_tokens=0).max_tokens) == (16, 0)


def test_max_completion_tokens_wins_in_chat():
    assert chat(max_tokens=5, max_completion_tokens=7).max_tokens == 7


@pytest.mark.parametrize(
    ("fields", "top", "prompt_top"),
    [
        ({"logprobs": 5}, 5, None),
        ({"logprobs": 0}, 0, None),
        ({"logprobs": True}, 1, None),
        ({"logprobs": False}, None, None),
        ({"logprobs": 3, "echo": True}, 3, 3),
        ({"echo": True}, None, None),
        ({"prompt_logprobs": 7}, None, 7),
    ],
)
def test_alternatives_of_completions(fields, top, prompt_top):
    assert (completion(**fields).top, completion(**fields).prompt_top) == (top, prompt_top)


def test_alternatives_of_chat():
    assert chat(logprobs=True).top == 0
    assert chat(logprobs=True, top_logprobs=50).top == 50
    assert chat(top_logprobs=None).top is None


def test_endings():
    wanted = chat(
        stop="###",
        stop_token_ids=[7],
        ignore_eos=True,
        min_tokens=3,
        include_stop_str_in_output=True,
        skip_special_tokens=False,
    )
    assert (wanted.stop, wanted.stop_ids, wanted.ignore_end, wanted.min_tokens) == (("###",), frozenset({7}), True, 3)
    assert (wanted.include_stop, wanted.skip_special) == (True, False)
    assert chat(stop=["a", "b"]).stop == ("a", "b")


def test_bias_keys_are_token_ids():
    assert chat(logit_bias={"7": -100}).sampling.bias == ((7, -100.0),)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"max_tokens": "abc"}, "max_tokens", "Expected `int | null`, got `str`"),
        ({"max_tokens": -5}, "max_tokens", "max_tokens must be at least 1, got -5."),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_tokens": 191}, "max_tokens", "room for 190"),
        ({"temperature": -1}, "temperature", "at least 0"),
        ({"top_p": 0}, "top_p", "above 0"),
        ({"n": 0}, "n", "between 1 and 128"),
        ({"n": 10**9}, "n", "between 1 and 128"),
        ({"logprobs": True, "top_logprobs": 51}, "top_logprobs", "outside 0 .. 50"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs", "top_logprobs=100 is outside"),
        ({"logprobs": True, "top_logprobs": -2}, "top_logprobs", "outside"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "token ids"),
        ({"logit_bias": {"100": 1}}, "logit_bias", "out of vocabulary"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1", "at most 100"),
        ({"stop": [""]}, "stop", "empty"),
        ({"stop_token_ids": [100]}, "stop_token_ids", "out of vocabulary"),
        ({"response_format": {"type": "json_object"}}, "response_format", "unconstrained"),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs", "not supported"),
        ({"tool_choice": "required"}, "tool_choice", "forces no call"),
        ({"tool_choice": {"type": "function"}}, "tool_choice", "forces no call"),
        ({"best_of": 3}, "best_of", "not supported"),
    ],
)
def test_what_is_refused(fields, param, words):
    error = refusal(chat, **fields)
    assert (error.status, error.body["error"]["param"], error.body["error"]["code"]) == (400, param, 400)
    assert words in error.body["error"]["message"]


def test_an_over_long_prompt_is_refused():
    error = refusal(protocol.generation, CHAT, BOUNDS, chat=True, longest=201)
    assert "maximum context length is 200 tokens, and the prompt alone has 201" in str(error)


def test_a_full_context_can_be_scored_and_not_continued():
    assert protocol.generation({"prompt": "a", "max_tokens": 0}, BOUNDS, chat=False, longest=200).max_tokens == 0
    assert refusal(protocol.generation, {"prompt": "a", "max_tokens": 1}, BOUNDS, chat=False, longest=200).status == 400


def test_an_unknown_model_is_404_and_no_model_is_fine():
    assert protocol.model_of({}, "served") is None
    assert protocol.model_of({"model": "served"}, "served") is None
    error = refusal(protocol.model_of, {"model": "other"}, "served")
    assert (error.status, error.body["error"]["type"], error.body["error"]["param"]) == (404, "NotFoundError", "model")


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff", b'"a"', b"[" * 100_000])
def test_a_body_that_is_no_json_object(body):
    assert refusal(decode, body, "application/json").body["error"]["param"] == "body"


def test_another_content_type_is_refused():
    assert "application/json" in str(refusal(decode, b"{}", "text/plain"))


@given(st.binary(max_size=60))
def test_any_body_is_an_object_or_a_refusal(body):
    result = outcome(lambda body: decode(body, "application/json"), body)
    assert isinstance(result, dict) or result.status == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
)
NAMES = [
    "prompt",
    "messages",
    "n",
    "logprobs",
    "stop",
    "max_tokens",
    "temperature",
    "stream",
    "seed",
    "tools",
    "logit_bias",
    "tokens",
    "echo",
]


@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5))
def test_any_object_is_read_or_refused(body):
    for read in (
        prompts.chat,
        lambda body: prompts.text(body, 100),
        lambda body: prompts.ids(body, 100),
        lambda body: protocol.shown(body, chat=True),
        lambda body: protocol.generation(body, BOUNDS, chat=False, longest=1),
    ):
        result = outcome(read, body)
        if isinstance(result, RefusalError):
            assert json.dumps(result.body)


@pytest.mark.parametrize(
    ("body", "in_chat", "param"),
    [
        ({"top_logprobs": 5}, True, "top_logprobs"),
        ({"logprobs": 5}, True, "logprobs"),
        ({"stream": True, "prompt_logprobs": 1}, False, "prompt_logprobs"),
        ({"stream_options": {"include_usage": True}}, True, "stream_options"),
    ],
)
def test_combinations_that_vllm_refuses_too(body, in_chat, param):
    assert refusal(protocol.shown, body, chat=in_chat).body["error"]["param"] == param


def test_what_is_shown():
    body = {
        "stream": True,
        "stream_options": {"include_usage": True},
        "logprobs": 0,
        "echo": True,
        "return_token_ids": True,
    }
    shown = protocol.shown(body, chat=False)
    assert (shown.rows, shown.stream, shown.usage, shown.echo, shown.ids, shown.tokens_as_ids) == (
        True,
        True,
        True,
        True,
        True,
        False,
    )


def test_every_tokens_value_at_some_places():
    ids, asked = protocol.whole({"tokens": [4, 5, 6, 7], "start": 2}, BOUNDS)
    assert (ids, asked.whole_from, asked.max_tokens, asked.top, asked.prompt_top) == ((4, 5, 6, 7), 2, 0, None, None)
    assert protocol.whole({"tokens": [4, 5]}, BOUNDS)[1].whole_from == 1
    for body, param in (
        ({"tokens": [4]}, "tokens"),
        ({"tokens": [4, 100]}, "tokens"),
        ({"tokens": [4, 5], "start": 0}, "start"),
        ({}, "tokens"),
    ):
        assert refusal(protocol.whole, body, BOUNDS).body["error"]["param"] == param


def test_no_more_places_than_fit_into_memory(monkeypatch):
    monkeypatch.setattr(protocol, "MAX_WHOLE", 3)
    assert protocol.whole({"tokens": [1] * 9}, BOUNDS)[1].whole_from == 6
    assert "at most 3 positions a request, these are 4" in str(
        refusal(protocol.whole, {"tokens": [1] * 9, "start": 5}, BOUNDS)
    )
