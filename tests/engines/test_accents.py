"""Every engine that was read from its documents: its whole replies and its streams give the same tokens, however the bytes come; and what was added is taken away."""

import copy
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.dialect import Answer, Endpoint
from engines.registry import dialect
from tests.engines import accents
from tests.engines.accents import ALL, TEXT, TOKENS, answer

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
INJECTED = [accent for accent in ALL if dialect(accent.name).inject is not None]
STREAMS = {**{accent.name: accent.stream() for accent in ALL}, "together": accents.together_stream()}
WHOLES = {**{accent.name: accent.whole() for accent in ALL}, "together": accents.together_whole()}
WITH_IDS = {"fireworks", "together"}
BODIES = [
    (CHAT, {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}),
    (CHAT, {"model": "m", "messages": [], "stream": True, "max_completion_tokens": 9, "presence_penalty": 0.0}),
    (CHAT, {"model": "m", "messages": [], "logprobs": True, "top_logprobs": 20, "stop": "\n", "logit_bias": {}}),
    (COMPLETIONS, {"model": "m", "prompt": "Hi", "logprobs": 3, "top_p": 1.0, "temperature": 0}),
    (Endpoint.OTHER, {"model": "m", "input": "Hi"}),
]


def read(name, body, request=None):
    return dialect(name).read(CHAT, request or {}, answer(copy.deepcopy(body)))


@pytest.mark.parametrize("name", sorted(WHOLES))
@pytest.mark.parametrize("kind", ["whole", "stream"])
def test_the_tokens_are_read(name, kind):
    seen = read(name, WHOLES[name] if kind == "whole" else STREAMS[name])
    (choice,) = seen.choices
    assert (seen.error, seen.prompt_tokens, seen.completion_tokens) == (None, accents.PROMPT, len(TOKENS))
    assert (choice.text, choice.finish_reason, choice.count, choice.rows_missing) == (TEXT, "stop", len(TOKENS), False)
    assert [(token.text, token.logprob) for token in choice.tokens] == [(said.text, said.logprob) for said in TOKENS]
    assert [token.id for token in choice.tokens] == [said.id if name in WITH_IDS else None for said in TOKENS]
    if (name, kind) != ("together", "stream"):
        listed = [sorted((one.text, one.logprob) for one in token.top) for token in choice.tokens]
        assert listed == [sorted(said.top) for said in TOKENS]


@pytest.mark.parametrize("name", sorted(STREAMS))
@settings(max_examples=25, deadline=None)
@given(draw=st.data())
def test_any_split_of_a_stream_gives_the_same_reply(name, draw):
    body = STREAMS[name]
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    edges = [0, *cuts, len(body)]
    pieces = tuple((at, body[start:end]) for at, (start, end) in enumerate(pairwise(edges)))
    assert dialect(name).read(CHAT, {}, Answer(200, (), pieces)) == dialect(name).read(
        CHAT, {}, Answer(200, (), ((0, body),))
    )


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_byte_by_byte_and_without_the_last_word(name):
    body = STREAMS[name].replace(b"data: [DONE]\n\n", b"")
    single = tuple((at, body[at : at + 1]) for at in range(len(body)))
    assert dialect(name).read(CHAT, {}, Answer(200, (), single)) == read(name, STREAMS[name])


@pytest.mark.parametrize("name", sorted(STREAMS))
@settings(max_examples=25, deadline=None)
@given(draw=st.data())
def test_a_stream_that_breaks_off_says_so(name, draw):
    body = STREAMS[name]
    last = body.rindex(b'"finish_reason": "') + len('"finish_reason": "')
    at = draw.draw(st.integers(0, last))
    seen = dialect(name).read(CHAT, {}, answer(body[:at]))
    assert seen.error in ("cut", "no_choices")
    assert all(TEXT.startswith(choice.text) for choice in seen.choices)


