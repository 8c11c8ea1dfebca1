"""One JSON question to an engine through the caller's ``fetch``, and what its answer must hold.

House rules. No I/O of its own. Raises ``DialectError`` and nothing else: the transport's label, ``status_<code>``, ``not_json`` or ``unexpected_reply``. Never quotes
an answer: it may hold the prompt.
"""

from __future__ import annotations

from typing import Any

from engines.dialect import Call, DialectError, Endpoint, Fetch, Json
from engines.lenient_json import NotJson, loads
from engines.rows import ids_of


async def ask_value(fetch: Fetch, call: Call) -> Any:
    """Send ``call``, return the JSON value that came back."""
    answer = await fetch(call)
    if answer.failure is not None:
        raise DialectError(answer.failure, call.path)
    if not 200 <= answer.status <= 299:
        raise DialectError(f"status_{answer.status}", call.path)
    try:
        return loads(answer.body)
    except NotJson:
        raise DialectError("not_json", call.path) from None


async def ask_json(fetch: Fetch, call: Call) -> Json:
    """Send ``call``, return the JSON object that came back."""
    value = await ask_value(fetch, call)
    if not isinstance(value, dict):
        raise DialectError("unexpected_reply", f"{call.path} did not answer with an object")
    return value


async def ask_ids(fetch: Fetch, call: Call) -> tuple[int, ...]:
    """Send ``call``, return the token ids under ``tokens``."""
    ids = ids_of((await ask_json(fetch, call)).get("tokens"))
    if ids is None:
        raise DialectError("unexpected_reply", f"{call.path} gave no list of token ids")
    return ids


async def ask_text(fetch: Fetch, call: Call, key: str) -> str:
    """Send ``call``, return the text under ``key``."""
    text = (await ask_json(fetch, call)).get(key)
    if not isinstance(text, str):
        raise DialectError("unexpected_reply", f"{call.path} gave no {key}")
    return text


def with_model(body: Json, model: object) -> Json:
    """Return the body with the model's name, where one is known."""
    return {**body, "model": model} if isinstance(model, str) and model else body


def chosen(body: Json, fields: tuple[str, ...]) -> Json:
    """Return those of the fields that the body holds and that are not null."""
    return {name: body[name] for name in fields if body.get(name) is not None}


def refuse_media(endpoint: Endpoint, body: Json) -> None:
    """Raise ``multimodal`` when a message holds more than text: its tokens are not those of the rendered text."""
    if endpoint is not Endpoint.CHAT:
        return
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        parts = message.get("content") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict) or part.get("type") != "text":
                raise DialectError("multimodal", "a message holds more than text")


def prompts_of(body: Json) -> list[str | list[int]]:
    """Return the prompts of a completions body: texts, or lists of ids. Raises ``prompt_shape`` for anything else."""
    prompt = body.get("prompt")
    listed = prompt if isinstance(prompt, list) and not ids_of(prompt) else [prompt]
    prompts: list[str | list[int]] = []
    for one in listed:
        ids = ids_of(one)
        if isinstance(one, str):
            prompts.append(one)
        elif ids is not None:
            prompts.append(list(ids))
        else:
            raise DialectError("prompt_shape", "prompt is neither text, ids, nor a list of either")
    return prompts
