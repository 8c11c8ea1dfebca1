"""Whether a JSON value fits a schema that a client wrote: yes, no, or "that would take too long to find out".

House rules. The schema is hostile: it can ask for exponential work (``$ref`` to itself in two branches), for a regular expression that never ends, and for
files and addresses. So every keyword that is evaluated costs steps of a budget, nothing is ever fetched, and what cannot be bounded is
not judged. The validator is the Python library ``jsonschema``, whose every keyword is a function that can be charged for; a validator in
native code is faster and cannot be stopped half-way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

import orjson
from msgspec import Struct

#: A step takes some 5 microseconds of the library's time.
STEPS = 10_000
#: Bytes of schema, and of the value, that are looked at.
LARGEST = 65_536

_DRAFTS = {
    "": "Draft202012Validator",
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
}
#: Keywords of which the library does more than it can be charged for: they look through whole schemas of their own accord.
_UNBOUNDED = frozenset(
    {"patternProperties", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"}
)
#: What makes a part of a schema a document of its own: it would be looked for elsewhere, or validated by the library's own class, which charges for nothing.
_ELSEWHERE = (b'"$id"', b'"$anchor"', b'"$schema"')
#: A keyword within another takes some six frames of Python's thousand. Beyond those the library's tables, which are of Rust, panic instead of raising.
_DEEPEST = 80
_LOOK_UP = 16  # steps for following a reference
#: Apply one schema to each element, whatever is in it.
_EACH = frozenset({"items", "additionalItems", "additionalProperties", "contains", "propertyNames"})
_DEEP = frozenset({"const", "enum", "uniqueItems"})  # compare values, however large they are

#: A pattern without groups, so that only its own repetitions multiply.
_FLAT = re.compile(r"[^()]{1,200}")
_REPEATED = re.compile(r"[*+]|\{\d*,\d*\}|\?")
_LONGEST = 256  # code points that a pattern is looked for in


class Unjudged(Exception):
    """The schema cannot be applied within bounds."""


class _Budget(Struct):
    left: int
    size: int  # bytes of the value
    depth: int = 0  # keywords under way within each other


_budget: ContextVar[_Budget] = ContextVar("budget")

Keyword = Callable[[Any, Any, Any, Any], Any]


def fits(value: Any, size: int, schema: Any, *, steps: int = STEPS) -> bool | None:
    """Say whether ``value`` (``size`` bytes as JSON) fits; None where that is not to be found out within bounds. Never raises."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict) or size > LARGEST:
        return None
    try:
        draft = _DRAFTS.get(str(schema.get("$schema", "")).removesuffix("#"))
        schema = {name: part for name, part in schema.items() if name != "$schema"}
        written = orjson.dumps(schema)
        if draft is None or len(written) > LARGEST or any(name in written for name in _ELSEWHERE):
            return None
        before = _budget.set(_Budget(steps, size))
        try:
            return next(_validator(draft)(schema).iter_errors(value), None) is None
        finally:
            _budget.reset(before)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - a schema that is none makes the library raise whatever its parts raise, a panic among it, and is not judged
        return None


@cache
def _validator(draft: str) -> Callable[[Any], Any]:
    """Return the library's validator with every keyword charged for. Imported when first needed: most traffic has no schema."""
    import jsonschema
    from referencing import Registry

    plain = getattr(jsonschema, draft)
    charged = {name: _charged(name, keyword) for name, keyword in plain.VALIDATORS.items()}
    made = jsonschema.validators.extend(plain, charged)
    return lambda schema: made(schema, registry=Registry())  # a registry that fetches nothing


def _charged(name: str, keyword: Keyword) -> Keyword:
    def checked(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _spend(name, wanted, instance, schema)
        budget = _budget.get()
        budget.depth += 1
        try:
            for error in keyword(validator, wanted, instance, schema) or ():
                budget.left -= _quoted(instance)
                yield error
        finally:
            budget.depth -= 1

    return checked


def _spend(name: str, wanted: Any, instance: Any, schema: Any) -> None:
    budget = _budget.get()
    cost = 1 + (_length(wanted) + _length(instance) + _length(schema)) // 8
    if name in _UNBOUNDED or (name == "additionalProperties" and "patternProperties" in schema):
        raise Unjudged(name)  # the latter looks for what the patterns leave over
    if name in _EACH:
        cost += _length(wanted) * _length(instance) // 8
    if name == "$ref":
        if not (isinstance(wanted, str) and (wanted == "#" or wanted.startswith("#/"))):
            raise Unjudged(name)
        cost += _LOOK_UP
    if name == "pattern" and isinstance(instance, str):
        cost += _pattern_cost(wanted, instance)
    if name in _DEEP and isinstance(instance, list | dict):
        cost += (1 + _length(wanted) + _length(instance)) * (1 + budget.size // 64)
    budget.left -= cost
    if budget.left < 0 or budget.depth > _DEEPEST:
        raise Unjudged("steps")


def _quoted(instance: Any) -> int:
    """Return what the message of an error costs: it quotes the value, all of it."""
    if isinstance(instance, str):
        return len(instance) // 256
    return _budget.get().size // 256 if isinstance(instance, list | dict) else 0


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _pattern_cost(pattern: Any, text: str) -> int:
    """Return what a search may cost; a backtracking engine tries each repetition at each length, from each place."""
    if not isinstance(pattern, str) or len(text) > _LONGEST or _FLAT.fullmatch(pattern) is None:
        raise Unjudged("pattern")
    return int((len(text) + 1) ** (1 + len(_REPEATED.findall(pattern))) // 256)
