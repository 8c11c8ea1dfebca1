"""What numbers give away: the logits' format, values that are no logprobs, raw or processed."""

import asyncio
import math
import random

import pytest

from engines.canary import chat_template_hash, displaced, logits_step, scaled, tokenizer_hash, values_mode
from engines.registry import dialect
from proxy.compare.token_stream import Alternative, Token


def tokens_of(recorded, folder, name):
    case = recorded(folder, name)
    return dialect(case.dialect).read(case.endpoint, case.request, case.answer).choices[0].tokens


@pytest.mark.parametrize(
    ("folder", "name", "step"),
    [
        ("vllm-cpu-bf16", "chat_logprobs", "bf16"),
        ("vllm-cpu-bf16", "chat_multibyte_logprobs", "bf16"),
        ("vllm-cpu-bf16", "completions_logprobs", "bf16"),
        ("vllm-cpu-bf16", "tie_3way_completions_token_ids", "bf16"),
        ("vllm-cpu-fp32", "chat_logprobs", "fp32"),
        ("llama.cpp-q4_1", "chat_logprobs", "fp32"),
        ("llama.cpp-f32", "chat_logprobs", "fp32"),
        ("vllm-cpu-bf16", "chat_logprobs_no_top", None),
    ],
)
def test_the_logits_format_of_recorded_engines(recorded, folder, name, step):
    assert logits_step(tokens_of(recorded, folder, name)) == step


def test_fp16_logits():
    generator = random.Random(0)
    rows = []
    for _ in range(10):
        logits = sorted((round(generator.uniform(10, 20) * 64) / 64 for _ in range(5)), reverse=True)
        total = math.log(sum(math.exp(value) for value in logits) * 1.3)
        rows.append(Token("", top=tuple(Alternative(value - total) for value in logits)))
    assert logits_step(tuple(rows)) == "fp16"


def test_values_that_are_no_logprobs():
    def token(logprob, *tops):
        return Token("", logprob=logprob, top=tuple(Alternative(value) for value in tops))

    assert values_mode((token(-0.5, -0.5, -1.0),)) is None
    assert values_mode((token(17.5, 17.5, 16.0),)) == "logits"
    assert values_mode((token(-0.1, -0.1, -0.2),)) == "logits"  # more than one in all
    assert values_mode((token(0.0), token(0.0))) == "renormalised"
    assert values_mode((token(None),)) is None


def test_a_list_that_holds_its_tokens_twice_is_none_of_logits():
    rows = [Alternative(-0.1, id=5), Alternative(-2.4, id=6)]
    assert values_mode((Token("", logprob=-0.1, top=(*rows, *rows)),)) is None
    other = [Alternative(-0.1, id=7), Alternative(-2.4, id=8)]
    assert values_mode((Token("", logprob=-0.1, top=(*rows, *other)),)) == "logits"


def test_raw_and_processed():
    def row(*values):
        return Token("", top=tuple(Alternative(value, id=at) for at, value in enumerate(values)))

    assert scaled(row(-0.5, -1.5, -2.5), row(-0.5, -1.5, -2.5)) == "raw"
    assert scaled(row(-0.5, -1.5, -2.5), row(-0.1, -2.1, -4.1)) == "processed"
    assert scaled(row(-0.5, -0.55), row(-0.5, -0.55)) is None
    assert scaled(row(), row()) is None


def test_hashes_are_of_behaviour(scripted):
    speak = dialect("vllm")

    def hashes(routes):
        fetch = scripted(routes)
        return asyncio.run(tokenizer_hash(fetch, speak, "m")), asyncio.run(chat_template_hash(fetch, speak, "m"))

    def render(body, extra=0):
        if any(message["role"] == "system" for message in body.get("messages", ())) and extra == 2:
            return {"error": "no system role"}
        return {"tokens": [extra, len(str(body))]}

    one = hashes({"/tokenize": render})
    assert one == hashes({"/tokenize": render})
    assert one[1] != hashes({"/tokenize": lambda body: render(body, 1)})[1]
    assert all(hashes({"/tokenize": lambda body: render(body, 2)}))  # a template without a system role still has a hash
    assert hashes({}) == (None, None)
    assert asyncio.run(tokenizer_hash(scripted({}), dialect("openai"), "m")) is None


def rows(*values: float | None) -> tuple[Token, ...]:
    return tuple(Token("x", logprob=value) for value in values)


@pytest.mark.parametrize(
    ("stream", "shifted"),
    [
        (rows(-0.1, -1.0, -0.2, -2.0, -0.4, -0.1), False),
        (rows(-0.15, -1.02, -0.2, -1.95, -0.45, -0.1), False),  # another run of the same engine
        (rows(-0.1, -0.1, -1.0, -0.2, -2.0, -0.4), True),
        (rows(-1.0, -0.2, -2.0, -0.4, -0.1, -0.3), True),
        (rows(-0.1, -0.1, -1.0, -0.2, -2.0, -3.0), False),  # one fits neither its own row nor its neighbour's
        (rows(-0.1, None, -1.0, -0.2, -2.0, -0.4), False),
        (rows(-0.1, -0.1, -1.0, -0.2, -2.0), False),  # too few to say
    ],
)
def test_values_of_the_neighbouring_token_are_seen(stream: tuple[Token, ...], shifted: bool) -> None:
    assert displaced(rows(-0.1, -1.0, -0.2, -2.0, -0.4, -0.1), stream) is shifted


def test_equal_values_throughout_are_not_displaced() -> None:
    assert not displaced(rows(*[-0.5] * 8), rows(*[-0.5] * 8))
