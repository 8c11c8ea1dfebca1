"""Hosted APIs that speak OpenAI's words with an accent: Together, Fireworks, OpenRouter; OpenAI itself is the baseline.

House rules. Sources: the request and reply types of the vendors' own Python libraries, their published descriptions and public issues; nothing was asked of a
live service, so none of them is injected into: what a reply would have been without is not known to the byte. A hosted model is a name behind which
weights, quantisation and host may change at any time; of the stack nothing is shown but ``system_fingerprint``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from engines import openai
from engines.asking import ask_json, refuse_media, with_model
from engines.body import document
from engines.choices import reply
from engines.dialect import Answer, Call, Defaults, DialectError, Endpoint, Fetch, Json, Scored
from engines.neutral import at_most, is_greedy
from engines.openai import asked_alternatives, choices_of
from engines.rows import chat_rows, ids_of
from proxy.compare.token_stream import Reply, Token, TokenStream

#: Together gives 20, Fireworks 5 (``top_logprobs`` and the integer form of ``logprobs`` alike).
MOST_TOGETHER = 20
MOST_FIREWORKS = 5

_ROUTES = {Endpoint.CHAT: "/v1/chat/completions", Endpoint.COMPLETIONS: "/v1/completions"}


def ask_together(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask with the integer that its ``logprobs`` is on both routes, whole: its events hold one number a token and no alternatives that are known of.

    With ``top_p`` set its values have been seen to be 0.0 for every token. A greedy request does not need it, so 1 is said there.
    """
    if endpoint is Endpoint.OTHER:
        return dict(body)
    mine = body.get("logprobs")
    already = mine if isinstance(mine, int) and not isinstance(mine, bool) else asked_alternatives(endpoint, body) or 0
    shaped = {name: value for name, value in body.items() if name not in ("top_logprobs", "stream_options")}
    shaped |= {"logprobs": min(max(already, 2, top), MOST_TOGETHER), "stream": False}
    if is_greedy(shaped) and shaped.get("top_p") is not None:
        shaped["top_p"] = 1
    return shaped


