"""What to generate and what to show of it, read from the body of a chat or completions request.

Field names and meanings are OpenAI's, with vLLM's additions; unknown fields are ignored, as vLLM does, but a field that would change what is generated and
that this engine cannot honour (a grammar, a forced tool call) is refused, never ignored. JSON's null means "not given" everywhere.

House rules: pure; knows no model, no tokenizer and no HTTP beyond the status of a refusal. Bounds come in as arguments.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from engines.reference.refusal import Json, RefusalError, convert, known_ids
from engines.reference.sampling import Sampling
from engines.reference.work import Generation

#: OpenAI's documented limit for ``n``.
MAX_N = 128
#: Positions of which one request gets every token's value: 256 x 150,000 float64 are 0.3 GB.
MAX_WHOLE = 256
#: Change what is generated, and are not implemented here.
_UNSUPPORTED = (
    "suffix",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "functions",
    "allowed_token_ids",
    "bad_words",
)


class Shown(Struct, frozen=True, kw_only=True):
    """What the reply contains beside the text."""

    rows: bool = False
    stream: bool = False
    usage: bool = False
    echo: bool = False
    ids: bool = False
    tokens_as_ids: bool = False


class _Fields(Struct, frozen=True):
    """The fields of both endpoints, as they stand in JSON."""

    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    n: int | None = None
    best_of: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    logprobs: bool | int | None = None
    top_logprobs: int | None = None
    prompt_logprobs: int | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    echo: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    tool_choice: str | dict[str, Any] | None = None


class _WholeFields(Struct, frozen=True):
    tokens: list[int]
    start: int | None = None


class Bounds(Struct, frozen=True):
    """What the loaded model allows: alternatives a position, ids, tokens of prompt and reply together.

    ``defaults`` is the sampling it asks for when a request says nothing.
    """

    max_logprobs: int
    vocabulary: int
    max_model_len: int
    defaults: Sampling


def model_of(body: Json, served: str) -> None:
    """Refuse a model that is not served; a request may leave the name out."""
    named = body.get("model")
    if named is None or named == served:
        return
    if not isinstance(named, str):
        raise RefusalError("model: expected a string", param="model")
    raise RefusalError(
        f"The model `{named[:200]}` does not exist; this server has `{served}`.",
        param="model",
        status=404,
        kind="NotFoundError",
    )


def shown(body: Json, *, chat: bool) -> Shown:
    """Read what the client wants to see; refuse combinations that vLLM refuses."""
    fields = convert(body, _Fields)
    if chat and fields.top_logprobs is not None and not fields.logprobs:
        raise RefusalError("top_logprobs needs logprobs to be true", param="top_logprobs")
    if chat and not isinstance(fields.logprobs, bool | None):
        raise RefusalError("logprobs: expected a boolean", param="logprobs")
    stream = bool(fields.stream)
    if stream and fields.prompt_logprobs is not None:
        raise RefusalError("prompt_logprobs are not available on a stream", param="prompt_logprobs")
    if fields.stream_options is not None and not stream:
        raise RefusalError("stream_options needs stream to be true", param="stream_options")
    return Shown(
        rows=bool(fields.logprobs) if chat else fields.logprobs is not None and fields.logprobs is not False,
        stream=stream,
        usage=bool((fields.stream_options or {}).get("include_usage")),
        echo=bool(fields.echo) and not chat,
        ids=bool(fields.return_token_ids),
        tokens_as_ids=bool(fields.return_tokens_as_token_ids),
    )


def generation(body: Json, bounds: Bounds, *, chat: bool, longest: int) -> Generation:
    """Read what to generate after prompts of which the longest has ``longest`` tokens."""
    fields = convert(body, _Fields)
    _supported(body, fields)
    room = bounds.max_model_len - longest
    if room < 0 or (room == 0 and chat):
        raise RefusalError(
            f"This model's maximum context length is {bounds.max_model_len} tokens, and the prompt alone has {longest}.",
            param="input_tokens",
        )
    if chat:
        top = (fields.top_logprobs or 0) if fields.logprobs else None
    else:
        top = None if fields.logprobs is None or fields.logprobs is False else int(fields.logprobs)
    prompt_top = fields.prompt_logprobs
    if fields.echo and not chat and prompt_top is None:
        prompt_top = top
    stops = [fields.stop] if isinstance(fields.stop, str) else fields.stop or []
    if "" in stops:
        raise RefusalError("stop: an empty string cannot be waited for", param="stop")
    known_ids(tuple(fields.stop_token_ids or ()), bounds.vocabulary, "stop_token_ids")
    return Generation(
        max_tokens=_max_tokens(fields, room, bounds.max_model_len, chat=chat),
        sampling=_sampling(fields, bounds),
        n=_between(fields.n, "n", 1, MAX_N, 1),
        min_tokens=_between(fields.min_tokens, "min_tokens", 0, bounds.max_model_len, 0),
        stop=tuple(stops),
        stop_ids=frozenset(fields.stop_token_ids or ()),
        include_stop=bool(fields.include_stop_str_in_output),
        ignore_end=bool(fields.ignore_eos),
        skip_special=fields.skip_special_tokens is not False,
        top=_alternatives(top, "top_logprobs" if chat else "logprobs", bounds),
        prompt_top=_alternatives(prompt_top, "prompt_logprobs", bounds),
    )


def whole(body: Json, bounds: Bounds) -> tuple[tuple[int, ...], Generation]:
    """Read a request for every token's value: (the ids, what to do with them)."""
    fields = convert(body, _WholeFields)
    ids = tuple(fields.tokens)
    known_ids(ids, bounds.vocabulary, "tokens")
    if len(ids) < 2:
        raise RefusalError("tokens: at least two, for nothing comes before the first", param="tokens")
    start = _between(fields.start, "start", 1, len(ids) - 1, max(1, len(ids) - MAX_WHOLE))
    if len(ids) - start > MAX_WHOLE:
        raise RefusalError(
            f"start: at most {MAX_WHOLE} positions a request, these are {len(ids) - start}", param="start"
        )
    asked = generation({"max_tokens": 0}, bounds, chat=False, longest=len(ids))
    return ids, replace(asked, whole_from=start)


