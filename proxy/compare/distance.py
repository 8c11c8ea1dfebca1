"""How far two arms are apart at one position: errors of the token's logprob, and bounds from the lists.

House rules. Values in nats, natural logarithms, p is the primary and q the shadow. What is not defined is None, never 0.
Only values of one logprob mode (raw, after temperature, after filters) may be given to this file; its callers see to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1, fabs, fsum, inf, log, sqrt

from proxy.compare.identity import REPLACEMENT
from proxy.compare.row import MASS_ERROR, Row

#: Upper edges, in nats, of every histogram of a difference of logprobs.
NATS_EDGES = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, inf)

#: Below this the ratio says nothing: a token that is all but certain has a logprob of 1e-6 and any noise is "38 %" of it.
RELATIVE_FLOOR = 1e-3

#: How far a reported row may be shifted as a whole, in nats: engines sum the normaliser in float32. 1.3e-5 was measured (torch on a CPU, 49,152 tokens, as vLLM reports
#: it); larger vocabularies add up more.
NORMALISER_ERROR = 3e-5

#: exp overflows above 709; a difference of this size is a broken value, not a distance.
LARGEST_EXPONENT = 700.0


def error(p: float | None, q: float | None) -> float | None:
    """Return d = log q - log p, None unless both are known."""
    return None if p is None or q is None else q - p


def relative_error(p: float, q: float) -> float | None:
    """Return abs(d) / abs(log p), None where abs(log p) is below ``RELATIVE_FLOOR``."""
    return None if fabs(p) < RELATIVE_FLOOR else fabs(q - p) / fabs(p)


def probability_error(p: float, q: float) -> float:
    """Return abs(q - p) as probabilities: bounded by 1 and comparable between tokens."""
    return fabs(exp(min(q, 0.0)) - exp(min(p, 0.0)))


def relative_errors(pairs: Sequence[tuple[float, float]]) -> list[float | None]:
    """Return ``relative_error`` of each pair."""
    return [None if fabs(p) < RELATIVE_FLOOR else fabs(q - p) / fabs(p) for p, q in pairs]


def probability_errors(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Return ``probability_error`` of each pair."""
    return [fabs(exp(q if q < 0.0 else 0.0) - exp(p if p < 0.0 else 0.0)) for p, q in pairs]  # noqa: FURB136 - a call costs three times as much


def k1(d: float) -> float:
    """Return the unbiased, high-variance estimate of KL(p || q) of one token (Schulman 2020)."""
    return -d


def k3(d: float) -> float:
    """Return exp(d) - 1 - d, never negative (Schulman 2020).

    Its mean is an unbiased estimate of KL(p || q) only over tokens drawn from p at an effective temperature of 1 without
    top-p, top-k, min-p, penalties, bias or grammar; otherwise it is a score.
    """
    return expm1(min(d, LARGEST_EXPONENT)) - d


def rank(row: Row, logprob: float | None) -> int | None:
    """Return the rank of a token with this logprob in an arm's list, 1 the most likely.

    A lower bound where the token is below every listed one; None when the arm gave no value or no list.
    """
    if logprob is None or not row.certain:
        return None
    for above, entry in enumerate(row.entries):
        if entry.logprob <= logprob:
            return 1 + above
    return 1 + len(row.entries)


def shared(p: Row, q: Row) -> list[tuple[float, float]]:
    """Return the (log p, log q) of every token that both rows show, told apart by the best that both give.

    A token whose text or bytes another one of the same row shares is left out: it then counts as part of the rest, which
    keeps bounds valid.
    """
    # Ids are the usual case, and this is the innermost loop of a comparison.
    mine = {entry.id: entry.logprob for entry in p.entries}
    theirs = {entry.id: entry.logprob for entry in q.entries}
    if None not in mine and None not in theirs:
        return [(logprob, theirs[name]) for name, logprob in mine.items() if name in theirs]
    by_bytes = None not in (data := [entry.data for entry in (*p.entries, *q.entries)]) and b"" not in data
    named, others = _by_name(p, by_bytes=by_bytes), _by_name(q, by_bytes=by_bytes)
    return [(logprob, others[name]) for name, logprob in named.items() if name in others]


