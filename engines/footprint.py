"""What is known of an engine's stack, each fact with its origin; one short id for all of it; what differs between two.

House rules. Frozen values, no I/O. A fact nobody knows is ``unknown``, never guessed, and equal to nothing. Only the fields below are ever kept, so that
nothing an engine happens to show (keys, passwords, ports, seeds, counters, start times) can get in; and what is kept is redacted all the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson
from msgspec import Struct

#: Every field, in the order in which it is shown.
FIELDS = (
    "engine",
    "version",
    "model",
    "revision",
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "attention_backend",
    "prefix_caching",
    "graph_capture",
    "logit_step",
    "accumulation",
    "tensor_parallel",
    "gpu",
    "driver",
    "tokenizer_hash",
    "chat_template_hash",
    "sampling_defaults",
    "logprob_mode",
    "config_hash",
    "planted",
)
#: Fields that came after footprints were first kept: where nobody knows them they are no part of the id, so that an update renames no stack.
_LATER = frozenset({"planted"})
#: Other names people use in ``declare`` and engines in their replies.
ALIASES = {
    "quantisation": "quantization",
    "accumulation_precision": "accumulation",
    "tp": "tensor_parallel",
    "tensor_parallel_size": "tensor_parallel",
    "tp_size": "tensor_parallel",
    "attention": "attention_backend",
    "kv_cache": "kv_cache_dtype",
    "enable_prefix_caching": "prefix_caching",
}
#: Different in every two engines by nature: no difference of the stack.
_NAMES_ONLY = frozenset({"config_hash"})

#: One name for each number format, in the fields that name one.
FORMATS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
}
_FORMATTED = frozenset({"dtype", "kv_cache_dtype", "accumulation"})

Value = str | int | float | bool

_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_SECRET = re.compile(r"(?i)\b(?:sk|hf|pk|ghp|xox[bp])[-_][A-Za-z0-9_-]{8,}|\bBearer\s+\S+")
#: What follows such a name in an address or a text is a credential, and so is the value of such a key.
_NAMED = re.compile(
    r"(?i)\b((?:api[-_]?key|[\w-]*token|[\w-]*secret|pass(?:word|wd)?|[\w-]*signature|sig|key)=)[^&\s\"']+"
)
_SECRET_KEY = re.compile(
    r"(?i)(?:^|[-_])(?:(?:api)?key|token|secret|password|passwd|passphrase|credentials?|signature)$"
)
_LONGEST = 400
_LOOKED_AT = 1_000  # of a text, whatever is kept of it: looking for credentials takes time
_LARGEST = 1 << 63


class Origin(StrEnum):
    """How a fact is known."""

    PROBED = "probed"
    DECLARED = "declared"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


class Fact(Struct, frozen=True):
    """One fact. ``value`` is None exactly when ``origin`` is unknown."""

    value: Value | None = None
    origin: Origin = Origin.UNKNOWN


UNKNOWN = Fact()


class Difference(Struct, frozen=True):
    """One field two footprints do not share. ``sure``: both values are known."""

    field: str
    one: Fact
    other: Fact

    @property
    def sure(self) -> bool:
        """True when both sides are known and differ; false when one side is not known."""
        return self.one.origin is not Origin.UNKNOWN and self.other.origin is not Origin.UNKNOWN


class Footprint(Struct, frozen=True):
    """One engine's stack; ``facts`` has every field of ``FIELDS``."""

    facts: dict[str, Fact]

    @property
    def id(self) -> str:
        """A short id of all facts: the same stack started again has the same one."""
        told = {name: value for name, value in self.as_json().items() if value is not None or name not in _LATER}
        return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def fact(self, field: str) -> Fact:
        """Return a fact, unknown when nobody knows."""
        return self.facts.get(field, UNKNOWN)

    def value(self, field: str) -> str:
        """Return a fact as text, empty when it is unknown."""
        value = self.fact(field).value
        return "" if value is None else str(value)

    def as_json(self) -> dict[str, Value | None]:
        """Return plain values by field, None where unknown."""
        return {field: self.fact(field).value for field in FIELDS}

    def origins(self) -> dict[str, str]:
        """Return the origin of every field."""
        return {field: self.fact(field).origin.value for field in FIELDS}


def make(probed: Mapping[str, Any], inferred: Mapping[str, Any], declared: Mapping[str, Any]) -> Footprint:
    """Put facts together: what was declared beats what was probed, which beats what was inferred.

    Values that say nothing (null, empty, "auto") are unknown: "auto" on two engines is not the same thing.
    """
    facts = dict.fromkeys(FIELDS, UNKNOWN)
    for origin, given in ((Origin.INFERRED, inferred), (Origin.PROBED, probed), (Origin.DECLARED, declared)):
        for name, raw in given.items():
            field = ALIASES.get(name, name)
            value = _value(raw)
            if field in _FORMATTED and isinstance(value, str):
                value = FORMATS.get(value.lower().removeprefix("torch."), value)
            if field in facts and value is not None:
                facts[field] = Fact(value, origin)
    return Footprint(facts)


def difference(one: Footprint, other: Footprint) -> tuple[Difference, ...]:
    """Return the fields in which two stacks differ, or may: a field that one side does not know is listed, unsure.

    A field neither knows is left out. ``config_hash`` is compared only between two of one engine and version.
    """
    same_engine = all(one.fact(name) == other.fact(name) for name in ("engine", "version"))
    found = []
    for field in FIELDS:
        a, b = one.fact(field), other.fact(field)
        if a.value == b.value or (field in _NAMES_ONLY and not same_engine):
            continue
        found.append(Difference(field, a, b))
    return tuple(found)


def changes(before: Footprint, after: Footprint) -> tuple[Difference, ...]:
    """Return what changed of one engine's stack between two looks at it.

    A fact that is no longer told is no change, nor is one that behaviour has shown for the first time: a route may fail, and a canary may say too little.
    """
    return tuple(one for one in difference(before, after) if one.sure or one.other.origin is Origin.PROBED)


def redact(text: str) -> str:
    """Return the text without credentials: user info in addresses, values of telling names, keys and bearer tokens."""
    return _SECRET.sub("[redacted]", _NAMED.sub(r"\1[redacted]", _USERINFO.sub("[redacted]@", text)))


def _value(raw: Any) -> Value | None:
    """Return what is kept of a value, None where it says nothing, or is nothing that a footprint could be compared by (NaN differs from itself)."""
    if isinstance(raw, Mapping):
        try:
            raw = orjson.dumps(_public(raw), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
        except (TypeError, RecursionError):
            return None
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int | float):
        return raw if -_LARGEST < raw < _LARGEST else None
    if not isinstance(raw, str) or raw.strip().lower() in ("", "auto", "none", "null", "unknown"):
        return None
    text = raw.strip()[:_LOOKED_AT].encode("utf-8", "replace").decode()
    return redact(text)[:_LONGEST]


def _public(raw: Any) -> Any:
    """Return the value without what telling keys hold, however deep they are."""
    if isinstance(raw, Mapping):
        return {key: _public(value) for key, value in raw.items() if not _SECRET_KEY.search(str(key))}
    return [_public(value) for value in raw] if isinstance(raw, list | tuple) else raw
