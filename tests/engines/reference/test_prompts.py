"""Messages, texts and ids as clients write them."""

import pytest

from engines.reference import prompts
from engines.reference.prompts import Text
from engines.reference.refusal import RefusalError


@pytest.mark.parametrize(
    ("prompt", "read"),
    [
        ("abc", ("abc",)),
        (["a", "b"], ("a", "b")),
        ([1, 2, 3], ((1, 2, 3),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
        (["a", [3]], ("a", (3,))),
    ],
)
def test_prompt_forms(prompt, read):
    assert prompts.text({"prompt": prompt}, 100) == Text(read)


@pytest.mark.parametrize(
    "prompt",
    ["", [], [[]], [""], [1, "a"], [[1], 2], [1.5], [True], {"a": 1}, None, [100], [-1], [[1, 100]], ["a"] * 257],
)
def test_prompts_that_are_refused(prompt):
    with pytest.raises(RefusalError) as caught:
        prompts.text({"prompt": prompt}, 100)
    assert caught.value.body["error"]["param"].startswith("prompt")


def test_no_prompt_at_all():
    with pytest.raises(RefusalError, match="prompt"):
        prompts.text({}, 100)


def test_special_tokens_are_added_to_texts_and_not_to_chats():
    assert prompts.text({"prompt": "a"}, 9).add_special_tokens
    assert not prompts.text({"prompt": "a", "add_special_tokens": False}, 9).add_special_tokens
    assert not prompts.chat({"messages": [{"role": "user", "content": "a"}]}).add_special_tokens


def test_text_parts_are_joined_and_other_parts_refused():
    part = {"type": "text", "text": "one"}
    read = prompts.chat({"messages": [{"role": "user", "content": [part, {"type": "text", "text": "two"}]}]})
    assert read.messages == ({"role": "user", "content": "one\ntwo"},)
    with pytest.raises(RefusalError) as caught:
        prompts.chat(
            {"messages": [{"role": "user", "content": [part, {"type": "image_url", "image_url": {"url": "secret"}}]}]}
        )
    assert caught.value.body["error"]["param"] == "messages[0].content[1]"
    assert "secret" not in str(caught.value)


def test_tool_calls_become_objects_for_the_template():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    read = prompts.chat({"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]})
    assert read.messages[0]["tool_calls"][0]["function"] == {"name": "f", "arguments": {"a": 1}}
    assert call["function"]["arguments"] == '{"a": 1}'


@pytest.mark.parametrize(
    "message",
    [
        {"content": "a"},
        {"role": 1},
        {"role": "user", "content": 5},
        {"role": "assistant", "tool_calls": "x"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
    ],
)
def test_messages_that_are_refused(message):
    with pytest.raises(RefusalError, match=r"messages\[0\]"):
        prompts.chat({"messages": [message]})


def test_tools_are_left_out_when_the_client_forbids_them():
    body = {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function", "function": {"name": "f"}}]}
    assert prompts.chat(body).tools == tuple(body["tools"])
    assert prompts.chat({**body, "tool_choice": "none"}).tools is None


def test_continuing_the_last_message_excludes_a_generation_prompt():
    body = {"messages": [{"role": "assistant", "content": "a"}], "continue_final_message": True}
    assert not prompts.chat({**body, "add_generation_prompt": False}).add_generation_prompt
    assert not prompts.chat(body).add_generation_prompt
    with pytest.raises(RefusalError, match="both"):
        prompts.chat({**body, "add_generation_prompt": True})


def test_a_request_cannot_bring_a_template():
    body = {"messages": [{"role": "user", "content": "a"}]}
    with pytest.raises(RefusalError, match="chat_template"):
        prompts.chat({**body, "chat_template": "{{ 1 }}"})
    with pytest.raises(RefusalError, match="tokenize"):
        prompts.chat({**body, "chat_template_kwargs": {"tokenize": True}})
    assert prompts.chat({**body, "chat_template_kwargs": {"enable_thinking": False}}).template_arguments == {
        "enable_thinking": False
    }


def test_ids_to_detokenize():
    assert prompts.ids({"tokens": [1, 2]}, 3) == (1, 2)
    with pytest.raises(RefusalError, match="out of vocabulary"):
        prompts.ids({"tokens": [3]}, 3)
