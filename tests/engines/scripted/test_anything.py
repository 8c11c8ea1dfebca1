"""Whatever a client sends, every route of every dialect answers: a reply, a stream, or a refusal in the engine's own shape."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.scripted.engine import Stream
from engines.scripted.routes import served
from engines.scripted.script import Script
from engines.scripted.wire import framed, written
from engines.scripted.writers.registry import NAMES, writer
from tests.engines.scripted.playing import engine

PLAYED = engine(Script())
FIELDS = [
    "messages",
    "prompt",
    "input",
    "query",
    "documents",
    "text_1",
    "text_2",
    "inputs",
    "content",
    "tokens",
    "input_ids",
    "text",
    "model",
    "max_tokens",
    "n",
    "stop",
    "stream",
    "stream_options",
    "logprobs",
    "top_logprobs",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "logit_bias",
    "tools",
    "tool_choice",
    "echo",
    "prompt_logprobs",
    "return_token_ids",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "sampling_params",
    "parameters",
    "options",
    "n_predict",
    "n_probs",
    "max_new_tokens",
    "max_output_tokens",
    "instructions",
    "system",
    "stop_sequences",
    "dimensions",
    "encoding_format",
    "top_n",
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "continue_final_message",
    "add_generation_prompt",
    "verbose",
    "return_tokens",
    "with_pieces",
]
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 400),
    st.floats(-2, 3),
    st.sampled_from(["", "x", "the people", "🎉", "toy", 1e308, -1e308, (1 << 63) - 1, 1 << 63, -(1 << 63)]),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "name", "function", "7", "include_usage"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)
SMALL = {"max_tokens": 2, "max_output_tokens": 2, "n_predict": 2, "max_completion_tokens": 2, "model": "toy"}
GOOD = {
    "messages": [{"role": "user", "content": "x"}],
    "prompt": "x",
    "inputs": "x",
    "input": "x",
    "text": "x",
    "content": "x",
    "sampling_params": {"max_new_tokens": 2},
    "parameters": {"max_new_tokens": 2},
    "options": {"num_predict": 2},
}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
def test_no_body_makes_a_route_raise(name: str, body: dict[str, Any]) -> None:
    by = writer(name)
    for route in by.routes:
        method, _, path = route.partition(" ")
        if method != "POST":
            continue
        got = served(PLAYED, by, method, path, {}, orjson.dumps(SMALL | GOOD | body))
        if isinstance(got, Stream):
            # A limit that the body takes away is the context's.
            for _, event in zip(range(5), got.events, strict=False):
                framed(by, got, event)
        else:
            assert written(got)[0]
            assert got.status in (200, 400, 401, 404, 405, 422), got


@pytest.mark.parametrize("name", NAMES)
@given(body=st.binary(max_size=40))
def test_no_bytes_make_a_route_raise(name: str, body: bytes) -> None:
    for path in ("/v1/chat/completions", "/nowhere"):
        assert served(PLAYED, writer(name), "POST", path, {}, body).status in (400, 404, 422)  # type: ignore[union-attr]
