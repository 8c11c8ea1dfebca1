"""Replies written twice, as the client's own request would have got them and with what ``inject`` adds: stripped, the second is the first, byte for byte.

Nothing is assumed of the spelling: order of members, blanks, escapes, numbers and line ends are drawn by lot.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.registry import dialect
from proxy.traffic.inject import Injection
from proxy.traffic.reply_head import Framing, ReplyHead
from tests.traffic.test_exact_json import BLANKS, VALUES, spelt

ROWS = {
    "content": [
        {
            "token": "token_id:5",
            "logprob": -0.1234567890123,
            "bytes": None,
            "top_logprobs": [{"token": '"}]', "logprob": -1e-07}],
        }
    ]
}
#: Per dialect and endpoint: what an enlarged request adds to the reply and to each choice, and what stands in its place otherwise (None: nothing).
ADDED: dict[tuple[str, str], tuple[dict[str, tuple[Any, str | None]], dict[str, tuple[Any, str | None]]]] = {
    ("vllm", "chat_completions"): (
        {"prompt_token_ids": ([1, 2], "null")},
        {"logprobs": (ROWS, "null"), "token_ids": ([5], "null")},
    ),
    ("vllm", "completions"): (
        {},
        {"logprobs": (ROWS, "null"), "token_ids": ([5], "null"), "prompt_token_ids": ([1], "null")},
    ),
    ("llama_cpp", "chat_completions"): ({"__verbose": ({"tokens": [1], "x": "}"}, None)}, {"logprobs": (ROWS, None)}),
    ("llama_cpp", "completions"): ({"__verbose": ({"tokens": [1]}, None)}, {"logprobs": (ROWS, "null")}),
    ("openai", "chat_completions"): ({}, {"logprobs": (ROWS, "null")}),
}
OURS = {"logprobs", "token_ids", "prompt_token_ids", "__verbose", "choices"}
EXTRA = st.dictionaries(st.text(max_size=6).filter(lambda name: name not in OURS), VALUES, max_size=2)


@dataclass(frozen=True)
class Written:
    """The same object without and with what was added."""

    plain: str
    enlarged: str


def _object(members: list[tuple[str, Written | None, Written]], draw: Any) -> Written:
    """An object of members in any order: name, text without (None: left out), text with."""
    members = draw(st.permutations(members))
    comma = draw(BLANKS) + "," + draw(BLANKS)
    around = (draw(BLANKS), draw(BLANKS))
    named = [(f"{spelt(name, draw)}:{draw(BLANKS)}", plain, enlarged) for name, plain, enlarged in members]
    left = comma.join(name + plain.plain for name, plain, _ in named if plain is not None)
    whole = comma.join(name + enlarged.enlarged for name, _, enlarged in named)
    return Written("{" + around[0] + left + around[1] + "}", "{" + around[0] + whole + around[1] + "}")


def _extended(
    added: dict[str, tuple[Any, str | None]],
    extra: dict[str, Any],
    more: list[tuple[str, Written | None, Written]],
    draw: Any,
) -> Written:
    members: list[tuple[str, Written | None, Written]] = [
        (name, text, text) for name, text in ((name, _same(spelt(value, draw))) for name, value in extra.items())
    ]
    for name, (value, instead) in added.items():
        members.append((name, None if instead is None else _same(instead), _same(spelt(value, draw))))
    return _object(members + more, draw)


def _same(text: str) -> Written:
    return Written(text, text)


def replies(kind: tuple[str, str], draw: Any) -> Written:
    """One reply, or one event."""
    top, inner = ADDED[kind]
    choices = [
        _extended(inner, {**draw(EXTRA), "index": index, "finish_reason": "stop"}, [], draw)
        for index in range(draw(st.integers(1, 2)))
    ]
    comma = draw(BLANKS) + ","
    listed = Written(
        "[" + comma.join(one.plain for one in choices) + "]", "[" + comma.join(one.enlarged for one in choices) + "]"
    )
    return _extended(top, draw(EXTRA), [("choices", listed, listed)], draw)


def injection(kind: tuple[str, str], *, stream: bool) -> tuple[Injection, ReplyHead]:
    made = Injection(dialect(kind[0]), kind[1], 1 << 24)
    made.gather(json.dumps({"model": "m", "messages": [], "stream": stream}).encode())
    assert made.shape(lambda _: True) is not None
    lines = b"\r\nContent-Type: %b" % (b"text/event-stream" if stream else b"application/json")
    return made, ReplyHead(200, b"OK", lines, Framing.CHUNKED, None, stream)


def cut(data: bytes, draw: Any) -> list[bytes]:
    if len(data) < 500 and draw(st.booleans()):
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.sampled_from(sorted(ADDED)), st.data())
def test_a_whole_reply(kind: tuple[str, str], data: st.DataObject) -> None:
    reply = replies(kind, data.draw)
    made, head = injection(kind, stream=False)
    assert made.head(head) is None
    for piece in cut(reply.enlarged.encode(), data.draw):
        assert made.piece(piece) == (None, b"")
    assert made.end()[1] == reply.plain.encode()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.sampled_from(sorted(ADDED)), st.data())
def test_a_stream(kind: tuple[str, str], data: st.DataObject) -> None:
    draw = data.draw
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    plain = enlarged = draw(st.sampled_from(["", "\ufeff", ": hello" + end + end]))
    for _ in range(draw(st.integers(1, 3))):
        event = replies(kind, draw)
        before, after = (
            draw(st.sampled_from(["", "id: 7" + end, ": note" + end])),
            draw(st.sampled_from(["", "event: x" + end])),
        )
        colon = draw(st.sampled_from(["data:", "data: "]))
        if "\n" in event.enlarged or "\r" in event.enlarged or event.enlarged.endswith((" ", "\t")):
            event = Written(*(json.dumps(json.loads(text)) for text in (event.plain, event.enlarged)))
        plain += before + colon + event.plain + end + after + end
        enlarged += before + colon + event.enlarged + end + after + end
    ending = draw(st.sampled_from(["", "data: [DONE]" + end + end]))
    made, head = injection(kind, stream=True)
    assert made.head(head) is head
    got = b"".join(made.piece(piece)[1] for piece in cut((enlarged + ending).encode(), draw)) + made.end()[1]
    assert got == (plain + ending).encode()
