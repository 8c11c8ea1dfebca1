"""What the arms' outputs are made of: reasoning and content, tool calls and what they are worth, JSON that was asked for, refusals.

House rules. Looked at once the tokens have been compared, and only where there is something to see: plain text has no shape. What did not come to its own end is
not judged, for half a JSON is no fault of a model. Everything is said of each arm for itself; only the findings hold one against the other.
"""

from __future__ import annotations

from msgspec.structs import replace

from proxy.compare.comparison import ChoiceComparison, Comparison, OutputShape
from proxy.compare.ending import ended
from proxy.compare.findings import JSON_STRUCTURE
from proxy.compare.json_validity import Expected, calls_validity, reply_validity
from proxy.compare.layers import Evidence, in_order
from proxy.compare.token_stream import Reply, TokenStream


def with_shapes(comparison: Comparison, primary: Reply, shadow: Reply, expected: Expected) -> Comparison:
    """Return the comparison with the shapes of its choices, and the finding that follows from them."""
    shaped: list[ChoiceComparison] = []
    for choice, left, right in zip(comparison.choices, primary.choices, shadow.choices, strict=False):
        if expected.tools or expected.json or _has_shape(left) or _has_shape(right):
            shaped.append(replace(choice, shapes=(shape(left, expected), shape(right, expected))))
        else:
            shaped.append(choice)
    if not any(choice.shapes for choice in shaped):
        return comparison
    comparison = replace(comparison, choices=tuple(shaped))
    differing = next((choice.shapes for choice in shaped if choice.shapes and _json_differs(choice.shapes)), None)
    if differing is None:
        return comparison
    seen: Evidence = {"primary_json": str(differing[0].json), "shadow_json": str(differing[1].json)}
    return replace(
        comparison,
        findings=in_order((*comparison.findings, JSON_STRUCTURE)),
        evidence=comparison.evidence | {JSON_STRUCTURE: seen},
    )


def _has_shape(stream: TokenStream) -> bool:
    return bool(stream.reasoning or stream.tool_calls or stream.refused)


def shape(stream: TokenStream, expected: Expected) -> OutputShape:
    """Return one arm's."""
    whole = ended(stream) == "end"
    asked_json = expected.json and whole and not stream.tool_calls and not stream.refused
    return OutputShape(
        text=len(stream.text),
        reasoning=len(stream.reasoning),
        refused=stream.refused,
        calls=calls_validity(stream.tool_calls, expected) if expected.tools and whole else None,
        json=reply_validity(stream.text, expected) if asked_json else None,
    )


def _json_differs(shapes: tuple[OutputShape, OutputShape]) -> bool:
    left, right = shapes[0].json, shapes[1].json
    return left is not None and right is not None and left is not right
