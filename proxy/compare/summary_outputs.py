"""Many comparisons as the numbers of the report that are not about tokens: structure, reasoning, refusals, embeddings, scores.

House rules. As in ``summary``: plain numbers out, a block that has nothing to say is absent. Shares are made of sums over all requests, never of means of
shares. A choice counts once; "asked" and "offered" count choices of which both arms came to their own end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from proxy.compare.comparison import Comparison, OutputShape, Validity
from proxy.compare.quantile import distribution

Summary = dict[str, Any]
Shapes = tuple[OutputShape, OutputShape]


def summarise_outputs(made: Sequence[Comparison]) -> Summary:
    """Summarise comparisons that could be made. Keys: ``output_length_ratio``, ``tools``, ``json``, ``reasoning``, ``refusals``, ``embeddings``, ``rerank``, ``score``."""
    shapes = [choice.shapes for one in made for choice in one.choices if choice.shapes is not None]
    blocks = {
        "output_length_ratio": _lengths(made),
        "tools": _tools(shapes),
        "json": _json(shapes),
        "reasoning": _reasoning(shapes),
        "refusals": _refusals(shapes),
        "embeddings": _embeddings(made),
        "rerank": _ranking(made, "rerank"),
        "score": _ranking(made, "score"),
    }
    return {name: block for name, block in blocks.items() if block}


def trigger(shapes: Shapes) -> str | None:
    """Say who called a tool, ``both``, ``primary``, ``shadow`` or ``neither``; None where none was offered or an arm was cut."""
    left, right = shapes[0].calls, shapes[1].calls
    if left is None or right is None:
        return None
    return ("both" if left else "shadow") if right else ("primary" if left else "neither")


def reasoning_ratio(shapes: Shapes) -> float | None:
    """Return the shadow's length of reasoning per code point of the primary's; None where the primary shows none."""
    return shapes[1].reasoning / shapes[0].reasoning if shapes[0].reasoning else None


def f1(both: int, primary: int, shadow: int) -> float | None:
    """Return the F1 of "the shadow calls a tool" against "the primary does", from counts of each: 2 both / (2 both + primary alone + shadow alone).

    None where neither ever called one.
    """
    divisor = 2 * both + primary + shadow
    return 2 * both / divisor if divisor else None


def _lengths(made: Sequence[Comparison]) -> Summary:
    """The shadow's tokens divided by the primary's, of choices that show both."""
    choices = [choice for one in made for choice in one.choices if choice.primary_tokens]
    return distribution(
        one.shadow_tokens / one.primary_tokens
        for one in choices
        if one.shadow_tokens is not None and one.primary_tokens
    )


def _tools(shapes: Sequence[Shapes]) -> Summary:
    called = Counter(who for one in shapes if (who := trigger(one)) is not None)
    if not called:
        return {}
    block: Summary = {
        "offered": called.total(),
        "called": {who: called[who] for who in ("both", "primary", "shadow", "neither")},
        "calls": {
            arm: _counts(chain.from_iterable(one[number].calls or () for one in shapes))
            for number, arm in enumerate(("primary", "shadow"))
        },
    }
    if (score := f1(called["both"], called["primary"], called["shadow"])) is not None:
        block["trigger_f1"] = score
    return block


def _json(shapes: Sequence[Shapes]) -> Summary:
    judged = [one for one in shapes if one[0].json is not None and one[1].json is not None]
    if not judged:
        return {}
    return {
        "asked": len(judged),
        "primary": _counts(one[0].json for one in judged),
        "shadow": _counts(one[1].json for one in judged),
        "differ": sum(one[0].json is not one[1].json for one in judged),
    }


def _counts(judged: Iterable[Validity | None]) -> dict[str, int]:
    counted = Counter(judged)
    return {kind.value: counted[kind] for kind in Validity if counted[kind]}


def _reasoning(shapes: Sequence[Shapes]) -> Summary:
    shown = [one for one in shapes if one[0].reasoning or one[1].reasoning]
    if not shown:
        return {}
    return {
        "choices": len(shown),
        "both": sum(bool(one[0].reasoning and one[1].reasoning) for one in shown),
        "length_ratio": distribution(ratio for one in shown if (ratio := reasoning_ratio(one)) is not None),
        "share_of_text": {
            arm: sum(one[number].reasoning for one in shown)
            / max(1, sum(one[number].reasoning + one[number].text for one in shown))
            for number, arm in enumerate(("primary", "shadow"))
        },
    }


def _refusals(shapes: Sequence[Shapes]) -> Summary:
    counted = Counter((one[0].refused, one[1].refused) for one in shapes)
    del counted[False, False]
    if not counted:
        return {}
    return {"both": counted[True, True], "primary": counted[True, False], "shadow": counted[False, True]}


def _embeddings(made: Sequence[Comparison]) -> Summary:
    requests = [one for one in made if one.vectors]
    vectors = [vector for one in requests for vector in one.vectors]
    if not vectors:
        return {}
    return {
        "requests": len(requests),
        "vectors": len(vectors),
        "cosine_distance": distribution(one.cosine_distance for one in vectors if one.cosine_distance is not None),
        "element_error": distribution(one.element_error for one in vectors),
    }


def _ranking(made: Sequence[Comparison], kind: str) -> Summary:
    found = [one.ranking for one in made if one.ranking is not None and one.ranking.kind == kind]
    if not found:
        return {}
    return {
        "requests": len(found),
        "items": sum(one.items for one in found),
        "order_mismatches": sum(one.order_differs for one in found),
        "discordant_pairs": sum(one.discordant_pairs for one in found),
        "pairs": sum(one.pairs for one in found),
        "score_error": distribution(error for one in found for error in one.score_errors),
    }
