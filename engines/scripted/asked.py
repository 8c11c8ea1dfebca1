"""A request body to what the toy is to do, in terms that no dialect's field names reach.

House rules. Pure. Reads the OpenAI fields of chat and completions and vLLM's extensions; what a dialect names otherwise its writer translates first. Unknown
fields are ignored, as engines do; wrong types are refused with the field's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engines.scripted.refused import Refused
from engines.scripted.render import content_of, cut, ids_of, plain_ids
from engines.scripted.sampling import Sampling
from engines.scripted.script import Script
from engines.scripted.vocabulary import table

Json = dict[str, Any]
Ids = tuple[int, ...]

_MOST_PROMPTS = 64
_MOST_CHOICES = 16
_MOST_BIAS = 1e9  # llama.cpp's ``false``


@dataclass(frozen=True, slots=True)
class Habits:
    """What a dialect does with a request: its sampling defaults, its limit of alternatives, how many a bare ``logprobs: true`` means."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    most: int | None = None
    bare: int = 0
    #: Logprobs of sampled tokens are those after temperature (SGLang, TGI).
    processed: bool = False
    #: Penalties are read and not applied (LMDeploy).
    penalties: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. ``top`` None: no logprobs; ``limit``: most tokens of a reply; ``scored``: alternatives wanted for the prompt's tokens."""

    chat: bool
    prompts: tuple[Ids, ...]
    limit: int
    sampling: Sampling = field(default_factory=Sampling)
    n: int = 1
    stop: tuple[str, ...] = ()
    top: int | None = None
    stream: bool = False
    usage: bool = False
    ids: bool = False
    as_ids: bool = False
    echo: bool = False
    scored: int | None = None
    tools: bool = False
    processed: bool = False
    body: Mapping[str, Any] = field(default_factory=dict)


def asked(script: Script, habits: Habits, body: Json, *, chat: bool) -> Asked:
    """Read a chat or completions body. Raises Refused."""
    prompts = (chat_ids(script, body),) if chat else _prompts(script, body)
    prompts = tuple(cut(script, one) for one in prompts)
    longest = max(map(len, prompts))
    if longest >= script.context:
        raise Refused(
            f"the prompt has {longest} tokens, more than fit into the context of {script.context}", param="prompt"
        )
    options = body.get("stream_options")
    stop = body.get("stop")
    return Asked(
        chat=chat,
        prompts=prompts,
        limit=min(_limit(script, body, chat=chat), script.context - longest),
        sampling=sampling_of(script, habits, body),
        n=_whole(body, "n", 1, least=1, most=_MOST_CHOICES),
        stop=tuple(one for one in (stop if isinstance(stop, list) else [stop]) if isinstance(one, str) and one),
        top=_top(script, habits, body, chat=chat),
        stream=body.get("stream") is True,
        usage=isinstance(options, dict) and options.get("include_usage") is True,
        ids=body.get("return_token_ids") is True,
        as_ids=body.get("return_tokens_as_token_ids") is True,
        echo=body.get("echo") is True,
        scored=None
        if body.get("prompt_logprobs") is None
        else within(script, habits, _whole(body, "prompt_logprobs", 0), "prompt_logprobs"),
        tools=tools_of(body) is not None,
        processed=habits.processed
        if script.differences.processed_logprobs is None
        else script.differences.processed_logprobs,
        body=body,
    )


def sampling_of(script: Script, habits: Habits, body: Json) -> Sampling:
    """Read the sampling fields; what is left out comes from the planted difference, the script, the dialect, in this order."""
    own = script.defaults
    temperature = script.differences.temperature if script.differences.temperature is not None else own.temperature
    return Sampling(
        temperature=_number(body, "temperature", habits.temperature if temperature is None else temperature, 0, 100),
        top_p=_number(body, "top_p", own.top_p or habits.top_p, 0, 1) or 1.0,
        top_k=max(0, _whole(body, "top_k", habits.top_k if own.top_k is None else own.top_k, least=-1)),
        min_p=_number(body, "min_p", habits.min_p if own.min_p is None else own.min_p, 0, 1),
        presence=_number(body, "presence_penalty", 0.0, -2, 2) if habits.penalties else 0.0,
        frequency=_number(body, "frequency_penalty", 0.0, -2, 2) if habits.penalties else 0.0,
        repetition=_number(body, "repetition_penalty", 1.0, 0, 100) or 1.0,
        bias=_bias(body.get("logit_bias")),
        seed=_whole(body, "seed", 0, least=-(1 << 63)),
    )


