"""Replies of ``/v1/rerank`` and ``/v1/score`` as scores by item.

House rules. Pure and total; the shapes tell themselves apart, and every engine's is read on both routes:
``{"results": [{"index", "relevance_score"}]}`` (Cohere, Jina, vLLM and llama.cpp on rerank), ``{"data": [{"index", "score"}]}`` (vLLM on score, Voyage with
``relevance_score``), a bare list of ``{"index", "score"}`` (SGLang and text-embeddings-inference on rerank; llama.cpp where it is asked in that form), and ``{"scores": [[...], ...]}`` (SGLang
on score: a row for each item, a column for each label token; as its own models declare them, 0.5.23).
"""

from __future__ import annotations

from typing import Any

from engines.dialect import Answer, Json
from engines.endpoints.parsed import parsed, record, records, text
from engines.rows import HIGHEST, whole
from proxy.compare.token_stream import Reply, Score


def read(request: Json, answer: Answer) -> Reply:
    """Read an answer. Never raises. ``error``: also ``no_scores``, ``score_values`` where one is no number or an item is scored twice."""
    del request  # nothing in it changes how a reply reads
    found = parsed(answer)
    usage = record(found.object.get("usage"))
    scores, error = ((), found.error) if found.error is not None else _scores(found.value)
    return Reply(
        prompt_tokens=whole(usage.get("prompt_tokens")),
        model=text(found.object.get("model")) or None,
        error=error,
        scores=scores,
    )


def _scores(value: Any) -> tuple[tuple[Score, ...], str | None]:
    rows = record(value).get("scores")
    found = _matrix(rows) if isinstance(rows, list) else _listed(value)
    if not found:
        return (), "no_scores"
    if None in found or len({(one.index, one.label) for one in found if one is not None}) < len(found):
        return (), "score_values"
    return tuple(one for one in found if one is not None), None


def _listed(value: Any) -> list[Score | None]:
    if isinstance(value, dict):
        value = value.get("results", value.get("data"))
    return [_one(place, item) for place, item in enumerate(records(value))]


def _one(place: int, item: Json) -> Score | None:
    number = _number(item.get("relevance_score", item.get("score")))
    index = whole(item.get("index", place))
    return None if number is None or index is None else Score(index, number)


def _matrix(rows: list[Any]) -> list[Score | None]:
    """Read a row for each item, or (SGLang's setwise scoring) some rows for each, numbered one after another."""
    found: list[Score | None] = []
    if any(isinstance(row, list) and any(isinstance(part, list) for part in row) for row in rows):
        rows = [part for row in rows for part in (row if isinstance(row, list) else [row])]
    for index, row in enumerate(rows):
        for label, value in enumerate(row if isinstance(row, list) else [row]):
            number = _number(value)
            found.append(None if number is None else Score(index, number, label))
    return found


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if -HIGHEST <= number <= HIGHEST else None
