"""Replies and chunks from events, without any model."""

import pytest

from engines.reference.logprobs import Ranked, Row
from engines.reference.protocol import Shown
from engines.reference.replies import Chunks, Reply, whole
from engines.reference.tokens import TokenTable
from engines.reference.work import PromptRead, Step

TABLE = TokenTable((b"He", b"llo", b" \xf0\x9f", b"\x8e\x89", b"<end>"), frozenset({4}))
ROW = Row(Ranked(1, -0.5, 2), (Ranked(0, -0.25, 1), Ranked(1, -0.5, 2)))
END = Row(Ranked(4, -0.125, 1), ())


def reply(*, chat, n=1, prompts=((0, 1),), **shown):
    return Reply(
        id="x-1",
        created=9,
        model="m",
        fingerprint="f",
        chat=chat,
        n=n,
        prompts=prompts,
        shown=Shown(**shown),
        table=TABLE,
    )


EVENTS = [
    PromptRead(0, None),
    Step(0, 1, ROW, "llo", 0),
    Step(0, 2, Row(Ranked(2, -1.0, 1)), " ", 3),
    Step(0, 4, END, "", 4, "stop"),
]


def test_a_chat_reply_has_a_row_for_every_token_and_the_end():
    body = whole(reply(chat=True, rows=True, ids=True), EVENTS)
    choice = body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"], choice["token_ids"]) == ("llo ", "stop", [1, 2, 4])
    assert [row["token"] for row in choice["logprobs"]["content"]] == ["llo", "bytes:\\x20\\xf0\\x9f", "<end>"]
    assert choice["logprobs"]["content"][1]["bytes"] == [0x20, 0xF0, 0x9F]
    assert choice["logprobs"]["content"][0]["top_logprobs"] == [
        {"token": "He", "logprob": -0.25, "bytes": [72, 101]},
        {"token": "llo", "logprob": -0.5, "bytes": [108, 108, 111]},
    ]
    assert (body["prompt_token_ids"], body["object"]) == ([0, 1], "chat.completion")
    assert body["usage"] == {"prompt_tokens": 2, "total_tokens": 5, "completion_tokens": 3}


def test_nothing_is_shown_that_was_not_asked_for():
    body = whole(reply(chat=True), EVENTS)
    assert (
        body["choices"][0]["logprobs"],
        body["choices"][0]["token_ids"],
        body["prompt_token_ids"],
        body["prompt_logprobs"],
    ) == (None,) * 4


def test_labels_can_be_ids_and_bytes_stay_the_tokens_own():
    row = whole(reply(chat=True, rows=True, tokens_as_ids=True), EVENTS)["choices"][0]["logprobs"]["content"][0]
    assert (row["token"], row["bytes"], row["top_logprobs"][0]["token"]) == (
        "token_id:1",
        [108, 108, 111],
        "token_id:0",
    )


def test_a_completion_has_four_parallel_lists():
    rows = whole(reply(chat=False, rows=True), EVENTS)["choices"][0]["logprobs"]
    assert rows == {
        "text_offset": [0, 3, 4],
        "token_logprobs": [-0.5, -1.0, -0.125],
        "tokens": ["llo", "bytes:\\x20\\xf0\\x9f", "<end>"],
        "top_logprobs": [{"llo": -0.5, "He": -0.25}, {"bytes:\\x20\\xf0\\x9f": -1.0}, {"<end>": -0.125}],
    }


def test_an_echoed_prompt_comes_first_and_its_first_row_is_null():
    events = [PromptRead(0, (None, ROW)), *EVENTS[1:]]
    choice = whole(reply(chat=False, rows=True, echo=True), events)["choices"][0]
    assert choice["text"] == "Hello" + "llo "
    assert choice["logprobs"]["text_offset"] == [0, 2, 5, 8, 9]
    assert choice["logprobs"]["token_logprobs"][:2] == [None, -0.5]
    assert choice["logprobs"]["top_logprobs"][0] is None
    assert choice["prompt_logprobs"] == [
        None,
        {
            "1": {"logprob": -0.5, "rank": 2, "decoded_token": "llo"},
            "0": {"logprob": -0.25, "rank": 1, "decoded_token": "He"},
        },
    ]


def test_scoring_alone_ends_by_length_with_no_token():
    body = whole(reply(chat=False, echo=True, rows=True), [PromptRead(0, (None, ROW)), Step(0, None, finish="length")])
    assert (body["choices"][0]["text"], body["choices"][0]["finish_reason"], body["usage"]["completion_tokens"]) == (
        "Hello",
        "length",
        0,
    )
    assert body["choices"][0]["logprobs"]["tokens"] == ["He", "llo"]


def test_choices_of_several_prompts_are_numbered_prompt_by_prompt():
    events = [PromptRead(0, None), Step(0, 0, None, "He", 0, "length"), Step(1, 1, None, "llo", 0, "length")]
    events += [PromptRead(1, None), Step(2, 1, None, "llo", 0, "length"), Step(3, 0, None, "He", 0, "length")]
    body = whole(reply(chat=False, n=2, prompts=((0,), (1,))), events)
    assert [(choice["index"], choice["text"]) for choice in body["choices"]] == [
        (0, "He"),
        (1, "llo"),
        (2, "llo"),
        (3, "He"),
    ]
    assert body["usage"]["prompt_tokens"] == 2


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("echo", [True, False])
def test_a_stream_says_what_the_whole_reply_says(chat, echo):
    events = [PromptRead(0, (None, ROW)), *EVENTS[1:]]
    shape = reply(chat=chat, rows=True, ids=True, usage=True, echo=echo and not chat)
    chunks = Chunks(shape)
    streamed = [chunk for event in events for chunk in chunks.push(event)]
    ending = chunks.end()
    expected = whole(shape, events)
    choice = expected["choices"][0]
    parts = [chunk["choices"][0] for chunk in streamed]
    if chat:
        assert "".join(part["delta"]["content"] for part in parts) == choice["message"]["content"]
        assert parts[0]["delta"] == {"role": "assistant", "content": ""}
        assert [row for part in parts for row in (part["logprobs"] or {"content": []})["content"]] == choice[
            "logprobs"
        ]["content"]
        assert streamed[0]["prompt_token_ids"] == [0, 1]
    else:
        assert "".join(part["text"] for part in parts) == choice["text"]
        for name, values in choice["logprobs"].items():
            assert [value for part in parts if part["logprobs"] for value in part["logprobs"][name]] == values
        assert parts[0]["prompt_token_ids"] == [0, 1]
    assert [token for part in parts for token in part.get("token_ids") or []] == [1, 2, 4]
    assert [part["finish_reason"] for part in parts if part["finish_reason"]] == ["stop"]
    assert (ending[0]["choices"], ending[0]["usage"]) == ([], expected["usage"])


def test_no_usage_chunk_unless_asked_for():
    assert Chunks(reply(chat=True)).end() == []
