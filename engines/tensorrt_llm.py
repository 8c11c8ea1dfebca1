"""TensorRT-LLM's ``trtllm-serve``: OpenAI's chat with logprobs; completions by text.

House rules. Sources: its ``openai_protocol``, ``openai_server`` and ``postprocess_handlers``. Facts used here: a field it does not know is a 400; ``logprobs`` on
completions is refused by older revisions, and beyond 1 by those on the TensorRT backend, so it is not asked for; alternatives need the PyTorch
backend or ``gather_generation_logits`` and are a 400 otherwise, which the probe finds out; a token that is missing from its own table keeps -9999.0;
nulls are left out of events and kept in whole replies; ``cache_salt`` is a field of chats alone. Every text of a row is one token decoded by itself, which
for SentencePiece vocabularies loses the leading blank. Nothing was run against a live server.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from engines import openai
from engines.dialect import Answer, Defaults, Endpoint, Json
from engines.neutral import without_neutral
from engines.openai import asked_alternatives, choices_of
from engines.respell import respelled
from proxy.compare.token_stream import Reply

#: ``top_k`` -1 (off, for vLLM) is out of its range; 0 is its own default.
_NEUTRAL = frozenset({"top_k"})


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask a chat for logprobs, and every stream for usage."""
    shaped = without_neutral(body, _NEUTRAL)
    if endpoint is Endpoint.CHAT:
        shaped = openai.with_logprobs(endpoint, shaped, top)
    return openai.with_usage(shaped)


def inject(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask a chat for logprobs as far as ``strip`` can undo it."""
    return openai.undoable(endpoint, body, top) if endpoint is Endpoint.CHAT else dict(body)


def strip(endpoint: Endpoint, client: Json, value: Json) -> Json | None:
    """Take away what was not asked for: from an event with its key, from a whole reply by a null."""
    asked = asked_alternatives(endpoint, client)
    for choice in choices_of(value):
        if asked is None:
            _without(choice, "logprobs", event="delta" in choice)
        elif asked:
            openai.cut_alternatives(choice, asked)
        else:
            for row in _rows(choice):
                _without(row, "top_logprobs", event="delta" in choice)
    return value


def _without(holder: Json, name: str, *, event: bool) -> None:
    if event:
        holder.pop(name, None)
    elif name in holder:
        holder[name] = None


def _rows(choice: Json) -> list[Json]:
    logprobs = choice.get("logprobs")
    rows = logprobs.get("content") if isinstance(logprobs, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def read(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer; blanks that decoding token by token has lost are put back."""
    seen = openai.read(endpoint, request, answer)
    return structs.replace(seen, choices=tuple(respelled(stream) for stream in seen.choices))


def cache_salt(body: Json, salt: str) -> Json:
    """Return the body with a KV cache of its own, where the route knows the field."""
    return {**body, "cache_salt": salt} if "messages" in body else dict(body)


DIALECT = replace(
    openai.DIALECT,
    name="tensorrt_llm",
    max_top_logprobs=None,
    defaults=Defaults(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0),
    logprob_mode="unknown",
    ask=ask,
    inject=inject,
    strip=strip,
    read=read,
    cache_salt=cache_salt,
    notes=(
        "completions are compared by text: logprobs there are refused by many versions",
        "alternatives need the PyTorch backend, or gather_generation_logits with the TensorRT one",
        "reasoning_effort is low where the request has none; a field it does not know is answered with 400",
        "no token ids and no scoring over HTTP",
    ),
)
