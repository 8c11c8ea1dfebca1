"""A request made readable, whatever it is."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.ledger.pages.asking import MESSAGES, TEXT, asking

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def test_messages_stand_in_their_order_with_their_parts():
    body = {
        "model": "m", "temperature": 0,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:x"}}]},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "4"},
        ],
    }  # fmt: skip
    found = asking(json.dumps(body))
    assert [one.who for one in found.said] == ["system", "user", "assistant", "tool (c1)"]
    assert [part.kind for part in found.said[1].parts] == ["text", "image_url"]
    assert found.said[2].parts[0].kind == "tool calls"
    assert found.fields == (("model", '"m"'), ("temperature", "0"))


def test_prompts_and_lists_are_messages_too():
    assert [(one.who, one.parts[0].text) for one in asking('{"prompt": "once"}').said] == [("prompt", "once")]
    assert [one.who for one in asking('{"input": ["a", "b"]}').said] == ["input 0", "input 1"]
    assert [part.text for part in asking('{"prompt": [1, 2]}').said[0].parts] == ["1", "2"]
    assert [one.who for one in asking('{"query": "q", "documents": ["a", "b"]}').said] == [
        "query",
        "documents 0",
        "documents 1",
    ]


def test_what_is_long_is_cut_and_said():
    many = asking(json.dumps({"messages": [{"role": "user", "content": "x" * 10_000}] * 200}))
    assert len(many.said) == MESSAGES
    assert many.messages_left_out == 150
    assert many.said[0].parts[0].left_out == 10_000 - TEXT
    assert many.raw.left_out > 0


@given(
    st.text()
    | JSON.map(json.dumps)
    | st.dictionaries(st.sampled_from(["messages", "prompt", "input", "system"]), JSON).map(json.dumps)
)
def test_whatever_was_sent_is_shown(body):
    found = asking(body)
    assert found.raw.text or not body
