"""SGLang's own models accept what its dialect sends, nothing of it ignored, and what they dump is read as what was put in."""

import asyncio
import json

import pytest

from engines.canary import question
from engines.dialect import Answer, Endpoint
from engines.registry import detect
from engines.sglang import DIALECT
from proxy.compare.token_stream import Alternative, Channel
from proxy.judge.request import asked
from proxy.judge.shape import shadow_body

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
MODELS = {CHAT: "ChatCompletionRequest", COMPLETIONS: "CompletionRequest"}
USER = [{"role": "user", "content": "hi"}]
#: Pieces of a byte-level vocabulary, as SmolLM2's: 🌊 is F0 9F 8C 8A.
VOCABULARY = {2: "<|im_end|>", 5: "The", 6: "Ġsea", 7: "ðŁ", 8: "ĮĬ", 9: "Ġocean", 10: "A", 11: "ð"}
SHOWN = {2: "<|im_end|>", 5: "The", 6: " sea", 7: "\ufffd", 8: "\ufffd", 9: " ocean", 10: "A", 11: "\ufffd"}
LOWEST = -3.4028234663852886e38


def triple(logprob, known):
    """A row as the scheduler hands it over: value, id, text as the tokenizer decodes it alone."""
    return [logprob, known, SHOWN[known]]


ROWS = [triple(-0.1, 5), triple(-0.7, 6), triple(-0.25, 7), triple(-0.5, 8), triple(-0.3, 2)]
TOPS = [
    [triple(-0.1, 5), triple(-2.5, 10)],
    [triple(-0.6, 9), triple(-0.7, 6)],
    [triple(-0.25, 7), triple(-1.75, 11)],
    [triple(-0.5, 8), triple(LOWEST, 10)],
    [triple(-0.3, 2), triple(-1.5, 6)],
]
USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}


def answer(body, kind="application/json"):
    return Answer(200, (("content-type", kind),), ((9, body.encode()),))


BODIES = [
    (CHAT, {"messages": USER, "stream": True, "stream_options": {"include_usage": True}, "temperature": 0, "top_k": 0}),
    (
        CHAT,
        {"messages": USER, "temperature": None, "frequency_penalty": None, "n": 2, "top_logprobs": 3, "logprobs": True},
    ),
    (COMPLETIONS, {"prompt": "The", "stream": True, "max_tokens": 4, "temperature": None, "logprobs": 2}),
    (COMPLETIONS, {"prompt": [1, 2, 3], "temperature": 0.0, "seed": 1}),
]


@pytest.mark.parametrize(("endpoint", "body"), BODIES, ids=range(len(BODIES)))
def test_what_a_shadow_is_asked_is_understood(sglang, endpoint, body):
    sent = shadow_body(
        asked(endpoint, "/", {"model": "m", **body}), DIALECT, models={}, defaults=DIALECT.defaults, top_logprobs=20
    )
    seen = sglang("accept", model=MODELS[endpoint], body=sent)
    assert seen["ignored"] == []
    assert {name: seen["value"][name] for name in sent if name != "messages"} == {
        name: value for name, value in sent.items() if name != "messages"
    }
    assert seen["value"]["return_token_ids"] is True
    assert seen["value"]["stream"] is False


@pytest.mark.parametrize(("endpoint", "body"), BODIES, ids=range(len(BODIES)))
def test_what_is_injected_is_understood(sglang, endpoint, body):
    plain = {name: value for name, value in body.items() if value is not None and name != "top_k"}
    seen = sglang("accept", model=MODELS[endpoint], body=DIALECT.inject(endpoint, {"model": "m", **plain}, 20))
    assert seen["ignored"] == []


def test_the_canary_is_understood(sglang):
    for endpoint in (CHAT, COMPLETIONS):
        sent = DIALECT.ask(endpoint, question(endpoint, "m"), 5)
        assert sglang("accept", model=MODELS[endpoint], body=sent)["ignored"] == []


class Recording:
    """A fetch that keeps the calls and answers nothing of use."""

    def __init__(self, reply):
        self.calls, self.reply = [], reply

    async def __call__(self, call):
        self.calls.append(call)
        return answer(self.reply)


def test_scoring_is_understood_and_greedy(sglang):
    rows = [[None, 5, None], triple(-0.7, 6), triple(LOWEST, 2)]
    reply = {
        "text": "",
        "output_ids": [1],
        "meta_info": {"input_token_logprobs": rows, "input_top_logprobs": [None, TOPS[1], None]},
    }
    fetch = Recording(json.dumps(reply))
    scored = asyncio.run(DIALECT.score(fetch, "m", (4, 5), (6, 2), 2))
    assert [(row.index, row.token.id, row.token.logprob) for row in scored] == [(0, 6, -0.7), (1, 2, None)]
    assert [one.id for one in scored[0].token.top] == [9, 6]
    seen = sglang("accept", model="GenerateReqInput", body=fetch.calls[0].body)
    assert seen["ignored"] == []
    assert (seen["greedy"], seen["max_new_tokens"]) == (True, 1)
    assert (seen["value"]["input_ids"], seen["value"]["logprob_start_len"]) == ([4, 5, 6, 2], 1)
    assert (seen["value"]["return_logprob"], seen["value"]["top_logprobs_num"]) == (True, 2)


