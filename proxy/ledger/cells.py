"""Numbers of the report as text for a table's cell: one style for all of them, and nothing of what came from outside unescaped.

House rules. Pure. What is absent is a dash, never 0. Plain decimals throughout, three significant digits, at most seven places: a
float32 logprob carries no more. The JSON has every digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor, log10
from typing import Any

from proxy.ledger.inert import inert

Numbers = Mapping[str, Any]
Cell = Callable[[Numbers], str]

ABSENT = "–"
_DIGITS, _PLACES = 3, 7
#: What a reason's label means to somebody who has not read the documentation.
_IN_WORDS = {"sampled": "not greedy (sampled)"}


def number(value: Any) -> str:
    """Return one number; a dash for None."""
    if value is None:
        return ABSENT
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    places = min(_PLACES, max(0, _DIGITS - 1 - floor(log10(abs(value)))))
    text = f"{value:,.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if text not in {"0", "-0"} else f"under {10.0**-_PLACES:.{_PLACES}f}"


def share(part: int, whole: int) -> str:
    """Return "9 of 372 (2.4 %)", or the part alone where there is no whole."""
    return f"{part:,} of {whole:,} ({100 * part / whole:.1f} %)" if whole else f"{part:,}"


def reasons(counted: Mapping[str, int]) -> list[str]:
    """Return counts by reason, largest first, each as "reason n"."""
    ordered = sorted(counted.items(), key=lambda pair: -pair[1])
    return [f"{_IN_WORDS.get(reason) or inert(reason, 40)} {n:,}" for reason, n in ordered]


def times(count: int) -> str:
    """Say how often: ``once``, ``3 times``."""
    return "once" if count == 1 else f"{count:,} times"


def within(edges: Sequence[float] | None) -> str:
    """Return " (95 %: 0 to 5)", nothing without an interval."""
    return "" if edges is None else f" (95 %: {number(edges[0])} to {number(edges[1])})"


def at(*path: str) -> Cell:
    """Make the cell of one number, by its path."""

    def cell(numbers: Numbers) -> str:
        value: Any = numbers
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return number(value)

    return cell


def several(key: str, *parts: str) -> Cell:
    """Make the cell of some numbers of one distribution, divided by strokes."""

    def cell(numbers: Numbers) -> str:
        found = numbers.get(key) or {}
        return " / ".join(number(found.get(part)) for part in parts) if found else ABSENT

    return cell


def of(part: str, whole: str) -> Cell:
    """Make the cell of a count, or of the sum of counts by class, among others."""

    def cell(numbers: Numbers) -> str:
        if part not in numbers:
            return ABSENT
        value = numbers[part]
        return share(sum(value.values()) if isinstance(value, Mapping) else value, numbers.get(whole, 0))

    return cell


def counted(part: str, whole: str) -> Cell:
    """Make the cell of a count with its share, where the whole stands in a row of its own."""

    def cell(numbers: Numbers) -> str:
        if part not in numbers:
            return ABSENT
        total = numbers[whole]
        return f"{numbers[part]:,} ({100 * numbers[part] / total:.1f} %)" if total else f"{numbers[part]:,}"

    return cell


def listed(key: str) -> Cell:
    """Make the cell of counts by reason, one a line; "0" when the counts are there and empty."""
    return lambda numbers: "\n".join(reasons(numbers[key])) or "0" if numbers.get(key) is not None else ABSENT


def hazard(value: str, interval: str) -> Cell:
    """Make the cell of a hazard with its interval."""

    def cell(numbers: Numbers) -> str:
        found = numbers.get("hazard_per_1000_tokens") or {}
        return number(found[value]) + within(found.get(interval)) if value in found else ABSENT

    return cell


def expected(numbers: Numbers) -> str:
    """Return how many flips noise like the control's makes: of all positions, else of those compared since it was learned."""
    found = numbers.get("expected_flips") or {}
    return number(found.get("expected", found.get("sum")))


def beyond_noise(numbers: Numbers) -> str:
    """Return how many flips are beyond those, with the interval."""
    found = numbers.get("expected_flips") or {}
    return number(found["excess"]) + within(found.get("interval")) if "excess" in found else ABSENT


def correlation(numbers: Numbers) -> str:
    """Return the correlation to five places: what is not 1 must not look like it."""
    value = numbers.get("correlation")
    return ABSENT if value is None else "1" if value == 1 else f"{min(value, 0.99999):.5f}"


def estimates(numbers: Numbers) -> str:
    """Return k1 and k3, and what they are: an estimate of KL only over tokens drawn at temperature 1, unfiltered."""
    if "k1" not in numbers:
        return ABSENT
    part = numbers["k3_is_kl"]
    worth = "a score" if part == 0 else "nat of KL" if part == 1 else f"nat of KL for {100 * part:.0f} % of tokens"
    return f"{number(numbers['k1'])} / {number(numbers['k3'])} ({worth})"


def positions(numbers: Numbers) -> str:
    """Return the tokens compared, and of how many where an engine scored a sample of each reply."""
    compared, found = number(numbers["tokens_compared"]), numbers.get("positions")
    return compared if found is None or found["scored"] >= found["of"] else f"{compared} of {number(found['of'])}"


def worth(block: str, *path: str) -> Cell:
    """Make the cell of how many of what should be JSON are valid in each arm: "primary 9 of 10, shadow 7 of 10"."""

    def cell(numbers: Numbers) -> str:
        found: Any = numbers.get(block)
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        if not found:
            return ABSENT
        arms = ((arm, found.get(arm) or {}) for arm in ("primary", "shadow"))
        return "\n".join(f"{arm} {share(counts.get('valid', 0), sum(counts.values()))}" for arm, counts in arms)

    return cell


def anytime(name: str) -> Cell:
    """Make the cell of an interval that holds at all times, with the conversations behind it: "0 to 0.012 (n 400)"; one end may be unknown."""

    def cell(numbers: Numbers) -> str:
        found = numbers.get("anytime", {}).get(name)
        if found is None:
            return ABSENT
        low, high = found["interval"]
        ends = f"{number(low)} to {number(high)}"
        if high is None:
            ends = f"at least {number(low)}"
        elif low is None:
            ends = f"at most {number(high)}"
        return f"{ends} (n {found['conversations']:,})"

    return cell
