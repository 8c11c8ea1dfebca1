"""What the baseline adds to a request: only more, never less, never in place."""

import copy

import pytest

from engines.dialect import Endpoint
from engines.openai import DIALECT, asked_alternatives
from engines.registry import dialect

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS


@pytest.mark.parametrize(
    ("endpoint", "client", "top", "added"),
    [
        (CHAT, {}, 20, {"logprobs": True, "top_logprobs": 20}),
        (CHAT, {}, 1, {"logprobs": True, "top_logprobs": 2}),
        (CHAT, {}, 0, {"logprobs": True, "top_logprobs": 0}),
        (CHAT, {"logprobs": False}, 5, {"logprobs": True, "top_logprobs": 5}),
        (CHAT, {"logprobs": True, "top_logprobs": 3}, 20, {"logprobs": True, "top_logprobs": 20}),
        (CHAT, {"logprobs": True, "top_logprobs": 50}, 20, {"logprobs": True, "top_logprobs": 50}),
        (COMPLETIONS, {}, 20, {"logprobs": 5}),
        (COMPLETIONS, {"logprobs": 7}, 20, {"logprobs": 7}),
        (COMPLETIONS, {"logprobs": True}, 3, {"logprobs": 3}),
        (Endpoint.OTHER, {}, 3, {}),
        (CHAT, {"stream": True}, 2, {"logprobs": True, "top_logprobs": 2, "stream_options": {"include_usage": True}}),
        (
            CHAT,
            {"stream": True, "stream_options": {"x": 1}},
            2,
            {"logprobs": True, "top_logprobs": 2, "stream_options": {"x": 1, "include_usage": True}},
        ),
    ],
)
def test_ask_widens_a_copy(endpoint, client, top, added):
    body = {"model": "m", "n": 2, **client}
    before = copy.deepcopy(body)
    assert DIALECT.ask(endpoint, body, top) == {**before, **added}
    assert body == before


def test_inject_leaves_streams_and_asked_completions_alone():
    assert "stream_options" not in DIALECT.inject(CHAT, {"stream": True}, 5)
    assert DIALECT.inject(COMPLETIONS, {"logprobs": 2}, 5) == {"logprobs": 2}
    assert DIALECT.inject(CHAT, {"logprobs": True, "top_logprobs": 2}, 20)["top_logprobs"] == 2
    assert DIALECT.inject(CHAT, {"logprobs": True, "top_logprobs": 1}, 20)["top_logprobs"] == 20


@pytest.mark.parametrize("name", ["openai", "vllm", "llama_cpp"])
@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (CHAT, {"top_logprobs": 3}),
        (CHAT, {"logprobs": False, "top_logprobs": 0}),
        (CHAT, {"logprobs": 1}),
        (CHAT, {"logprobs": "true"}),
        (CHAT, {"logprobs": True, "top_logprobs": -1}),
        (CHAT, {"logprobs": True, "top_logprobs": "2"}),
        (CHAT, {"logprobs": True, "top_logprobs": True}),
        (COMPLETIONS, {"logprobs": True}),
        (COMPLETIONS, {"logprobs": False}),
        (COMPLETIONS, {"logprobs": -1}),
        (COMPLETIONS, {"echo": True}),
    ],
)
def test_inject_leaves_alone_what_an_engine_would_answer_otherwise(name, endpoint, body):
    inject = dialect(name).inject
    assert inject is not None
    assert inject(endpoint, body, 20) == body


@pytest.mark.parametrize(
    ("endpoint", "body", "wanted"),
    [
        (CHAT, {}, None),
        (CHAT, {"logprobs": True}, 0),
        (CHAT, {"logprobs": True, "top_logprobs": 4}, 4),
        (CHAT, {"top_logprobs": 4}, None),
        (COMPLETIONS, {"logprobs": 0}, 0),
        (COMPLETIONS, {"logprobs": True}, 1),
        (COMPLETIONS, {"logprobs": False}, None),
        (COMPLETIONS, {"logprobs": None}, None),
    ],
)
def test_what_the_client_asked_for(endpoint, body, wanted):
    assert asked_alternatives(endpoint, body) == wanted