def test_prompts_are_rendered_by_requests_that_are_understood(sglang):
    fetch = Recording(
        sglang("dump", model="TokenizeResponse", fields={"tokens": [1, 2], "count": 2, "max_model_len": 9})
    )
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    body = {
        "messages": USER,
        "model": "m",
        "tools": tools,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": False},
        "continue_final_message": False,
        "response_format": {"type": "json_object"},
    }
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, body)) == ((1, 2),)
    assert asyncio.run(DIALECT.prompt_ids(fetch, COMPLETIONS, {"prompt": "The"})) == ((1, 2),)
    assert asyncio.run(DIALECT.tokenize(fetch, "The", "m")) == (1, 2)
    assert set(fetch.calls[0].body) == set(body)
    for call in fetch.calls:
        assert sglang("accept", model="TokenizeRequest", body=call.body)["ignored"] == []
    back = Recording(sglang("dump", model="DetokenizeResponse", fields={"text": "The"}))
    assert asyncio.run(DIALECT.detokenize(back, (5,), "m")) == "The"
    assert sglang("accept", model="DetokenizeRequest", body=back.calls[0].body)["ignored"] == []


def test_a_chat_that_is_asked_for_its_prompts_ids_is_understood(sglang):
    reply = sglang(
        "chat", message={"content": "The"}, rows=None, tops=None, vocabulary={}, usage=USAGE, prompt_token_ids=[1, 2]
    )

    class Older(Recording):
        async def __call__(self, call):
            self.calls.append(call)
            return Answer(400) if call.path == "/tokenize" else answer(self.reply)

    fetch = Older(reply)
    assert asyncio.run(DIALECT.prompt_ids(fetch, CHAT, {"messages": USER, "model": "m"})) == ((1, 2),)
    assert sglang("accept", model="ChatCompletionRequest", body=fetch.calls[1].body)["ignored"] == []


def test_a_whole_chat_is_read_as_what_was_put_in(sglang):
    reply = sglang(
        "chat",
        message={"content": "The sea\U0001f30a"},
        rows=ROWS,
        tops=TOPS,
        vocabulary=VOCABULARY,
        usage=USAGE,
        finish_reason="stop",
        matched_stop=2,
        prompt_token_ids=[1, 2, 3],
        response_token_ids=[5, 6, 7, 8, 2],
    )
    request = DIALECT.ask(CHAT, {"messages": USER}, 2)
    found = DIALECT.read(CHAT, request, answer(reply))
    choice = found.choices[0]
    assert found.error is None
    assert [(token.id, token.text, token.data, token.logprob) for token in choice.tokens] == [
        (5, "The", b"The", -0.1),
        (6, " sea", b" sea", -0.7),
        (7, "\ufffd", b"\xf0\x9f", -0.25),
        (8, "\ufffd", b"\x8c\x8a", -0.5),
        (2, "<|im_end|>", b"<|im_end|>", -0.3),
    ]
    assert choice.tokens[1].top == (
        Alternative(-0.6, None, " ocean", b" ocean"),
        Alternative(-0.7, None, " sea", b" sea"),
    )
    assert choice.tokens[2].top[1] == Alternative(-1.75, None, "\ufffd", b"\xf0")
    assert (
        choice.tokens[3].top == (Alternative(-0.5, None, "\ufffd", b"\x8c\x8a"),)  # the other has no probability
    )  # one of the two is of probability zero: no value, and the list is no longer whole
    assert (choice.prompt_ids, choice.finish_reason, choice.rows_missing) == ((1, 2, 3), "stop", False)


def test_reasoning_and_tool_calls(sglang):
    call = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": '{"q":"sea"}'}}
    message = {"content": None, "reasoning_content": "The", "tool_calls": [call]}
    reply = sglang(
        "chat",
        message=message,
        rows=ROWS[:2],
        tops=TOPS[:2],
        vocabulary=VOCABULARY,
        usage={**USAGE, "completion_tokens": 2},
        finish_reason="tool_calls",
    )
    choice = DIALECT.read(CHAT, {"logprobs": True}, answer(reply)).choices[0]
    assert [token.channel for token in choice.tokens] == [Channel.REASONING, Channel.TOOL]
    assert [(one.name, one.arguments) for one in choice.tool_calls] == [("look_up", '{"q":"sea"}')]
    assert (choice.reasoning, choice.finish_reason) == ("The", "tool_calls")


