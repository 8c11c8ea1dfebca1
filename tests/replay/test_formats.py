"""Whose line it is, and what is said of one that cannot be replayed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.replay.formats import read_line, read_reply
from proxy.replay.line import LineError, Replied

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
REPLY = {"choices": [{"message": {"content": "ho"}}]}
RECORD = {
    "outcome": "identical", "id": "r", "exchange": "e1", "time": 1700000000.5, "shadow": "s", "endpoint": "chat_completions", "conversation": "c0",
    "comparison": {"mode": "free"}, "content": {"request": orjson.dumps(CHAT).decode(), "primary": ["ho"], "shadow": ["ho"]},
}  # fmt: skip


def text(value: Any) -> bytes:
    return orjson.dumps(value)


@pytest.mark.parametrize(
    ("value", "path", "body"),
    [
        (CHAT, "/v1/chat/completions", CHAT),
        ({"prompt": "a"}, "/v1/completions", {"prompt": "a"}),
        ({"query": "q", "documents": ["d"]}, "/v1/rerank", {"query": "q", "documents": ["d"]}),
        ({"text_1": "a", "text_2": "b"}, "/v1/score", {"text_1": "a", "text_2": "b"}),
        ({"url": "/v1/embeddings", "body": {"input": "a"}}, "/v1/embeddings", {"input": "a"}),
        ({"path": "/openai/chat/completions?v=1", "body": CHAT}, "/openai/chat/completions", CHAT),
        ({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}, "/v1/chat/completions", CHAT),
        ({"request": CHAT}, "/v1/chat/completions", CHAT),
        ({"request": {"url": "/v1/completions", "body": {"prompt": "a"}}}, "/v1/completions", {"prompt": "a"}),
        (RECORD, "/v1/chat/completions", CHAT),
    ],
)  # fmt: skip
def test_a_line_of_each_kind(value: Any, path: str, body: Any) -> None:
    line = read_line(text(value), 7)
    assert (line.number, line.path, orjson.loads(line.body)) == (7, path, body)


def test_a_record_says_when_and_of_which_conversation() -> None:
    line = read_line(text(RECORD), 1)
    assert (line.time, line.conversation, line.exchange) == (1700000000.5, "c0", "e1")


def test_what_stands_beside_a_request() -> None:
    line = read_line(text({"request": CHAT, "time": "2026-01-31T12:00:00+00:00", "conversation": "k"}), 1)
    assert (line.time, line.conversation) == (1769860800.0, "k")
    assert read_line(text({"request": CHAT, "time": 5}), 1).time == 5.0


STREAM = 'data: {"choices":[]}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(
    ("response", "reply"),
    [
        (REPLY, Replied(text(REPLY), stream=False)),
        (STREAM, Replied(STREAM.encode(), stream=True)),
        (text(REPLY).decode(), Replied(text(REPLY), stream=False)),
        ({"status_code": 200, "request_id": "x", "body": REPLY}, Replied(text(REPLY), stream=False)),
        ({"status_code": 400, "body": {"error": {}}}, Replied(b'{"error":{}}', stream=False, status=400)),
        (None, None),
    ],
)
def test_a_recorded_reply(response: Any, reply: Replied | None) -> None:
    assert read_line(text({"request": CHAT, "response": response}), 1).reply == reply
    assert read_reply(text({"custom_id": "1", "response": response})) == ("1", reply)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (text({"model": "m"}), "neither messages nor prompt"),
        (
            text({"prompt_ids": [1], "response_ids": [2], "rollout_logprobs": [-1.0]}),
            "a rollout of reinforcement learning",
        ),
        (text({"input": "a"}), "/v1/embeddings and /v1/responses both have"),
        (text({"url": "http://elsewhere.invalid/v1/chat/completions", "body": CHAT}), "names a host"),
        (text({"url": "//elsewhere.invalid/v1/chat/completions", "body": CHAT}), "names a host"),
        (text({"url": "/v1/chat/completions\r\nhost: x", "body": CHAT}), "not a path"),
        (text({"url": "/v1/load_lora_adapter", "body": CHAT}), "no inference route"),
        (text({"url": "/v1/chat/completions", "method": "DELETE", "body": CHAT}), "other than POST"),
        (text({"custom_id": "1", "response": {}}), "a batch's output"),
        (text({"request": CHAT, "response": "well"}), "neither events nor JSON"),
        (text({"request": CHAT, "response": 5}), "neither an object nor text"),
        (text({"request": CHAT, "time": "yesterday"}), "no moment"),
        (text({"request": CHAT, "conversation": 5}), "conversation is not text"),
        (text(RECORD | {"content": None}), "records.content: none"),
        (text(RECORD | {"content": {"request": "5f" * 32, "primary": [], "shadow": []}}), "records.content: hash"),
        (text(RECORD | {"content": {"request": '{"a', "primary": [], "shadow": []}}), "cut or redacted"),
        (text(RECORD | {"endpoint": "other"}), "not compared"),
    ],
)
def test_what_is_wrong_with_a_line_and_how_to_mend_it(line: bytes, says: str) -> None:
    with pytest.raises(LineError) as caught:
        read_line(line, 1)
    assert says in caught.value.what
    assert caught.value.remedy


def test_a_reply_needs_its_request_s_name() -> None:
    with pytest.raises(LineError, match="custom_id"):
        read_reply(text({"response": REPLY}))


_KEYS = st.sampled_from(
    ["request", "response", "body", "url", "path", "messages", "prompt", "input", "custom_id", "time", "content", "exchange", "comparison", "endpoint", "status_code", "method"]
)  # fmt: skip
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 700) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=8))
def test_any_object_is_a_line_or_is_refused(value: dict[str, Any]) -> None:
    with suppress(LineError):
        line = read_line(text(value), 3)
        assert line.path.startswith("/")
        assert isinstance(orjson.loads(line.body), dict)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_line_or_are_refused(line: bytes) -> None:
    with suppress(LineError):
        assert read_line(line, 1).number == 1
    with suppress(LineError):
        assert read_reply(line)[0] is not None


@pytest.mark.parametrize("exchange", [None, "", 5])
def test_a_record_of_no_exchange_is_not_taken_for_another(exchange: Any) -> None:
    with pytest.raises(LineError, match="does not say of which exchange"):
        read_line(text(RECORD | {"exchange": exchange}), 1)


@pytest.mark.parametrize("time", [1.7e12, 10**12, -1, True])
def test_milliseconds_are_no_moment(time: Any) -> None:
    for line in (RECORD | {"time": time}, {"request": CHAT, "time": time}):
        with pytest.raises(LineError, match="time is no moment"):
            read_line(orjson.dumps(line), 1)


def test_a_mark_before_the_first_line_is_none_of_it() -> None:
    assert read_line(b"\xef\xbb\xbf" + orjson.dumps(CHAT), 1).body == orjson.dumps(CHAT)
