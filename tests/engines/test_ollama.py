"""Ollama: channels told from the texts, the end token's missing row, events that are there for their rows alone."""

import copy

import pytest

from engines.canary import values_mode
from engines.dialect import Endpoint
from engines.ollama import DIALECT
from proxy.compare.align import countable
from proxy.compare.token_stream import Channel
from tests.engines.accents import OLLAMA, TEXT, TOKENS, answer

CHAT = Endpoint.CHAT


def read(value):
    return DIALECT.read(CHAT, {}, answer(value))


def row(text, logprob=-0.5, **listed):
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), **listed}


def event(rows, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": {"content": rows}}]}


def test_what_it_is_asked():
    asked = DIALECT.ask(CHAT, {"max_completion_tokens": 7, "top_logprobs": 50, "logprobs": True, "stream": True}, 5)
    assert asked == {
        "max_tokens": 7,
        "logprobs": True,
        "top_logprobs": 20,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert DIALECT.ask(Endpoint.COMPLETIONS, {"prompt": "x", "logprobs": 2}, 5) == {"prompt": "x", "logprobs": 2}
    assert DIALECT.defaults.temperature == DIALECT.defaults.top_p == 1.0


def stream_of(*events):
    import json

    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events) + b"data: [DONE]\n\n"


def test_rows_of_a_step_that_ends_the_thinking_belong_to_both_channels():
    last = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "length"}]}
    seen = read(
        stream_of(
            event([row("So")], content="", reasoning="So"),
            event([row("</think>"), row("Yes")], content="", reasoning=""),  # both rows on the first of two events
            event([], content="Yes"),
            event([row(".")], content="."),
            {**last, "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
        )
    )
    (choice,) = seen.choices
    assert (choice.reasoning, choice.text) == ("So", "Yes.")
    assert [token.text for token in choice.tokens] == ["So", "</think>", "Yes", "."]
    channels = [token.channel for token in choice.tokens]
    assert (channels[0], channels[2:]) == (Channel.REASONING, [Channel.CONTENT, Channel.CONTENT])


def counted(extra, *, finish="stop", text=TEXT, change=None):
    whole = copy.deepcopy(OLLAMA.whole())
    whole["usage"]["completion_tokens"] += extra
    whole["choices"][0]["finish_reason"] = finish
    whole["choices"][0]["message"]["content"] = text
    if change:
        change(whole["choices"][0])
    return read(whole).choices[0]


def test_the_end_token_without_a_row_is_counted_out():
    seen = counted(1)
    assert (seen.count, seen.rows_missing, countable(seen)) == (len(TOKENS), False, True)


def test_so_is_the_token_that_held_the_stop_string_of_which_the_text_shows_the_rest():
    seen = counted(1, text=TEXT + " ")
    assert (seen.count, seen.rows_missing, countable(seen)) == (len(TOKENS), False, True)
    assert seen.text == TEXT + " "


@pytest.mark.parametrize(
    "how",
    [
        {"extra": 2},
        {"extra": 1, "finish": "length"},
        {"extra": 1, "text": "!" + TEXT},
        {"extra": 1, "change": lambda choice: choice["message"].update(reasoning="hm")},
    ],
)
def test_any_other_missing_row_is_missing(how):
    seen = counted(**how)
    assert seen.rows_missing
    assert not countable(seen)


@pytest.mark.parametrize(("listed", "known"), [([row("é")], True), ([row("\ufffd")], False), ([], False)])
def test_a_row_that_may_stand_for_several_tokens_leaves_the_count_open(listed, known):
    def change(choice):
        choice["message"]["content"] = "é"
        choice["logprobs"]["content"] = [row("é", top_logprobs=listed)]

    whole = copy.deepcopy(OLLAMA.whole())
    change(whole["choices"][0])
    whole["usage"]["completion_tokens"] = 2
    assert countable(read(whole).choices[0]) is known


def test_a_prompt_of_no_tokens_is_not_known():
    whole = OLLAMA.whole()
    whole["usage"]["prompt_tokens"] = 0
    assert read(whole).prompt_tokens is None


def test_an_event_for_rows_alone_is_dropped_unless_it_was_asked_for():
    held = event([row("<|")], role="assistant", content="")
    assert DIALECT.strip(CHAT, {}, copy.deepcopy(held)) is None
    assert DIALECT.strip(CHAT, {"logprobs": True, "top_logprobs": 2}, copy.deepcopy(held)) == held
    shown = event([row("a")], content="a")
    assert DIALECT.strip(CHAT, {}, shown)["choices"] == [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]


def test_a_row_without_alternatives_has_no_list():
    stripped = DIALECT.strip(CHAT, {"logprobs": True}, OLLAMA.whole())
    assert all("top_logprobs" not in one for one in stripped["choices"][0]["logprobs"]["content"])


def test_probabilities_that_pass_for_logprobs_are_seen_at_the_start():
    whole = copy.deepcopy(OLLAMA.whole())
    for one in whole["choices"][0]["logprobs"][
        "content"
    ]:  # what llama.cpp's ``prob`` becomes, copied without a logarithm
        one["logprob"] = one["top_logprobs"][0]["logprob"] = 0.75
        one["top_logprobs"][1]["logprob"] = 0.125
    assert values_mode(read(whole).choices[0].tokens) == "logits"
