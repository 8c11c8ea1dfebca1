"""The headline numbers: what each is called and of which sums or bins it is made.

House rules. Definitions only. Names are keys of the report and labels of metrics: add, never rename; a name ends in its unit, "share" is in [0, 1] of what
``n`` counts. The words are those of the folder's README.
"""

from __future__ import annotations

from math import sqrt

from msgspec import Struct

from proxy.compare.addends import TAILS
from proxy.compare.bins import UNIT
from proxy.compare.comparison import FlipClass, Mode


class Ratio(Struct, frozen=True):
    """``offset + per * part / whole``, of sums. ``real``: the part is in multiples of 1 / ``UNIT``.

    ``most``: the sum that the part cannot exceed (in a conversation, too), "" where nothing bounds it. ``signed``: the part may be below 0.
    """

    name: str
    part: str
    whole: str
    per: float = 1.0
    offset: float = 0.0
    real: bool = False
    most: str = ""
    signed: bool = False

    @property
    def once(self) -> bool:
        """Whether the part is limited by a count of replies, of which a conversation has few, and not of tokens."""
        return self.most in {"requests", "streams"}

    @property
    def unit(self) -> int:
        """What of the part is one of the whole."""
        return UNIT if self.real else 1

    def value(self, part: int, whole: int) -> float:
        """Return the number; ``whole`` is not 0."""
        if self.real:  # the quotient first: of a broken arm the part alone may be beyond a float
            return self.offset + self.per * (part / (whole * UNIT))
        return self.offset + self.per * part / whole


class Quantile(Struct, frozen=True):
    """A quantile of values in fixed bins. ``whole_numbers``: they are, and stand at their bins' lower edges (exact below 64)."""

    name: str
    bins: str
    share: float
    whole_numbers: bool = False


class Correlation(Struct, frozen=True):
    """Pearson's, of log p and log q."""

    name: str

    @staticmethod
    def value(n: int, p: int, q: int, pp: int, qq: int, pq: int) -> float | None:
        """Return it from the moments, None without variance; moments are in multiples of 1 / ``UNIT``, so that differences of large sums are exact."""
        spread_p, spread_q = n * pp * UNIT - p * p, n * qq * UNIT - q * q
        if spread_p <= 0 or spread_q <= 0:
            return None
        together = n * pq * UNIT - p * q
        if spread_p == spread_q == together:
            return 1.0  # the quotient of roots may be one bit less, and would be shown as a difference
        return max(-1.0, min(1.0, float(together) / sqrt(spread_p) / sqrt(spread_q)))


Quantity = Ratio | Quantile | Correlation
MOMENTS = ("values", "p", "q", "pp", "qq", "pq")


def _per_thousand(name: str, part: str, whole: str, most: str) -> Ratio:
    return Ratio(name, part, whole, per=1000.0, most=most)


_FREE: tuple[Quantity, ...] = (
    Ratio("identical_share", "not_identical", "requests", per=-1.0, offset=1.0, most="requests"),
    _per_thousand("divergences_per_1000_tokens", "events", "exposed", "streams"),
    *(
        _per_thousand(f"{kind.value}_divergences_per_1000_tokens", kind.value, "exposed", "streams")
        for kind in FlipClass
    ),
)
_FORCED: tuple[Quantity, ...] = (
    _per_thousand("flips_per_1000_positions", "events", "positions", "positions"),
    *(_per_thousand(f"{kind.value}_flips_per_1000_positions", kind.value, "positions", "positions") for kind in FlipClass),
    Ratio("expected_flips_per_1000_positions", "expected", "expected_positions", per=1000.0, real=True, most="expected_positions"),
    Ratio("top1_agreement_share", "disagree", "positions", per=-1.0, offset=1.0, most="positions"),
)  # fmt: skip
_BOTH: tuple[Quantity, ...] = (
    Ratio("mean_error_nats", "error", "values", real=True),
    Quantile("median_error_nats", "error", 0.5),
    Quantile("p90_error_nats", "error", 0.9),
    Quantile("p99_error_nats", "error", 0.99),
    *(Ratio(f"error_above_{edge:g}_nats_share", f"above_{edge:g}", "values", most="values") for edge in TAILS),
    Ratio("mean_difference_nats", "difference", "values", real=True, signed=True),
    Ratio("mean_probability_error", "probability", "values", real=True, most="values"),
    Quantile("median_relative_error", "relative", 0.5),
    Quantile("p99_relative_error", "relative", 0.99),
    Ratio("k1_nats", "difference", "values", per=-1.0, real=True, signed=True),
    Ratio("k3_nats", "k3", "values", real=True),
    Ratio("mean_kl_lower_bound_nats", "kl", "kl_lists", real=True),
    Quantile("p99_kl_lower_bound_nats", "kl", 0.99),
    Ratio("mean_tv_lower_bound", "tv", "tv_lists", real=True, most="tv_lists"),
    Quantile("p99_tv_lower_bound", "tv", 0.99),
    Correlation("correlation"),
    Ratio("rank_1_share", "below_first", "ranks", per=-1.0, offset=1.0, most="ranks"),
    Quantile("p99_rank", "rank", 0.99, whole_numbers=True),
)


def quantities(mode: Mode) -> tuple[Quantity, ...]:
    """Return the headline numbers of a mode, in the order in which they are shown."""
    match mode:
        case Mode.FREE:
            return _FREE + _BOTH
        case Mode.FORCED:
            return _FORCED + _BOTH


def shares_of(bins: str) -> tuple[float, ...]:
    """Return the quantiles that are headline numbers of some bins."""
    return tuple(one.share for one in _BOTH if isinstance(one, Quantile) and one.bins == bins)