def _supported(body: Json, fields: _Fields) -> None:
    for name in _UNSUPPORTED:
        if body.get(name):
            raise RefusalError(f"{name}: not supported by this engine", param=name)
    if fields.best_of is not None and fields.best_of != (fields.n or 1):
        raise RefusalError("best_of: not supported by this engine", param="best_of")
    if (fields.response_format or {}).get("type", "text") != "text":
        raise RefusalError("response_format: this engine generates unconstrained text only", param="response_format")
    if fields.tool_choice not in (None, "none", "auto"):
        raise RefusalError(
            "tool_choice: this engine shows tools to the model and parses or forces no call", param="tool_choice"
        )


def _max_tokens(fields: _Fields, room: int, length: int, *, chat: bool) -> int:
    asked = fields.max_completion_tokens if chat and fields.max_completion_tokens is not None else fields.max_tokens
    if asked is None:
        return room if chat else min(16, room)  # 16: the default of OpenAI's completions
    least = 1 if chat else 0
    if asked < least:
        raise RefusalError(f"max_tokens must be at least {least}, got {asked}.", param="max_tokens")
    if asked > room:
        raise RefusalError(
            f"max_tokens={asked} is too many: the context of {length} tokens has room for {room} after the prompt.",
            param="max_tokens",
        )
    return asked


def _sampling(fields: _Fields, bounds: Bounds) -> Sampling:
    own = bounds.defaults
    bias = tuple((_token(key), value) for key, value in (fields.logit_bias or {}).items())
    known_ids(tuple(token for token, _ in bias), bounds.vocabulary, "logit_bias")
    for token, value in bias:
        _within(value, f"logit_bias.{token}", -100, 100, 0.0)
    return Sampling(
        temperature=_within(fields.temperature, "temperature", 0, 1e6, own.temperature),
        top_p=_within(fields.top_p, "top_p", 0, 1, own.top_p, above=True),
        top_k=_between(fields.top_k, "top_k", -1, 2**31, own.top_k),
        min_p=_within(fields.min_p, "min_p", 0, 1, own.min_p),
        seed=fields.seed,
        repetition_penalty=_within(
            fields.repetition_penalty, "repetition_penalty", 0, 1e6, own.repetition_penalty, above=True
        ),
        presence_penalty=_within(fields.presence_penalty, "presence_penalty", -2, 2, own.presence_penalty),
        frequency_penalty=_within(fields.frequency_penalty, "frequency_penalty", -2, 2, own.frequency_penalty),
        bias=bias,
    )


def _token(key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 10):
        raise RefusalError("logit_bias: the keys are token ids", param="logit_bias")
    return int(key)


def _alternatives(count: int | None, name: str, bounds: Bounds) -> int | None:
    if count is None:
        return None
    if count == -1:
        count = bounds.vocabulary
    if count < 0 or count > bounds.max_logprobs:
        raise RefusalError(
            f"{name}={count} is outside 0 .. {bounds.max_logprobs} (the server's --max-logprobs)", param=name
        )
    return count


def _between(value: int | None, name: str, low: int, high: int, default: int) -> int:
    if value is None:
        return default
    if not low <= value <= high:
        raise RefusalError(f"{name} must be between {low} and {high}, got {value}.", param=name)
    return value


def _within(value: float | None, name: str, low: float, high: float, default: float, *, above: bool = False) -> float:
    if value is None:
        return default
    if not low <= value <= high or (above and value == low):
        raise RefusalError(
            f"{name} must be {'above' if above else 'at least'} {low} and at most {high}, got {value}.", param=name
        )
    return value
