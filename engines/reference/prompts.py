"""What a client wants continued: messages, texts or token ids.

Bodies of chat, completions, tokenize and detokenize requests. JSON's null means "not given".

House rules: pure; knows no tokenizer and no template. Texts are passed on, never put into an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from engines.reference.refusal import Json, RefusalError, convert, known_ids

#: Prompts in one request; more is a mistake or an attack on one worker's queue.
MAX_PROMPTS = 256


class Chat(Struct, frozen=True):
    """How messages become a prompt."""

    messages: tuple[Json, ...]
    tools: tuple[Json, ...] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    template_arguments: Json = {}


class Text(Struct, frozen=True):
    """Prompts as a client wrote them: texts or token ids."""

    prompts: tuple[str | tuple[int, ...], ...]
    add_special_tokens: bool = True


class _ChatFields(Struct, frozen=True):
    messages: list[Json]
    tools: list[Json] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: Json | None = None


class _TextFields(Struct, frozen=True):
    prompt: str | list[str | int | list[int]]
    add_special_tokens: bool | None = None


class _DetokenizeFields(Struct, frozen=True):
    tokens: list[int]


def chat(body: Json) -> Chat:
    """Read the conversation of a chat (or tokenize) request."""
    fields = convert(body, _ChatFields)
    if not fields.messages:
        raise RefusalError("messages: at least one message is needed", param="messages")
    if fields.chat_template is not None:
        raise RefusalError(
            "chat_template: this server renders with the model's own template only", param="chat_template"
        )
    generation = fields.add_generation_prompt is not False
    continued = bool(fields.continue_final_message)
    if continued and fields.add_generation_prompt:
        raise RefusalError(
            "continue_final_message and add_generation_prompt cannot both be true", param="continue_final_message"
        )
    if continued and fields.add_generation_prompt is None:
        generation = False
    return Chat(
        messages=tuple(_message(message, place) for place, message in enumerate(fields.messages)),
        tools=tuple(fields.tools) if fields.tools and body.get("tool_choice") != "none" else None,
        add_generation_prompt=generation,
        continue_final_message=continued,
        add_special_tokens=bool(fields.add_special_tokens),
        template_arguments=_template_arguments(fields.chat_template_kwargs or {}),
    )


def text(body: Json, vocabulary: int) -> Text:
    """Read the prompts of a completions (or tokenize) request: a text, texts, ids, or lists of ids."""
    fields = convert(body, _TextFields)
    given = fields.prompt
    if isinstance(given, str):
        prompts: tuple[str | tuple[int, ...], ...] = (given,)
    elif given and all(isinstance(item, int) for item in given):
        prompts = (tuple(item for item in given if isinstance(item, int)),)
    elif any(isinstance(item, int) for item in given):
        raise RefusalError("prompt: token ids and texts cannot stand in one list", param="prompt")
    else:
        prompts = tuple(item if isinstance(item, str) else tuple(item) for item in given if not isinstance(item, int))
    if not prompts or any(len(prompt) == 0 for prompt in prompts):
        raise RefusalError("prompt: must not be empty", param="prompt")
    if len(prompts) > MAX_PROMPTS:
        raise RefusalError(f"prompt: {len(prompts)} prompts are more than {MAX_PROMPTS} a request", param="prompt")
    for prompt in prompts:
        if not isinstance(prompt, str):
            known_ids(prompt, vocabulary, "prompt")
    return Text(prompts, fields.add_special_tokens is not False)


def ids(body: Json, vocabulary: int) -> tuple[int, ...]:
    """Read the ids of a detokenize request."""
    given = tuple(convert(body, _DetokenizeFields).tokens)
    known_ids(given, vocabulary, "tokens")
    return given


def _message(message: Mapping[str, Any], place: int) -> Json:
    """Bring a message into the form that templates expect: text content as one string, tool arguments as an object."""
    where = f"messages[{place}]"
    if not isinstance(message.get("role"), str):
        raise RefusalError(f"{where}.role: expected a string", param=f"{where}.role")
    said = dict(message)
    content = said.get("content")
    if isinstance(content, list):
        said["content"] = "\n".join(_part(part, f"{where}.content[{number}]") for number, part in enumerate(content))
    elif not isinstance(content, str | None):
        raise RefusalError(f"{where}.content: expected a string or a list of text parts", param=f"{where}.content")
    if said.get("tool_calls") is not None:
        said["tool_calls"] = _calls(said["tool_calls"], f"{where}.tool_calls")
    return said


def _part(part: Any, where: str) -> str:
    if isinstance(part, dict) and part.get("type") in ("text", "input_text") and isinstance(part.get("text"), str):
        return str(part["text"])
    raise RefusalError(f"{where}: this engine reads text parts only", param=where)


def _calls(calls: Any, where: str) -> list[Json]:
    if not isinstance(calls, list) or not all(
        isinstance(call, dict) and isinstance(call.get("function"), dict) for call in calls
    ):
        raise RefusalError(f"{where}: expected a list of calls, each with a function", param=where)
    read = []
    for call in calls:
        arguments = call["function"].get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = msgspec.json.decode(arguments.encode() or b"{}")
            except msgspec.DecodeError as broken:
                raise RefusalError(f"{where}: arguments that are not JSON", param=where) from broken
        read.append({**call, "function": {**call["function"], "arguments": arguments}})
    return read


def _template_arguments(given: Json) -> Json:
    reserved = given.keys() & {
        "chat_template",
        "tokenize",
        "conversation",
        "messages",
        "return_tensors",
        "return_dict",
        "padding",
        "truncation",
        "max_length",
    }
    if reserved:
        raise RefusalError(
            f"chat_template_kwargs: {', '.join(sorted(reserved))} cannot be set by a request",
            param="chat_template_kwargs",
        )
    return given