@pytest.mark.parametrize("name", sorted(STREAMS))
@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"error": {"message": "no", "type": "t", "param": None, "code": None}}, "status_400"),
        (422, {"error": "Input validation error", "error_type": "validation"}, "status_422"),
        (
            400,
            {"object": "error", "message": "no", "type": "BadRequestError", "param": None, "code": 400},
            "status_400",
        ),
        (422, {"detail": [{"loc": ["body"]}]}, "status_422"),
        (200, {"error": "no such model"}, "error_in_body"),
        (200, {"object": "error", "message": "no", "code": 500}, "error_in_body"),
        (200, b'data: {"error": "overloaded", "error_type": "overloaded"}\n\n', "stream_error"),
        (200, b'data: {"error": {"code": 502, "message": "gone"}, "choices": []}\n\ndata: [DONE]\n\n', "stream_error"),
        (200, b"event: error\ndata: gone\n\n", "stream_error"),
    ],
)
def test_every_shape_of_an_error(name, status, body, error):
    assert dialect(name).read(CHAT, {}, answer(body, status=status)).error == error


@pytest.mark.parametrize("value", [-9999.0, -3.4028234663852886e38, None, float("nan"), float("-inf")])
@pytest.mark.parametrize("name", ["ollama", "tgi", "tensorrt_llm", "fireworks", "openrouter"])
def test_a_sentinel_is_no_value(name, value):
    whole = copy.deepcopy(WHOLES[name])
    row = whole["choices"][0]["logprobs"]["content"][1]
    row["logprob"] = row["top_logprobs"][1]["logprob"] = value
    (choice,) = read(name, whole).choices
    assert (choice.tokens[1].logprob, len(choice.tokens[1].top), choice.rows_missing) == (None, 1, False)


@pytest.mark.parametrize("name", [*sorted(STREAMS), "transformers"])
@pytest.mark.parametrize(("endpoint", "body"), BODIES)
def test_asking_changes_a_copy(name, endpoint, body):
    before = copy.deepcopy(body)
    asked = dialect(name).ask(endpoint, body, 20)
    assert body == before
    assert asked is not body
    most = dialect(name).max_top_logprobs
    if most and endpoint is not Endpoint.OTHER:
        numbers = [value for key in ("logprobs", "top_logprobs") if type(value := asked.get(key)) is int]
        assert all(value <= most for value in numbers)
    assert json.loads(json.dumps(asked)) == asked


@pytest.mark.parametrize("accent", INJECTED, ids=lambda accent: accent.name)
@pytest.mark.parametrize("client", [{}, {"stream": True}])
def test_what_was_injected_is_taken_away(accent, client):
    speak = dialect(accent.name)
    injected = speak.inject(CHAT, {"model": "m", **client}, 5)
    assert {key: injected[key] for key in injected if key not in client} == {
        "model": "m",
        "logprobs": True,
        "top_logprobs": 5,
    }
    assert speak.strip(CHAT, client, accent.whole()) == accent.whole(logprobs=False)
    stripped = [speak.strip(CHAT, client, event) for event in accent.events(usage=False)]
    assert stripped == accent.events(logprobs=False, usage=False)


@pytest.mark.parametrize("accent", INJECTED, ids=lambda accent: accent.name)
def test_what_the_client_asked_for_stays(accent):
    speak, client = dialect(accent.name), {"logprobs": True, "top_logprobs": 2}
    assert speak.inject(CHAT, client, 5) == client
    assert speak.strip(CHAT, client, accent.whole()) == accent.whole()
    one = speak.strip(CHAT, {"logprobs": True, "top_logprobs": 1}, accent.whole())
    assert [len(row["top_logprobs"]) for row in one["choices"][0]["logprobs"]["content"]] == [1] * len(TOKENS)


@pytest.mark.parametrize("name", ["ollama", "tgi", "tensorrt_llm"])
def test_nothing_is_injected_where_nothing_comes_back(name):
    body = {"model": "m", "prompt": "Hi", "max_tokens": 3}
    assert dialect(name).inject(COMPLETIONS, body, 5) == body
    assert "logprobs" not in dialect(name).ask(COMPLETIONS, body, 5)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(STREAMS)), body=st.binary(max_size=200))
def test_any_bytes_are_read(name, body):
    seen = dialect(name).read(CHAT, {}, Answer(200, (("content-type", "text/event-stream"),), ((0, b"data: " + body),)))
    assert seen.error is not None
