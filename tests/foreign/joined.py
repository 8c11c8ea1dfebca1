"""Streams of events as what they say in all, however it was cut into events.

vLLM puts the tokens that are ready into one event when its event loop is late: on a busy machine two runs of one request are cut differently, by the
engine's own doing. What was in the events, and in which order, must be the same all the same. That Parhelion passes every event on as it came is held
byte for byte elsewhere (``tests/fidelity``).
"""

from __future__ import annotations

from functools import reduce
from itertools import groupby
from typing import Any

#: Fields whose pieces make a whole; of any other the latest value stands.
_PIECES = {"content", "reasoning", "reasoning_content", "text", "arguments", "delta"}


def joined(value: Any) -> Any:
    """The same value with every list of stream events in it joined."""
    match value:
        case dict():
            return {key: joined(one) for key, one in value.items()}
        case [{"object": "chat.completion.chunk"}, *_]:
            return [reduce(_chunk, value)]
        case [{"type": str(kind)}, *_] if kind.startswith("response."):
            unnumbered = [{key: one for key, one in event.items() if key != "sequence_number"} for event in value]
            return [_run(list(events)) for _, events in groupby(unnumbered, key=lambda event: event["type"])]
        case list():
            return [joined(one) for one in value]
    return value


def _chunk(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = _add(one, other, "")
    return whole


def _run(events: list[dict[str, Any]]) -> Any:
    """Events of one type in a row: pieces of one text are joined, others stay as they are."""
    return reduce(_chunk, events) if isinstance(events[0].get("delta"), str) else events


def _add(one: Any, other: Any, key: str) -> Any:
    match one, other:
        case _, None:
            return one
        case dict(), dict():
            return {name: _add(one.get(name), other.get(name), name) for name in one | other}
        case [{"index": _}, *_], list():
            return _by_index(one, other)
        case list(), list():
            return one + other
        case str(), str() if key in _PIECES:
            return one + other
    return other


def _by_index(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = {item["index"]: item for item in one}
    for item in other:
        found[item["index"]] = _add(found.get(item["index"]), item, "")
    return list(found.values())
