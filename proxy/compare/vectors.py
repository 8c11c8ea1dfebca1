"""Embeddings held against each other: by the angle between them, and by their largest difference in one element.

House rules. Pure arithmetic over what both arms gave; vectors are never scaled, cut or reordered, and nothing is called equal that is not. Another number
of vectors or of dimensions is no distance but a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, hypot

from proxy.compare.comparison import Comparison, Mode, Source, VectorComparison
from proxy.compare.explained import explained
from proxy.compare.findings import TRANSPORT_ERRORS
from proxy.compare.prompt import prompt_findings
from proxy.compare.token_stream import Reply


def compare_vectors(primary: Reply, shadow: Reply) -> Comparison:
    """Compare two replies of an embeddings route, input by input."""
    prompt = prompt_findings(None, None, primary.prompt_tokens, shadow.prompt_tokens)
    reason, detail = _refusal(primary, shadow, prompt_differs=bool(prompt))
    findings = (TRANSPORT_ERRORS,) if shadow.error is not None else ()
    vectors: tuple[VectorComparison, ...] = ()
    if reason is None:
        pairs = zip(primary.vectors, shadow.vectors, strict=True)
        vectors = tuple(distance(index, left, right) for index, (left, right) in enumerate(pairs))
    comparison = Comparison(
        mode=Mode.FREE, source=Source.TEXT, incomparable=reason, detail=detail, findings=findings, vectors=vectors
    )
    return explained(comparison, primary, shadow, prompt=prompt)


def _refusal(primary: Reply, shadow: Reply, *, prompt_differs: bool) -> tuple[str | None, str | None]:
    """Return why nothing can be measured, in the order of the layers, and the short reason behind it."""
    if primary.error is not None:
        return "primary_error", primary.error
    if shadow.error is not None:
        return "shadow_error", shadow.error
    if prompt_differs:
        return "prompt_tokens", None
    counts = len(primary.vectors), len(shadow.vectors)
    if counts[0] != counts[1]:
        return "vector_count", f"{counts[0]} and {counts[1]}"
    for left, right in zip(primary.vectors, shadow.vectors, strict=True):
        if len(left) != len(right):
            return "vector_dimensions", f"{len(left)} and {len(right)}"
    return None, None


def distance(index: int, left: Sequence[float], right: Sequence[float]) -> VectorComparison:
    """Measure two vectors of the same dimension.

    1 - cos is half the square of the distance between the directions: computed so, it is exactly 0 for equal vectors and keeps its digits for
    nearly equal ones, where 1 minus a quotient near 1 would be nothing but rounding.
    """
    norms = hypot(*left), hypot(*right)
    cosine = None
    if 0.0 < norms[0] < float("inf") and 0.0 < norms[1] < float("inf"):
        cosine = fsum((a / norms[0] - b / norms[1]) ** 2 for a, b in zip(left, right, strict=True)) / 2
    error = max((abs(a - b) for a, b in zip(left, right, strict=True)), default=0.0)
    return VectorComparison(index, len(left), None if cosine is None else min(cosine, 2.0), error, norms)
