"""What the readers of engines' routes share: the facts they fill, one GET, and values as the footprint writes them.

House rules. Only harmless GET routes. A reader (``async def read(fetch, facts)``, one file per engine beside this one) turns what its engine shows into
footprint fields, by name and one at a time, and leaves the rest: what an engine shows may hold keys, ports, seeds and counters. A route that is missing is
no error: the fact stays unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from engines.dialect import Answer, Call, Defaults, Fetch, Json
from engines.lenient_json import NotJson, loads

_LABEL = re.compile(r'(?<!\w)(\w++)="((?:[^"\\]|\\.)*)"')
_NEUTRAL = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", *_NEUTRAL)


@dataclass(slots=True)
class Facts:
    """Footprint fields by origin, and what else the probe wants to know."""

    probed: dict[str, Any] = field(default_factory=dict)
    inferred: dict[str, Any] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    context_length: int | None = None


async def get(fetch: Fetch, path: str) -> Answer:
    """Get one route."""
    return await fetch(Call(path, method="GET"))


def as_object(answer: Answer) -> Json:
    """Return the JSON object of a good answer, an empty one for any other."""
    if answer.failure is not None or answer.status != 200:
        return {}
    try:
        value = loads(answer.body)
    except NotJson:
        return {}
    return value if isinstance(value, dict) else {}


def models_of(answer: Answer) -> list[Json] | None:
    """Return the entries of ``/v1/models``, under ``data`` or, as Together has had them, by themselves; None when it is no such list."""
    if answer.failure is not None or answer.status != 200:
        return None
    try:
        value = loads(answer.body)
    except NotJson:
        return None
    listed = value.get("data") if isinstance(value, dict) else value
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else None


def metric_labels(answer: Answer, name: str) -> dict[str, str]:
    """Return the labels of a metric's first sample in Prometheus' text format, none when it is not there."""
    if answer.failure is not None or answer.status != 200:
        return {}
    start = name.encode() + b"{"
    line = next((line for line in answer.body.splitlines() if line.startswith(start)), b"")
    return dict(_LABEL.findall(line.decode("utf-8", "replace")))


def sampling(facts: Facts, values: Json) -> None:
    """Take an engine's sampling defaults from what holds them: a fact, and what the probe fills a client's gaps with."""
    known: dict[str, Any] = {name: round(float(values[name]), 6) for name in _SAMPLING if _is_number(values.get(name))}
    if not known:
        return
    if "top_k" in known:
        known["top_k"] = int(known["top_k"])
    # A penalty that does nothing is no part of a stack: engines differ in whether they list it.
    facts.probed["sampling_defaults"] = {name: value for name, value in known.items() if value != _NEUTRAL.get(name)}
    facts.defaults = replace(facts.defaults, **known)


def part(value: Json, name: str) -> Json:
    """Return the object under a name, an empty one when there is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def last_part(path: Any) -> str | None:
    """Return the name at the end of a path: where a model lies is not what it is."""
    if not isinstance(path, str) or not path:
        return None
    return (
        path.replace("\\", "/").rstrip("/").rpartition("/")[2]
        if path.startswith(("/", ".", "\\")) or ":\\" in path
        else path
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