def read_together(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer; ids may be written as floats (its description calls them numbers), and values that are 0.0 throughout are left out."""
    del endpoint
    value, error = document(answer)
    for choice in choices_of(value):
        logprobs = choice.get("logprobs")
        listed = logprobs.get("token_ids") if isinstance(logprobs, dict) else None
        if isinstance(logprobs, dict) and isinstance(listed, list):
            logprobs["token_ids"] = [int(one) if isinstance(one, float) and one.is_integer() else one for one in listed]
    seen = reply(value, request, error)
    return structs.replace(seen, choices=tuple(_without_zeros(stream) for stream in seen.choices))


def _without_zeros(stream: TokenStream) -> TokenStream:
    """Drop the values of a stream whose every chosen token has the logprob 0.0 exactly, two tokens at least: no model is that sure."""
    valued = [token for token in stream.tokens if token.logprob is not None]
    if len(valued) < 2 or any(token.logprob != 0.0 for token in valued):
        return stream
    tokens = tuple(structs.replace(token, logprob=None, top=()) for token in stream.tokens)
    return structs.replace(stream, tokens=tokens)


def ask_fireworks(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs in OpenAI's shape on both routes, and for ids."""
    if endpoint is Endpoint.OTHER:
        return dict(body)
    mine = asked_alternatives(endpoint, body) or 0
    shaped = {**body, "logprobs": True, "top_logprobs": max(mine, 2, top), "return_token_ids": True}
    return openai.with_usage(at_most(shaped, "top_logprobs", MOST_FIREWORKS))


def read_fireworks(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer, whose rows call the id ``token_id``."""
    del endpoint
    value, error = document(answer)
    for choice in choices_of(value):
        _name_ids(choice)
    return reply(value, request, error)


def _name_ids(choice: Json) -> None:
    for row in _content(choice):
        listed = row.get("top_logprobs")
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        for entry in (row, *entries):
            if "token_id" in entry:
                entry["id"] = entry.pop("token_id")


def _content(choice: Json) -> list[Json]:
    logprobs = choice.get("logprobs")
    rows: Any = logprobs.get("content") if isinstance(logprobs, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


async def fireworks_prompt_ids(fetch: Fetch, endpoint: Endpoint, body: Json) -> tuple[tuple[int, ...], ...]:
    """Have the request answered with one token: no route tokenizes, but a reply tells its prompt's ids."""
    refuse_media(endpoint, body)
    asked = {name: value for name, value in body.items() if name not in ("stream", "stream_options", "n")}
    asked.pop("max_completion_tokens", None)  # it may not stand beside max_tokens
    answer = await ask_json(fetch, Call(_ROUTES[endpoint], {**asked, "max_tokens": 1, "return_token_ids": True}))
    holders = [answer] if endpoint is Endpoint.CHAT else choices_of(answer)
    ids = [ids_of(holder.get("prompt_token_ids")) for holder in holders]
    if not ids or any(one is None for one in ids):
        raise DialectError("no_prompt_ids", "the reply does not tell its prompt's ids")
    return tuple(one for one in ids if one is not None)


async def fireworks_score(
    fetch: Fetch, model: str | None, prompt: tuple[int, ...], ids: tuple[int, ...], top: int
) -> tuple[Scored, ...]:
    """Score ``ids`` after ``prompt``: the end of the prompt is echoed with its logprobs (``echo_last``), one more token is generated and left out."""
    question: Json = {
        "prompt": [*prompt, *ids],
        "echo_last": len(ids),
        "logprobs": True,
        "top_logprobs": min(max(2, top), MOST_FIREWORKS),
        "max_tokens": 1,
        "temperature": 0,
    }
    choices = choices_of(await ask_json(fetch, Call("/v1/completions", with_model(question, model))))
    for choice in choices:
        _name_ids(choice)
    rows = chat_rows(_content(choices[0])) if choices else ()
    if len(rows) not in (len(ids), len(ids) + 1):
        raise DialectError("no_prompt_logprobs", "the answer does not hold one row per echoed token")
    return tuple(Scored(index, _same(row, wanted)) for index, (row, wanted) in enumerate(zip(rows, ids, strict=False)))


def _same(row: Token, wanted: int) -> Token:
    if row.id != wanted:
        raise DialectError("scored_other_tokens", "a row does not hold the token asked for")
    return row


TOGETHER = replace(
    openai.DIALECT,
    name="together",
    max_top_logprobs=MOST_TOGETHER,
    defaults=Defaults(),
    ask=ask_together,
    read=read_together,
    inject=None,
    notes=(
        "asked without stream: its events hold one value a token and no alternatives",
        "with top_p set its values may be 0.0 or rounded: values that are all 0.0 are left out",
        "token ids, but no scoring of given ids",
    ),
)
FIREWORKS = replace(
    openai.DIALECT,
    name="fireworks",
    max_top_logprobs=MOST_FIREWORKS,
    defaults=Defaults(),
    ask=ask_fireworks,
    read=read_fireworks,
    inject=None,
    prompt_ids=fireworks_prompt_ids,
    score=fireworks_score,
    notes=(
        "rendering a prompt costs one generated token, scoring one more",
        "a prompt that does not fit may be cut or the bound on the length lowered, by context_length_exceeded_behavior",
    ),
)
OPENROUTER = replace(
    openai.DIALECT,
    name="openrouter",
    defaults=Defaults(),
    inject=None,
    notes=(
        "each request may go to another provider with another precision: pin one with `provider` in the body, or what is compared is not one engine",
        "logprobs only from providers that give them; no token ids and no scoring",
    ),
)
DIALECTS = (TOGETHER, FIREWORKS, OPENROUTER)
