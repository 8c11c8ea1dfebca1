"""Text Generation Inference's ``/v1``: logprobs on chats, at most 5 alternatives by default, values after all samplers.

House rules. Sources: its router (``lib.rs``, ``server.rs``, ``validation.rs``) and the types that ``huggingface_hub`` generates from its API description. Facts
used here: more alternatives than ``--max-top-n-tokens`` (5) are a 422; tied ones come on top of those asked for; rows have no bytes; completions have no
logprobs; ``presence_penalty`` x becomes a repetition penalty of x + 2, so that 0 is not neutral; ``top_p`` 1 is out of its range; ``stop`` must be a list and
``logit_bias`` no object; ``max_completion_tokens`` and ``n`` are overlooked; ``/tokenize`` always adds special tokens, which stand for no characters. Its
only scoring (``decoder_input_details``) takes text and there is no route from ids to text, so none is offered. Nothing was run against a live server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from engines import openai
from engines.asking import ask_json, ask_value, chosen, prompts_of, refuse_media
from engines.dialect import Answer, Call, Defaults, DialectError, Endpoint, Fetch, Json
from engines.neutral import at_most, with_max_tokens, without_neutral
from engines.respell import relisted
from engines.rows import ids_of
from proxy.compare.token_stream import Reply

#: The server's own ``--max-top-n-tokens``: nobody who has not asked for more is sure of more.
SURE = 5
#: What is tried at start, as of every engine: a server may have been started with more.
MOST = 20
_NEUTRAL = frozenset({"presence_penalty", "frequency_penalty", "top_p", "logit_bias", "n"})
_RENDERED = ("messages", "tools", "tool_choice", "tool_prompt", "response_format", "guideline")


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask a chat for ``top`` alternatives and no more, every stream for usage, and leave out what the engine takes for something else or refuses."""
    shaped = with_max_tokens(without_neutral(body, _NEUTRAL))
    if isinstance(shaped.get("stop"), str):
        shaped["stop"] = [shaped["stop"]]
    if endpoint is Endpoint.CHAT:
        shaped = at_most(openai.with_logprobs(endpoint, shaped, top), "top_logprobs", max(2, top))
    return openai.with_usage(shaped)


def inject(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask a chat for logprobs as far as ``strip`` can undo it: its replies have a null where there are none."""
    return openai.undoable(endpoint, body, min(top, SURE)) if endpoint is Endpoint.CHAT else dict(body)


def read(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer; alternatives that were decoded without their leading blank lose their texts."""
    seen = openai.read(endpoint, request, answer)
    return structs.replace(seen, choices=tuple(relisted(stream) for stream in seen.choices))


async def prompt_ids(fetch: Fetch, endpoint: Endpoint, body: Json) -> tuple[tuple[int, ...], ...]:
    """Return what ``/chat_tokenize`` makes of a chat, and ``/tokenize`` of each prompt."""
    refuse_media(endpoint, body)
    if endpoint is Endpoint.CHAT:
        answer = await ask_json(fetch, Call("/chat_tokenize", chosen(body, _RENDERED)))
        return (_ids(answer.get("tokenize_response"), "/chat_tokenize"),)
    rendered: list[tuple[int, ...]] = []
    for prompt in prompts_of(body):
        if isinstance(prompt, list):
            raise DialectError("prompt_shape", "it takes no token ids")
        rendered.append(_ids(await ask_value(fetch, Call("/tokenize", {"inputs": prompt})), "/tokenize"))
    return tuple(rendered)


async def tokenize(fetch: Fetch, text: str, model: str | None) -> tuple[int, ...]:
    """Return the ids of visible text: those of ``/tokenize`` that stand for characters of it."""
    del model  # it serves one
    rows = await ask_value(fetch, Call("/tokenize", {"inputs": text}))
    spelled = [row for row in rows if _stands_for_text(row)] if isinstance(rows, list) else rows
    return _ids(spelled, "/tokenize")


def _stands_for_text(row: Any) -> bool:
    return not isinstance(row, dict) or row.get("start") != row.get("stop")


def _ids(rows: Any, path: str) -> tuple[int, ...]:
    listed = [row.get("id") if isinstance(row, dict) else None for row in rows] if isinstance(rows, list) else None
    ids = ids_of(listed)
    if ids is None:
        raise DialectError("unexpected_reply", f"{path} gave no list of tokens")
    return ids


DIALECT = replace(
    openai.DIALECT,
    name="tgi",
    max_top_logprobs=MOST,
    defaults=Defaults(temperature=1.0, top_p=1.0, top_k=0),
    logprob_mode="processed",
    ask=ask,
    inject=inject,
    read=read,
    prompt_ids=prompt_ids,
    tokenize=tokenize,
    misread=frozenset({"presence_penalty", "repetition_penalty", "logit_bias", "n", "top_k", "min_p"}),
    notes=(
        "completions are compared by text: they have no logprobs",
        "values are those after temperature, top-k, top-p and penalties",
        "presence_penalty x is taken for a repetition penalty of x + 2; logit_bias is overlooked",
        "no scoring: decoder_input_details takes text only, and gives no alternatives",
    ),
)
