"""Which exchanges are mirrored: a keyed hash of a key, held against a rate; where there is no key to share, an even draw.

House rules. Pure: the same key and salt give the same decision in every process, on every replica, after every restart. The live path
decides at the head with what a head shows (``decide``); a rule that needs the body is settled by the judge with the same functions
(``effective_rate``). The salt is a secret of the installation, so that no client can choose its way into the sample.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import orjson

from proxy.config import Rule, Sampling

_ULP = 2.0**-53
_KEY_BYTES = 64  # BLAKE2b's longest key (RFC 7693)


class Standing(Enum):
    """What the head alone says of a request. ``OFFERED``: the body decides, later."""

    NOT_SAMPLED = "not_sampled"
    SAMPLED = "sampled"
    OFFERED = "offered"


def position(salt: str, key: bytes) -> float:
    """Where a key stands in [0, 1): the top 53 bits of a 64-bit keyed BLAKE2b, uniform over keys and exact as a double."""
    hashed = _keyed(salt).copy()
    hashed.update(key)
    return (int.from_bytes(hashed.digest(), "big") >> 11) * _ULP


@lru_cache(maxsize=8)
def _keyed(salt: str) -> hashlib.blake2b:
    """The hash with the key taken in; to be copied."""
    secret = salt.encode()
    return hashlib.blake2b(digest_size=8, key=secret if len(secret) <= _KEY_BYTES else hashlib.blake2b(secret).digest())


def fingerprint(salt: str, key: bytes) -> bytes:
    """Return a keyed hash (hex) to stand for a header value: equal values give equal hashes, none can be guessed back without the salt.

    Domain-separated from ``position``, so that it does not show where the key stands.
    """
    secret = hashlib.blake2b(salt.encode(), digest_size=32, person=b"fingerprint").digest()
    return hashlib.blake2b(key, digest_size=12, key=secret).hexdigest().encode()


def decide(sampling: Sampling, u: float | None, path: str) -> Standing:
    """Hold ``u`` (None: the key needs the body) against every rate that a request for ``path`` can still meet once its body is known."""
    lowest, highest = possible_rates(sampling, path)
    if u is None:
        # Every u is below 1 and none below 0, so the extremes need no key.
        if highest <= 0.0:
            return Standing.NOT_SAMPLED
        return Standing.SAMPLED if lowest >= 1.0 else Standing.OFFERED
    if u >= highest:
        return Standing.NOT_SAMPLED
    return Standing.SAMPLED if u < lowest else Standing.OFFERED


def possible_rates(sampling: Sampling, path: str) -> tuple[float, float]:
    """Return the lowest and the highest rate that rules can give a request for ``path``, its body unknown."""
    if not sampling.rules:
        return sampling.rate, sampling.rate
    rates: list[float] = []
    for rule in sampling.rules:
        match = rule.match
        if match.path is not None and not fnmatchcase(path, match.path):
            continue
        rates.append(rule.rate)
        if match.model is None and match.has_tools is None and match.stream is None:
            break
    else:
        rates.append(sampling.rate)
    return min(rates), max(rates)


def effective_rate(
    sampling: Sampling, *, model: str | None, path: str, has_tools: bool | None, stream: bool | None
) -> float:
    """Return the rate of the first rule that fits, else the general one. What is unknown (None) fits no rule that asks for it."""
    for rule in sampling.rules:
        if _fits(rule, model=model, path=path, has_tools=has_tools, stream=stream):
            return rule.rate
    return sampling.rate


def _fits(rule: Rule, *, model: str | None, path: str, has_tools: bool | None, stream: bool | None) -> bool:
    match = rule.match
    return (
        (match.model is None or (model is not None and fnmatchcase(model, match.model)))
        and (match.path is None or fnmatchcase(path, match.path))
        and (match.has_tools is None or match.has_tools is has_tools)
        and (match.stream is None or match.stream is stream)
    )


def conversation_key(body: dict[str, Any]) -> bytes:
    """Return what all requests of one conversation share: the messages up to and including the user's first, or the prompt itself.

    The model is left out, so that the same conversation gets the same decision whatever answers it.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        return orjson.dumps(
            [body.get("instructions"), body.get("prompt", body.get("input"))], option=orjson.OPT_SORT_KEYS
        )
    opening: list[Any] = []
    for message in messages:
        opening.append(message)
        if isinstance(message, dict) and message.get("role") == "user":
            break
    return orjson.dumps(opening, option=orjson.OPT_SORT_KEYS)


def body_facts(body: dict[str, Any]) -> tuple[str | None, bool, bool]:
    """(model, has_tools, stream) of a parsed request body, as rules look at them."""
    model = body.get("model")
    has_tools = bool(body.get("tools")) or bool(body.get("functions"))
    return (model if isinstance(model, str) else None), has_tools, body.get("stream") is True


def settle(sampling: Sampling, *, u: float | None, salt: str, path: str, body: dict[str, Any]) -> bool:
    """Say the final word on an ``OFFERED`` exchange, its body parsed: true when it is sampled."""
    model, has_tools, stream = body_facts(body)
    rate = effective_rate(sampling, model=model, path=path, has_tools=has_tools, stream=stream)
    return (position(salt, conversation_key(body)) if u is None else u) < rate
