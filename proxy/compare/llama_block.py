"""The statistics block of ``llama-perplexity --kl-divergence``, with the same names and formulas, over forced comparisons.

House rules. Names and order are those of llama.cpp's ``tools/perplexity/perplexity.cpp``, so that both blocks can be laid side by side: Q is the shadow, base the
primary, Δp the shadow's probability of the token less the primary's, in per cent. Three things are not the same. The tokens are the primary's own output and
not a text's; KLD is a lower bound for each token, from the lists that both arms show, where llama.cpp has whole distributions; its quantiles are of such bounds.
Errors are one standard error with tokens taken as independent, as there, which they are not: the intervals of ``headline`` resample conversations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, fsum, inf, isfinite, sqrt
from typing import Any

from msgspec import Struct

from proxy.compare.comparison import Comparison
from proxy.compare.quantile import quantile
from proxy.compare.summary import value_pairs

#: Of fewer tokens llama.cpp prints no statistics.
ENOUGH = 100
#: Above this a perplexity is no float.
_LARGEST = 700.0

Line = dict[str, float]
_KLD = (99.9, 99.0, 95.0, 90.0, 50.0, 10.0, 5.0, 1.0, 0.1)
_DELTA = (99.9, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0, 10.0, 5.0, 1.0, 0.1)


class _Mean(Struct, frozen=True):
    """A mean and its standard error."""

    value: float
    error: float


def llama_block(comparisons: Iterable[Comparison]) -> dict[str, Any]:
    """Return the block of a shadow's ``forced`` comparisons; empty with fewer than ``ENOUGH`` tokens.

    By section (``perplexity``, ``kl_divergence``, ``token_probability``) the lines by llama.cpp's names, each with its ``value`` and, where llama.cpp prints one,
    its ``error``; ``tokens`` counts each section's. A section with fewer than ``ENOUGH`` is absent. Values of Δp, the correlation and "Same top p" are in per
    cent.
    """
    made = [one for one in comparisons if one.incomparable is None]
    choices = [choice for one in made for choice in one.choices]
    pairs = [pair for one in made for pair in value_pairs(one)]
    bounds = [bound for choice in choices for bound in choice.kl_lower_bounds if bound is not None]
    agreed = [agree for choice in choices for agree in choice.top1_agree if agree is not None]
    found: dict[str, Any] = {}
    tokens: dict[str, int] = {}
    if len(pairs) >= ENOUGH:
        tokens["perplexity"] = tokens["token_probability"] = len(pairs)
        found["perplexity"] = _perplexity(pairs)
    if len(bounds) >= ENOUGH:
        tokens["kl_divergence"] = len(bounds)
        found["kl_divergence"] = _divergence(bounds)
    if len(pairs) >= ENOUGH:
        found["token_probability"] = _probability(pairs)
        if len(agreed) >= ENOUGH:
            tokens["same_top"] = len(agreed)
            found["token_probability"]["Same top p"] = _same_top(agreed)
    return found | {"kld": "lower bound", "tokens": tokens} if found else {}


def written(block: dict[str, Any]) -> list[str]:
    """Return the block as the lines that llama-perplexity prints."""
    lines: list[str] = []
    for section, title in (
        ("perplexity", "====== Perplexity statistics ======"),
        ("kl_divergence", "====== KL divergence statistics (lower bounds) ======"),
        ("token_probability", "====== Token probability statistics ======"),
    ):
        if section in block:
            widest = max(map(len, block[section]))
            lines += ["", title]
            lines += [f"{name:<{widest}}: {_shown(name, line)}" for name, line in block[section].items()]
    return lines[1:]


def _shown(name: str, line: Line) -> str:
    percent = "Δp" in name or name.startswith(("Cor", "Same"))
    places = 2 if name.startswith("Cor") else 3 if percent else 6
    error = f" ± {line['error']:.{places}f}" if "error" in line else ""
    return f"{line['value']:>{places + 5}.{places}f}{error}{' %' if percent else ''}"


def _mean(values: Sequence[float]) -> _Mean:
    n = len(values)
    mean = fsum(values) / n
    variance = fsum((value - mean) ** 2 for value in values) / n
    return _Mean(mean, sqrt(variance / (n - 1)))


def _perplexity(pairs: Sequence[tuple[float, float]]) -> dict[str, Line]:
    """Perplexities are exponentials of mean negative logprobs; errors go through them by their first derivative."""
    base, own = _mean([-p for p, _ in pairs]), _mean([-q for _, q in pairs])
    n = len(pairs)
    together = fsum((-p - base.value) * (-q - own.value) for p, q in pairs) / n / (n - 1)
    ratio = _Mean(own.value - base.value, _root(own.error**2 + base.error**2 - 2.0 * together))
    ppl_q, ppl_base = exp(min(own.value, _LARGEST)), exp(min(base.value, _LARGEST))
    error_q, error_base = ppl_q * own.error, ppl_base * base.error
    difference = _root(error_q * error_q + error_base * error_base - 2.0 * ppl_q * ppl_base * together)
    times = exp(min(ratio.value, _LARGEST))
    found = {"Mean PPL(Q)": _line(ppl_q, error_q), "Mean PPL(base)": _line(ppl_base, error_base)}
    if own.error and base.error:
        found["Cor(ln(PPL(Q)), ln(PPL(base)))"] = {"value": 100.0 * min(1.0, together / (own.error * base.error))}
    return found | {
        "Mean ln(PPL(Q)/PPL(base))": _line(ratio.value, ratio.error),
        "Mean PPL(Q)/PPL(base)": _line(times, times * ratio.error),
        "Mean PPL(Q)-PPL(base)": _line(ppl_q - ppl_base, difference),
    }


def _root(square: float) -> float:
    """Return the root of a difference that rounding may have put below 0; infinite where it is no number."""
    return sqrt(max(0.0, square)) if isfinite(square) else inf


def _divergence(bounds: Sequence[float]) -> dict[str, Line]:
    mean = _mean(bounds)
    return {"Mean KLD": _line(mean.value, mean.error), **_quantiles("KLD", bounds, _KLD)}


def _probability(pairs: Sequence[tuple[float, float]]) -> dict[str, Line]:
    changes = [100.0 * (exp(min(q, 0.0)) - exp(min(p, 0.0))) for p, q in pairs]
    mean, squares = _mean(changes), _mean([change**2 for change in changes])
    root = sqrt(squares.value)
    return {
        "Mean Δp": _line(mean.value, mean.error),
        **_quantiles("Δp", changes, _DELTA),
        "RMS Δp": _line(root, 0.5 / root * squares.error if root else 0.0),
    }


def _same_top(agreed: Sequence[bool]) -> Line:
    share = sum(agreed) / len(agreed)
    return _line(100.0 * share, 100.0 * sqrt(share * (1.0 - share) / (len(agreed) - 1)))


def _quantiles(what: str, values: Sequence[float], at: Sequence[float]) -> dict[str, Line]:
    ordered = sorted(values)
    found = {f"Maximum {what}": {"value": ordered[-1]}}
    for share in at:
        name = "Median" if share == 50.0 else f"{share:.1f}%"
        found[f"{name} {what}"] = {"value": quantile(ordered, share / 100.0)}
    return found | {f"Minimum {what}": {"value": ordered[0]}}


def _line(value: float, error: float) -> Line:
    """Return a line; without the error where a broken arm's is beyond a float."""
    return {"value": value, "error": error} if isfinite(error) else {"value": value}
