"""TensorRT-LLM: what it is asked, the blanks its rows lose, a salt where it knows the field."""

import pytest

from engines.dialect import Endpoint
from engines.tensorrt_llm import DIALECT
from tests.engines.accents import TENSORRT_LLM, TEXT, answer

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS


def test_what_it_is_asked():
    assert DIALECT.ask(CHAT, {"top_k": -1, "temperature": 0.5}, 20) == {
        "temperature": 0.5,
        "logprobs": True,
        "top_logprobs": 20,
    }
    assert DIALECT.ask(COMPLETIONS, {"prompt": "x", "top_k": 40, "temperature": 0.5, "stream": True}, 5) == {
        "prompt": "x",
        "top_k": 40,
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_salt_where_the_route_has_the_field():
    assert DIALECT.cache_salt({"messages": []}, "s") == {"messages": [], "cache_salt": "s"}
    assert DIALECT.cache_salt({"prompt": "x"}, "s") == {"prompt": "x"}


def test_rows_decoded_one_by_one_get_their_blanks_back():
    whole = TENSORRT_LLM.whole()
    for row in whole["choices"][0]["logprobs"]["content"]:
        for one in (row, *row["top_logprobs"]):
            one["token"] = one["token"].strip()
            one["bytes"] = list(one["token"].encode())
    (choice,) = DIALECT.read(CHAT, {}, answer(whole)).choices
    assert [token.text for token in choice.tokens] == ["The", " sea", " is", " blue"]
    assert b"".join(token.data for token in choice.tokens) == TEXT.encode()
    assert [one.text for one in choice.tokens[3].top] == [None, " blue"]


def test_parts_of_a_character_have_no_bytes_of_their_own():
    whole = TENSORRT_LLM.whole()
    row = whole["choices"][0]["logprobs"]["content"][0]
    row["token"], row["bytes"] = "\ufffd", list("\ufffd".encode())
    (choice,) = DIALECT.read(CHAT, {}, answer(whole)).choices
    assert choice.tokens[0].data is None


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_both_names_of_the_reasoning(name):
    whole = TENSORRT_LLM.whole()
    whole["choices"][0]["message"] |= {
        "reasoning": None,
        "reasoning_content": None,
        name: "The sea",
        "content": " is blue",
    }
    (choice,) = DIALECT.read(CHAT, {}, answer(whole)).choices
    assert (choice.reasoning, choice.text) == ("The sea", " is blue")
    assert [token.channel.value for token in choice.tokens] == ["reasoning", "reasoning", "content", "content"]


def test_rows_without_alternatives_are_as_they_would_have_been():
    client = {"logprobs": True}
    whole = DIALECT.strip(CHAT, client, TENSORRT_LLM.whole())
    assert all(row["top_logprobs"] is None for row in whole["choices"][0]["logprobs"]["content"])
    event = DIALECT.strip(CHAT, client, TENSORRT_LLM.events()[1])
    assert all("top_logprobs" not in row for row in event["choices"][0]["logprobs"]["content"])
