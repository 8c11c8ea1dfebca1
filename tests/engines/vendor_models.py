"""Run by a Python that has the vendors' own libraries: holds requests against their types, and writes replies with them.

Standard input: ``{"requests": [[vendor, body], ...], "tokens": [[text, id, logprob, [[text, logprob], ...]], ...]}``. Standard output:
``{"refused": [[vendor, why], ...], "replies": {vendor: reply}, "events": {vendor: [event, ...]}}``. Everything that is written went through the vendors' models.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from fireworks.types.chat import ChatCompletionChunk as FireworksChunk
from fireworks.types.chat import CompletionCreateResponse as FireworksReply
from fireworks.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as FireworksRequest
from huggingface_hub import ChatCompletionInput, ChatCompletionOutput, ChatCompletionStreamOutput, TextGenerationInput
from ollama import ChatResponse, GenerateResponse
from ollama._types import ChatRequest, GenerateRequest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as OpenAIRequest
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from together.types.chat import ChatCompletion as TogetherReply
from together.types.chat import ChatCompletionChunk as TogetherChunk
from together.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as TogetherRequest

_STRICT = ConfigDict(extra="forbid", strict=True)
_TYPED = {"fireworks": FireworksRequest, "openai": OpenAIRequest, "together": TogetherRequest}
_OLLAMA = {"ollama_chat": ChatRequest, "ollama_generate": GenerateRequest}
_FIELDS = {"tgi": ChatCompletionInput, "tgi_tokenize": TextGenerationInput}


def refused(vendor: str, body: dict[str, Any]) -> str | None:
    """Say what a vendor's own type has against a request; None when it takes it."""
    if vendor in _FIELDS:
        known = {field.name for field in dataclasses.fields(_FIELDS[vendor])}
        unknown = sorted(body.keys() - known)
        if not unknown:
            _FIELDS[vendor].parse_obj(body)
        return f"unknown {unknown}" if unknown else None
    unknown = sorted(body.keys() - _OLLAMA[vendor].model_fields.keys()) if vendor in _OLLAMA else []
    if unknown:
        return f"unknown {unknown}"
    try:
        if vendor in _OLLAMA:
            _OLLAMA[vendor].model_validate(body)
        else:
            TypeAdapter(with_config(_STRICT)(_TYPED[vendor])).validate_python(body)
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return None


def usage(tokens: list[Any]) -> dict[str, int]:
    return {"prompt_tokens": 11, "completion_tokens": len(tokens), "total_tokens": 11 + len(tokens)}


def row(token: list[Any], **own: Any) -> dict[str, Any]:
    text, _, logprob, top = token
    listed = [{"token": name, "logprob": value, "bytes": list(name.encode()), **own} for name, value in top]
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": listed, **own}


def fireworks_row(token: list[Any]) -> dict[str, Any]:
    return {**row(token, token_id=7), "token_id": token[1], "text_offset": 0}


def openai_shaped(tokens: list[Any], make: Any, **head: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a reply and its events in OpenAI's shape, ``make`` writing a row."""
    common = {"id": "x", "created": 1, "model": "m", **head}
    message = {"role": "assistant", "content": "".join(token[0] for token in tokens)}
    rows = {"content": [make(token) for token in tokens], "refusal": None}
    choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": rows}
    whole = {**common, "object": "chat.completion", "choices": [choice], "usage": usage(tokens)}
    events: list[dict[str, Any]] = []
    for at, token in enumerate(tokens):
        last = at == len(tokens) - 1
        delta = {"role": "assistant", "content": token[0]}
        one = {"index": 0, "delta": delta, "logprobs": {"content": [make(token)], "refusal": None}}
        one["finish_reason"] = "stop" if last else None
        events.append(
            {**common, "object": "chat.completion.chunk", "choices": [one], "usage": usage(tokens) if last else None}
        )
    return whole, events


def together_shaped(tokens: list[Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    common = {"id": "x", "created": 1, "model": "m"}
    texts, ids, values, _ = (list(column) for column in zip(*tokens, strict=True))
    message = {"role": "assistant", "content": "".join(texts)}
    arrays = {"tokens": texts, "token_ids": ids, "token_logprobs": values}
    choice = {"index": 0, "finish_reason": "eos", "message": message, "logprobs": arrays}
    whole = {**common, "object": "chat.completion", "prompt": [], "choices": [choice], "usage": usage(tokens)}
    events = []
    for at, (text, known, value, top) in enumerate(tokens):
        last = at == len(tokens) - 1
        one = {"index": 0, "delta": {"role": "assistant", "content": text, "token_id": known}, "logprobs": value}
        one |= {"top_logprobs": dict(top), "finish_reason": "eos" if last else None}
        events.append(
            {**common, "object": "chat.completion.chunk", "choices": [one], "usage": usage(tokens) if last else None}
        )
    return whole, events


def ollama_shaped(tokens: list[Any], place: Any) -> list[dict[str, Any]]:
    """Return the lines of one of Ollama's own routes; ``place`` puts a text where that route has it."""
    made = [{"model": "m", "done": False, **place(token[0]), "logprobs": [row(token)]} for token in tokens]
    counts = {"prompt_eval_count": 11, "eval_count": len(tokens)}
    return [*made, {"model": "m", **place(""), "done": True, "done_reason": "stop", **counts}]


def through(model: Any, value: dict[str, Any]) -> dict[str, Any]:
    """Return the value as the model writes it; raises when the model does not take it."""
    if dataclasses.is_dataclass(model):
        return dataclasses.asdict(model.parse_obj_as_instance(value))
    return TypeAdapter(model).validate_python(value).model_dump(mode="json")


def written(tokens: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return every vendor's reply and events."""
    tgi = openai_shaped(tokens, row, system_fingerprint="3.3.6-sha")
    openai = openai_shaped(tokens, row)
    fireworks = openai_shaped(tokens, fireworks_row)
    fireworks[0]["choices"][0]["token_ids"] = [token[1] for token in tokens]
    together = together_shaped(tokens)
    models = {
        "tgi": (ChatCompletionOutput, ChatCompletionStreamOutput, tgi),
        "openai": (ChatCompletion, ChatCompletionChunk, openai),
        "fireworks": (FireworksReply, FireworksChunk, fireworks),
        "together": (TogetherReply, TogetherChunk, together),
    }
    replies = {vendor: through(whole, made[0]) for vendor, (whole, _, made) in models.items()}
    events = {vendor: [through(part, one) for one in made[1]] for vendor, (_, part, made) in models.items()}
    chat = ollama_shaped(tokens, lambda text: {"message": {"role": "assistant", "content": text}})
    events["ollama_chat"] = [through(ChatResponse, line) for line in chat]
    generate = ollama_shaped(tokens, lambda text: {"response": text})
    events["ollama_generate"] = [through(GenerateResponse, line) for line in generate]
    return replies, events


def main() -> None:
    """Read, hold, write."""
    given = json.load(sys.stdin)
    whys = [(vendor, refused(vendor, body)) for vendor, body in given["requests"]]
    replies, events = written(given["tokens"])
    refusals = [[vendor, why] for vendor, why in whys if why is not None]
    json.dump({"refused": refusals, "replies": replies, "events": events}, sys.stdout)


if __name__ == "__main__":
    main()
