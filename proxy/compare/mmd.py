"""Whether two samplers answer alike: the maximum mean discrepancy between texts drawn for the same prompts, tested by exchanging texts within each prompt.

Two random draws differ, so nothing can be said of one text beside another; of several draws a prompt, the two *sets* can be held against each other (Gretton, Borgwardt, Rasch, Schölkopf and
Smola, "A Kernel Two-Sample Test", JMLR 13, 2012). For each prompt the unbiased estimate of MMD^2 (their Lemma 6), weighted by nm / (n + m); their sum is held against the
same sum with the texts of every prompt dealt anew between the arms. What a prompt makes of its answers is the same on both sides of each exchange, so that other mixes of prompts, or prompts asked more
often of one arm, mean nothing here.

The kernel is the mean over n = 1, 2, 3 of the cosine between counts of n-grams (the spectrum kernel of Leslie, Eskin and Noble 2002, normalised), an end mark included:
1 between equal texts of two tokens and more, 0 between texts with nothing in common but their end.

House rules. Pure. Dealing comes from a hash of prompt and replicate: no random source, and the same data always give the same answer. Texts are sequences of anything that can be counted: token ids, or the characters of a string.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from math import fsum, sqrt
from struct import iter_unpack

from msgspec import Struct

Text = Sequence[Hashable]
Gram = Sequence[Sequence[float]]

#: Lengths of the n-grams.
_LENGTHS = (1, 2, 3)
_END = object()
_KEYS = 8  # that one digest of 64 bytes gives


class Draws(Struct, frozen=True):
    """Texts of both arms for one prompt, of which ``prompt`` is any key that tells it from others."""

    prompt: str
    ours: tuple[Text, ...]
    theirs: tuple[Text, ...]


class Discrepancy(Struct, frozen=True):
    """What the draws say.

    ``p_value``: the share of dealings, the true one among them, that set the arms as far apart as they are: uniform, or larger, while the samplers are the same. ``mmd_squared``: the weighted mean over
    prompts, about 0 while they are, at most 2. ``prompts`` that count, ``ours`` and ``theirs`` their texts; ``left_out``: prompts with fewer than two texts in an arm.
    """

    p_value: float
    mmd_squared: float
    prompts: int
    ours: int
    theirs: int
    left_out: int
    dealings: int


def discrepancy(draws: Iterable[Draws], *, dealings: int = 999) -> Discrepancy | None:
    """Test whether both arms' texts come from the same sampler, prompt by prompt; None without a prompt that has two texts in each arm.

    A p-value is at least 1 / (``dealings`` + 1). Raises ValueError when a prompt comes twice.
    """
    every = list(draws)
    if len({one.prompt for one in every}) < len(every):
        raise ValueError("a prompt comes twice: put all of its texts into one Draws")
    known = [one for one in every if min(len(one.ours), len(one.theirs)) > 1]
    if not known:
        return None
    strata = [_Stratum(one) for one in known]
    true = fsum(stratum.apart(range(stratum.ours)) for stratum in strata)
    dealt = [fsum(stratum.dealt(number) for stratum in strata) for number in range(dealings)]
    margin = 1e-12 * len(strata)  # equal sums in another order are equal
    return Discrepancy(
        p_value=(1 + sum(one >= true - margin for one in dealt)) / (dealings + 1),
        mmd_squared=true / fsum(stratum.weight for stratum in strata),
        prompts=len(known),
        ours=sum(len(one.ours) for one in known),
        theirs=sum(len(one.theirs) for one in known),
        left_out=len(every) - len(known),
        dealings=dealings,
    )


class _Stratum:
    """One prompt: the kernel between all of its texts, ours first."""

    def __init__(self, draws: Draws) -> None:
        self._key = draws.prompt.encode("utf-8", "surrogatepass")
        self._gram = gram((*draws.ours, *draws.theirs))
        self._rows = [fsum(row) - row[at] for at, row in enumerate(self._gram)]
        self._all = fsum(self._rows)
        self.ours, self.theirs = len(draws.ours), len(draws.theirs)
        self.weight = self.ours * self.theirs / (self.ours + self.theirs)

    def apart(self, ours: Iterable[int]) -> float:
        """Return the weighted MMD^2 if these texts were ours."""
        chosen = list(ours)
        within = fsum(self._gram[one][other] for one in chosen for other in chosen if one != other)
        across = fsum(self._rows[one] for one in chosen) - within
        without = self._all - within - 2 * across
        n, m = self.ours, self.theirs
        return self.weight * (within / (n * (n - 1)) + without / (m * (m - 1)) - 2 * across / (n * m))

    def dealt(self, number: int) -> float:
        """Return the same with the texts dealt anew."""
        count = self.ours + self.theirs
        keys = [
            key
            for block in range(-(-count // _KEYS))
            for (key,) in iter_unpack("<Q", blake2b(self._key, salt=_salt(number, block)).digest())
        ]
        return self.apart(sorted(range(count), key=keys.__getitem__)[: self.ours])


def _salt(number: int, block: int) -> bytes:
    return number.to_bytes(8, "little") + block.to_bytes(8, "little")


def gram(texts: Sequence[Text]) -> Gram:
    """Return the kernel between every two texts."""
    counted = [[_unit(text, length) for length in _LENGTHS] for text in texts]
    rows = [[0.0] * len(texts) for _ in texts]
    for one, first in enumerate(counted):
        for other in range(one + 1):
            value = fsum(_dot(a, b) for a, b in zip(first, counted[other], strict=True)) / len(_LENGTHS)
            rows[one][other] = rows[other][one] = value
    return rows


def _unit(text: Text, length: int) -> dict[tuple[Hashable, ...], float]:
    """Return how often each n-gram comes, as a vector of length 1; none of a text that is too short."""
    ended = (*text, _END)
    counts = Counter(ended[at : at + length] for at in range(len(ended) - length + 1))
    norm = sqrt(sum(count * count for count in counts.values()))
    return {ngram: count / norm for ngram, count in counts.items()}


def _dot(one: Mapping[tuple[Hashable, ...], float], other: Mapping[tuple[Hashable, ...], float]) -> float:
    few, many = (one, other) if len(one) < len(other) else (other, one)
    return fsum(value * many[ngram] for ngram, value in few.items() if ngram in many)
