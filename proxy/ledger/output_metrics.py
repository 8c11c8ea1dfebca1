"""What is counted of a comparison beside its tokens: structure, reasoning, refusals, embeddings, scores.

House rules. As in ``judge_metrics``, which calls this once for each record: cheap, and total. Every label value comes from a closed list.
"""

from __future__ import annotations

from proxy.compare.comparison import OutputShape
from proxy.compare.summary_outputs import reasoning_ratio, trigger
from proxy.ledger.record import Record
from proxy.ledger.series import Exemplar, Series


def observe_outputs(series: Series, record: Record, exemplar: Exemplar) -> None:
    """Count what one compared record says."""
    for choice in record.comparison.choices:
        if choice.shapes is not None:
            _shapes(series, record, choice.shapes, exemplar)
    shadow, vectors, ranking = (record.shadow,), record.comparison.vectors, record.comparison.ranking
    if vectors:
        distances, errors = zip(*((one.cosine_distance, one.element_error) for one in vectors), strict=True)
        series.observe("embedding_cosine_distance", shadow, distances, record.id, exemplar.time)
        series.observe("embedding_element_error", shadow, errors, record.id, exemplar.time)
    if ranking is not None:
        series.add("rankings_compared_total", shadow)
        if ranking.order_differs:
            series.add("rank_order_mismatches_total", shadow, exemplar=exemplar)
        series.observe("score_error", shadow, ranking.score_errors, record.id, exemplar.time)


def _shapes(series: Series, record: Record, shapes: tuple[OutputShape, OutputShape], exemplar: Exemplar) -> None:
    shadow = record.shadow
    if (who := trigger(shapes)) is not None:
        series.add("tool_triggers_total", (shadow, who), exemplar=exemplar if who in ("primary", "shadow") else None)
    for arm, shape in zip(("primary", "shadow"), shapes, strict=True):
        for validity in shape.calls or ():
            series.add("tool_calls_judged_total", (shadow, arm, validity.value))
        if shape.json is not None:
            series.add("json_replies_total", (shadow, arm, shape.json.value))
        if shape.refused:
            series.add("refusals_total", (shadow, arm), exemplar=exemplar)
    series.observe("reasoning_length_ratio", (shadow,), (reasoning_ratio(shapes),), record.id, exemplar.time)