def _bias(given: Any) -> dict[int, float]:
    wrong = Refused("logit_bias: an object of token ids and numbers up to 10^9 is required", param="logit_bias")
    if not isinstance(given, dict):
        if given:
            raise wrong
        return {}
    read: dict[int, float] = {}
    for key, value in given.items():
        if not str(key).isdecimal() or isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong
        if not -_MOST_BIAS <= value <= _MOST_BIAS:
            raise wrong
        read[int(key)] = float(value)
    return read


def tools_of(body: Mapping[str, Any]) -> list[Json] | None:
    """Return the tools that may be called, None without any. Raises Refused."""
    tools = body.get("tools")
    if not tools:
        return None
    if not isinstance(tools, list) or not all(isinstance(one, dict) for one in tools):
        raise Refused("tools: a list of objects is required", param="tools")
    return None if body.get("tool_choice") == "none" else tools


def within(script: Script, habits: Habits, top: int, param: str) -> int:
    """Refuse more alternatives than the engine gives."""
    most = habits.most if script.most_alternatives is None else script.most_alternatives
    if most is not None and top > most:
        raise Refused(f"{param}: {top} alternatives are more than the {most} allowed", param=param)
    return top


def messages_of(body: Json) -> list[Json]:
    """Return the conversation. Raises Refused."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise Refused("messages: a list of messages is required", param="messages")
    return messages


def chat_ids(script: Script, body: Json) -> Ids:
    """Return a chat's prompt as ids. Raises Refused."""
    continued = body.get("continue_final_message") is True
    opened = body.get("add_generation_prompt") is not False and not continued
    return ids_of(script, messages_of(body), tools_of(body), opened=opened, continued=continued)


def texts_of(body: Json, name: str) -> list[str]:
    """Return a field that is one text or several. Raises Refused."""
    given = body.get(name)
    listed: list[Any] = given if isinstance(given, list) else [given]
    if not listed or not all(isinstance(one, str | dict) for one in listed):
        raise Refused(f"{name}: a text or a list of texts is required", param=name)
    return [one if isinstance(one, str) else content_of({"content": one.get("text")}) for one in listed]


def known(ids: Any, name: str, size: int) -> Ids:
    """Return token ids that the vocabulary holds. Raises Refused."""
    if not isinstance(ids, list) or not all(isinstance(one, int) and 0 <= one < size for one in ids):
        raise Refused(f"{name}: token ids from 0 to {size - 1} are required", param=name)
    return tuple(ids)


def _prompts(script: Script, body: Json) -> tuple[Ids, ...]:
    prompt, size = body.get("prompt"), len(table(script.vocabulary))
    alone = isinstance(prompt, str) or (isinstance(prompt, list) and prompt and isinstance(prompt[0], int))
    given = [prompt] if alone else prompt
    if not isinstance(given, list) or not given or len(given) > _MOST_PROMPTS:
        raise Refused("prompt: a text, token ids, or a list of either is required", param="prompt")
    special = body.get("add_special_tokens") is not False
    read = [
        plain_ids(script, one, special=special) if isinstance(one, str) else known(one, "prompt", size) for one in given
    ]
    if not all(read):
        raise Refused("prompt: must not be empty", param="prompt")
    return tuple(read)


def _limit(script: Script, body: Json, *, chat: bool) -> int:
    own = script.defaults
    default = script.differences.max_tokens
    if default is None:
        default = (own.max_tokens_chat or 1 << 20) if chat else (own.max_tokens_completions or 16)
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    return _whole(body, name, default, most=1 << 31)


def _top(script: Script, habits: Habits, body: Json, *, chat: bool) -> int | None:
    value = body.get("logprobs")
    if not chat:
        if value is None or value is False:
            return None
        return within(
            script, habits, _whole({"logprobs": int(value) if value is True else value}, "logprobs", 0), "logprobs"
        )
    if not value:
        return None
    if body.get("top_logprobs") is None:
        return habits.bare
    return within(script, habits, _whole(body, "top_logprobs", 0), "top_logprobs")


def _whole(body: Mapping[str, Any], name: str, default: int, *, least: int = 0, most: int = 1 << 63) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Refused(f"{name}: a whole number from {least} on is required", param=name)
    return value


def _number(body: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise Refused(f"{name}: a number from {least} to {most} is required", param=name)
    return float(value)
