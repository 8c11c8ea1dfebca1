"""How close two candidates must be to count as a near tie: configured, learned from the control, or assumed.

House rules. The threshold that judges a comparison comes from earlier data only: ask ``threshold`` first, ``learn`` after.
What is learned is counts in fixed bins, so that states of workers, restarts and replicas add up exactly, in any order.
Definitions: the shift of a position is d(1st) - d(2nd), where d = log q - log p and 1st, 2nd are the primary's two most
likely tokens: by how much the control's gap differs from the primary's. All in nats.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from math import ceil, erfc, floor, fsum, log2, sqrt
from operator import mul

from msgspec import Struct, field

from proxy.compare.comparison import Comparison, TauOrigin

#: Below this many control positions a 99th percentile says nothing, and the threshold is assumed.
ENOUGH_POSITIONS = 200
QUANTILE = 0.99

#: Gaps are differences of float32 logprobs, so they carry an error of about one unit in the last place of the larger.
RESOLUTION = 2e-6

_LOWEST_POWER, _HIGHEST_POWER, _PER_OCTAVE = -24, 6, 8
_BINS = (_HIGHEST_POWER - _LOWEST_POWER) * _PER_OCTAVE + 2

#: Steps that are looked for, coarsest first: bf16 logits of size 64 to 128 move by 0.5; below 2^-10 a gap hits a multiple
#: by chance too often to tell.
STEPS = tuple(2.0**-power for power in range(1, 11))
_FINEST_FIRST = tuple(reversed(tuple(enumerate(STEPS))))
#: Fewer rows than this prove no grid: any gap is a multiple of the finest step by chance with probability 4e-3.
_ENOUGH_ROWS = 20
#: Logits of a neighbouring binade move by half or twice the step; the step meant is the one most rows have.
_MOST = 0.9
#: No two float16 or bf16 logits of one row are this far apart; what claims to be is not a logprob.
_LARGEST = 1e5

#: 1e-3 nat for fp32 logits and for those of which nothing is known; two steps otherwise. Steps are of logits of size 16 to 32.
ASSUMED = 1e-3
_STEP_OF_DTYPE = {"bf16": 2.0**-3, "bfloat16": 2.0**-3, "fp16": 2.0**-6, "float16": 2.0**-6, "f16": 2.0**-6}


class Tau(Struct, frozen=True):
    """The near-tie threshold in nats and where it came from.

    ``scale`` is the control's root mean square shift in nats, None until it is learned: how much two candidates move
    against each other by noise alone. ``moved`` is the share of positions at which they do: bf16 arms often agree to the last bit.
    """

    value: float
    origin: TauOrigin
    scale: float | None = None
    moved: float = 1.0

    def covers(self, gap: float) -> bool:
        """Say whether a gap of either sign is within the threshold, give or take the resolution of reported values."""
        return abs(gap) <= self.value + RESOLUTION

    def expected_flips(self, gaps: Iterable[float | None]) -> float | None:
        """Return how many flips noise of this scale alone makes at these gaps: the sum of Phi(-gap / scale), where the noise is normal or, at a share of positions, 0.

        None while the scale is unknown, and where no gap is.
        """
        if self.scale is None:
            return None
        known = [gap for gap in gaps if gap is not None]
        if not known:
            return None
        if self.scale == 0.0:
            return 0.0
        scale = self.scale / sqrt(self.moved)
        return self.moved * fsum(0.5 * erfc(gap / (scale * sqrt(2.0))) for gap in known)


class Noise(Struct):
    """What was learned so far, per shadow, model and mode (prefill and decode kernels have different noise).

    ``shifts``: counts of abs(shift) by bin. ``rows``: primary gaps looked at for a grid; ``multiples``: how many of them
    are multiples of each of ``STEPS``.
    """

    shifts: list[int] = field(default_factory=lambda: [0] * _BINS)
    rows: int = 0
    multiples: list[int] = field(default_factory=lambda: [0] * len(STEPS))

    @property
    def sound(self) -> bool:
        """Whether it is counts in the bins of now: one that was kept may be of other bins."""
        counts = (*self.shifts, *self.multiples, self.rows)
        return (len(self.shifts), len(self.multiples)) == (_BINS, len(STEPS)) and min(counts) >= 0

    @property
    def positions(self) -> int:
        """Control positions seen."""
        return sum(self.shifts)


def _bin(shift: float) -> int:
    if shift < 2.0**_LOWEST_POWER:
        return 0
    return min(_BINS - 1, 1 + floor((log2(shift) - _LOWEST_POWER) * _PER_OCTAVE))


def learn(noise: Noise, comparison: Comparison, *, control: bool) -> None:
    """Add one comparison: its primary's gaps, and its shifts when the shadow is the control.

    Rows whose gap is exactly 0 are multiples of everything and left out of the search for a grid.
    """
    if comparison.incomparable is not None:
        return
    for choice in comparison.choices:
        learn_gaps(noise, choice.gaps)
        if control and comparison.values_incomparable is None:
            for shift in choice.gap_shifts:
                if shift is not None and abs(shift) < _LARGEST:
                    noise.shifts[_bin(abs(shift))] += 1


def learn_gaps(noise: Noise, gaps: Iterable[float | None]) -> None:
    """Add gaps of one arm's rows to the search for the grid of its logits."""
    for gap in gaps:
        if gap is None or not RESOLUTION < gap < _LARGEST:
            continue
        noise.rows += 1
        for index, step in _FINEST_FIRST:
            if abs(gap - round(gap / step) * step) > RESOLUTION:
                break  # what is no multiple of a step is none of twice that step
            noise.multiples[index] += 1