def _by_name(row: Row, *, by_bytes: bool) -> dict[bytes | str, float]:
    """Return what each token that only one entry can mean is given, by its bytes or by its text; see ``identity.key``."""
    found: dict[bytes | str, float] = {}
    doubled: set[bytes | str] = set()
    for entry in row.entries:
        name = entry.data if by_bytes else entry.text
        if not name or (isinstance(name, str) and REPLACEMENT in name):
            continue
        if name in found:
            doubled.add(name)
        found[name] = entry.logprob
    for name in doubled:
        del found[name]
    return found


def lower_bounds(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Return lower bounds of KL(p || q) in nats and of the total variation, from (log p, log q) of the tokens known on both sides.

    The rest of the vocabulary is one further bucket. Merging outcomes never increases an f-divergence (data-processing
    inequality), so both are bounds: the KL to 1e-6 nat on the float32 values of real engines (``kl_bound``), the total variation to
    ``NORMALISER_ERROR`` for each of the two rows that is shifted. Real lists may sum to more than 1: while either rest is below 1e-6 the
    smallest member joins it, which is a coarser partition and so still a bound; nothing is left: 0. Never renormalised.
    """
    # Nothing is likelier than certain: a value above 0 is rounding, or no logprob at all.
    members = [
        (exp(lp) if lp <= 0.0 else 1.0, exp(lq) if lq <= 0.0 else 1.0, lp - lq) for lp, lq in pairs
    ]  # their order is of no matter until some have to join the rest: fsum is exact
    p_rest = 1.0 - fsum([member[0] for member in members])
    q_rest = 1.0 - fsum([member[1] for member in members])
    if p_rest < MASS_ERROR or q_rest < MASS_ERROR:
        members.sort(reverse=True)
    while members and (p_rest < MASS_ERROR or q_rest < MASS_ERROR):
        p, q, _ = members.pop()
        p_rest += p
        q_rest += q
    if not members:
        return 0.0, 0.0
    kl = kl_bound(fsum([p * ratio for p, _, ratio in members]), p_rest, q_rest)
    tv = 0.5 * (fsum([fabs(p - q) for p, q, _ in members]) + fabs(p_rest - q_rest))
    return kl, tv


def kl_bound(listed: float, p_rest: float, q_rest: float) -> float:
    """Return the bound from ``listed`` = sum of p log(p / q) over the members and what each arm leaves for the rest, both above 0.

    Were all p of the list e^-a of what is reported and all q e^-b, the sum would be a convex function of (e^-a, e^-b), for KL is convex in (p, q) jointly; so it
    lies above its tangent at (1, 1), whose slopes are kl - log(p_rest / q_rest) and p_rest / q_rest - 1. Taking their sizes
    times ``NORMALISER_ERROR`` off makes it a bound whatever a and b are up to that: confident rows with a rest of 1e-5 are else up to 6e-5 above the truth.
    """
    ratio = p_rest / q_rest
    logarithm = log(ratio)
    kl = listed + p_rest * logarithm
    bound = kl - NORMALISER_ERROR * (fabs(kl - logarithm) + fabs(ratio - 1.0))
    return bound if bound > 0.0 else 0.0  # noqa: FURB136 - a call costs three times as much


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Pearson's correlation; None for fewer than two pairs or a side without variance."""
    if len(pairs) < 2:
        return None
    means = fsum(p for p, _ in pairs) / len(pairs), fsum(q for _, q in pairs) / len(pairs)
    xx = fsum((p - means[0]) ** 2 for p, _ in pairs)
    yy = fsum((q - means[1]) ** 2 for _, q in pairs)
    if not xx or not yy:
        return None
    if all(p == q for p, q in pairs):
        return 1.0  # the quotient of its roots may be one bit less, and would be shown as a difference
    return fsum((p - means[0]) * (q - means[1]) for p, q in pairs) / sqrt(xx) / sqrt(yy)
