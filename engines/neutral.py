"""What a shadow's copy may leave out, or say in other words, without asking for anything else.

House rules. Pure; every function returns a copy. These belong to a dialect's ``ask`` alone: the primary's request, and what ``inject`` makes of it, keep the
client's own words. Only what changes nothing is touched: a field that holds the value an absent one has in OpenAI's description of it, and two names for
one bound.
"""

from __future__ import annotations

from typing import Any

from engines.dialect import Json

#: What each field means when it is absent. ``top_k`` is off at 0 (OpenAI-compatible engines) and at -1 (vLLM, SGLang).
_ABSENT: dict[str, tuple[Any, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "typical_p": (1,),
    "n": (1,),
    "best_of": (1,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "echo": (False,),
    "response_format": ({"type": "text"},),
}

#: Without a say in greedy decoding, where the most likely token is taken whatever these leave of the others.
_OF_SAMPLING = frozenset({"top_p", "top_k", "min_p", "typical_p"})


def without_neutral(body: Json, fields: frozenset[str]) -> Json:
    """Return a copy without those of ``fields`` that say nothing: null, neutral, or a cut of the distribution in a greedy request."""
    return {name: value for name, value in body.items() if name not in fields or not _says_nothing(body, name, value)}


def saying(body: Json, fields: frozenset[str]) -> tuple[str, ...]:
    """Return those of ``fields`` that say something in this body, in alphabetical order."""
    return tuple(sorted(name for name in fields & body.keys() if not _says_nothing(body, name, body[name])))


def is_greedy(body: Json) -> bool:
    """Tell a request at temperature 0."""
    temperature = body.get("temperature")
    return isinstance(temperature, int | float) and not isinstance(temperature, bool) and temperature == 0


def with_max_tokens(body: Json) -> Json:
    """Return a copy whose bound on the length goes by its older name, for engines that overlook ``max_completion_tokens`` and go on for ever."""
    if body.get("max_completion_tokens") is None:
        return {name: value for name, value in body.items() if name != "max_completion_tokens"}
    renamed = {name: value for name, value in body.items() if name != "max_completion_tokens"}
    return {**renamed, "max_tokens": body["max_completion_tokens"]}


def at_most(body: Json, field: str, most: int) -> Json:
    """Return a copy whose number in ``field`` is at most ``most``, for an engine that refuses more."""
    value = body.get(field)
    if isinstance(value, int) and not isinstance(value, bool) and value > most:
        return {**body, field: most}
    return dict(body)


def _says_nothing(body: Json, name: str, value: Any) -> bool:
    if value is None or (name in _OF_SAMPLING and is_greedy(body)):
        return True
    known = _ABSENT.get(name, ())
    return any(value == one and isinstance(value, bool) is isinstance(one, bool) for one in known)