def merge(left: Noise, right: Noise) -> Noise:
    """Add two states; commutative and associative."""
    return Noise(
        [mine + other for mine, other in zip(left.shifts, right.shifts, strict=True)],
        left.rows + right.rows,
        [mine + other for mine, other in zip(left.multiples, right.multiples, strict=True)],
    )


def shift_quantile(noise: Noise, share: float = QUANTILE) -> float:
    """Return the upper edge of the bin that holds this quantile of abs(shift): never too small, at most 9 % too large."""
    seen = list(accumulate(noise.shifts))
    index = bisect_left(seen, max(1, ceil(share * seen[-1])))
    return 2.0 ** (_LOWEST_POWER + index / _PER_OCTAVE) if 0 < index < len(seen) else 0.0


#: The square of the middle of each bin; the first is that of no shift.
_SQUARES = (0.0, *(4.0 ** (_LOWEST_POWER + (index - 0.5) / _PER_OCTAVE) for index in range(1, _BINS)))


def shift_scale(noise: Noise) -> float:
    """Return the root mean square of the shifts, each taken at the middle of its bin (at most 5 % off); 0 without any."""
    squares = sum(map(mul, noise.shifts, _SQUARES))
    return sqrt(squares / noise.positions) if squares else 0.0


def moved_share(noise: Noise) -> float:
    """Return the share of shifts that are more than the error of float32 logprobs; 0 without any."""
    still = sum(noise.shifts[: 1 + floor((log2(RESOLUTION) - _LOWEST_POWER) * _PER_OCTAVE)])
    return 1.0 - still / noise.positions if noise.positions else 0.0


def logit_step(noise: Noise) -> float | None:
    """Return the step of the primary's logits: the coarsest power of two that nearly all gaps within its rows are multiples of.

    The step cannot be read off a logprob (its magnitude is lost in the softmax), but a difference of two logprobs of one
    row is a difference of two logits. None when there is no grid, or too few rows to see one.
    """
    if noise.rows < _ENOUGH_ROWS:
        return None
    for step, count in zip(STEPS, noise.multiples, strict=True):
        if count >= _MOST * noise.rows:
            return step
    return None


def threshold(noise: Noise, *, configured: float | None = None, dtype: str | None = None) -> Tau:
    """Return the threshold for the next comparison.

    Learned: the larger of the control's 99th percentile and one inferred logit step. ``dtype`` is the primary's logit
    dtype as its footprint says; it is asked only while nothing can be inferred.
    """
    scale = shift_scale(noise) if noise.positions >= ENOUGH_POSITIONS else None
    moved = (moved_share(noise) if scale else 0.0) or 1.0
    if configured is not None:
        return Tau(configured, TauOrigin.CONFIGURED, scale, moved)
    step = logit_step(noise)
    if scale is not None:
        return Tau(max(shift_quantile(noise), step or 0.0), TauOrigin.LEARNED, scale, moved)
    step = step or _STEP_OF_DTYPE.get((dtype or "").lower())
    return Tau(2 * step if step else ASSUMED, TauOrigin.ASSUMED)