def test_a_sentencepiece_vocabulary_keeps_the_text_it_decodes(sglang):
    rows, tops = [[-0.1, 1, "é"]], [[[-0.1, 1, "é"], [-2.0, 2, "e"]]]
    reply = sglang(
        "chat",
        message={"content": "é"},
        rows=rows,
        tops=tops,
        vocabulary={1: "é", 2: "e"},
        is_byte_level=False,
        usage={**USAGE, "completion_tokens": 1},
    )
    (token,) = DIALECT.read(CHAT, {"logprobs": True, "top_logprobs": 2}, answer(reply)).choices[0].tokens
    assert (token.data, token.text) == ("é".encode(), "é")


def test_a_stream_with_several_tokens_an_event(sglang):
    events = [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "The", "rows": ROWS[:1], "tops": TOPS[:1]},
        {"content": " sea\U0001f30a", "rows": ROWS[1:4], "tops": [TOPS[1]] * 3},  # the first one's for all, as reported
        {"rows": ROWS[4:], "tops": TOPS[4:]},  # text that a parser holds back
        {"finish_reason": "stop", "matched_stop": 2},
    ]
    body = sglang("chat_stream", events=events, vocabulary=VOCABULARY, usage=USAGE)
    request = {"stream": True, "logprobs": True, "top_logprobs": 2}
    whole = answer(body, "text/event-stream")
    found = DIALECT.read(CHAT, request, whole)
    choice = found.choices[0]
    assert [(token.data, token.logprob, len(token.top)) for token in choice.tokens] == [
        (b"The", -0.1, 2),
        (b" sea", -0.7, 2),
        (b"\xf0\x9f", -0.25, 0),
        (b"\x8c\x8a", -0.5, 0),
        (b"<|im_end|>", -0.3, 2),
    ]
    assert (choice.reasoning, choice.text, choice.rows_missing, found.error) == ("The", " sea\U0001f30a", False, None)
    data = body.encode()
    pieces = tuple((at, data[at : at + 1]) for at in range(len(data)))
    assert DIALECT.read(CHAT, request, Answer(200, whole.headers, pieces)) == found


def test_an_injected_stream_is_stripped_to_the_clients_own(sglang):
    def events(**rows):
        first = {"content": "The", **({"rows": ROWS[:1], "tops": TOPS[:1]} if rows else {})}
        held = [{"rows": ROWS[1:2], "tops": TOPS[1:2]}] if rows else []
        return [{"role": "assistant", "content": ""}, first, *held, {"finish_reason": "stop", "matched_stop": 2}]

    def dumped(made):
        body = sglang("chat_stream", events=made, vocabulary=VOCABULARY, usage=USAGE)
        lines = body.split("\n\n")[:-3]  # the last: usage with its own time of making
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    stripped = [DIALECT.strip(CHAT, {"stream": True}, event) for event in dumped(events(rows=True))]
    assert [event for event in stripped if event is not None] == dumped(events())


def test_a_whole_completion(sglang):
    reply = sglang(
        "completion",
        text="The sea",
        rows=ROWS[:3],
        tops=TOPS[:3],
        vocabulary=VOCABULARY,
        usage={**USAGE, "completion_tokens": 3},
        finish_reason="length",
        token_ids=[5, 6, 7],
        prompt_token_ids=[1, 2, 3],
    )
    choice = DIALECT.read(COMPLETIONS, {"logprobs": 2}, answer(reply)).choices[0]
    assert [(token.id, token.logprob) for token in choice.tokens] == [(5, -0.1), (6, -0.7), (7, -0.25)]
    assert [[one.text for one in token.top] for token in choice.tokens] == [
        ["The", "A"],
        [" ocean", " sea"],
        [None, None],
    ]
    assert choice.prompt_ids == (1, 2, 3)
    stripped = DIALECT.strip(COMPLETIONS, {}, json.loads(reply))
    assert stripped["choices"] == [
        {"index": 0, "text": "The sea", "logprobs": None, "finish_reason": "length", "matched_stop": None}
    ]


def test_it_is_recognised_and_its_errors_are_labels(sglang):
    card = {"id": "m", "root": "m", "max_model_len": 8192}
    assert asyncio.run(detect(Recording(sglang("dump", model="ModelList", fields={"data": [card]})))) == "sglang"
    flat = sglang("dump", model="ErrorResponse", fields={"message": "m", "type": "BadRequest", "code": 400})
    assert DIALECT.read(CHAT, {}, answer(flat)).error == "error_in_body"
