"""Simulated engines whose every logit is known: one model, and arms of it that are wrong in one declared way.

A ``World`` is the model: the logits after a prefix are the sum of two windows of one long table of normal numbers, found by a hash of the prefix, so that thousands of
tokens cost a second and any arm can be asked for its whole vocabulary at any place. An ``Arm`` adds what it does wrong and reports lists as real engines do: float32, a few of the
most likely tokens, sorted by value, then id.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import repeat
from operator import add

from proxy.compare.token_stream import Alternative, Token, TokenStream

END = 0
PROMPT = 8  # tokens of every prompt
_TABLE = 1 << 17
_REMEMBERED = 6
_NEVER = -30.0

Ids = tuple[int, ...]
Logits = list[float]
#: (position in the reply, prefix with the prompt, logits) -> logits
Disturb = Callable[[int, Ids, Logits], Logits]


def bf16(value: float) -> float:
    """Round to the eight significant bits of bfloat16, ties to even."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 256), exponent - 8)


@lru_cache(maxsize=2)
def halves(seed: int) -> array[float]:
    """Normal numbers of variance 1/2; where a prefix's begin is as good as drawn."""
    draw = random.Random(f"normals {seed}")
    return array("d", (draw.gauss(0.0, math.sqrt(0.5)) for _ in range(_TABLE)))


class World:
    """The model: logits around ``mean`` with standard deviation ``spread``, one of them ``lead`` higher in the mean (exponentially distributed: near ties are
    rarer then, as in real text). Replies end after ``ends`` tokens, or never by themselves."""

    def __init__(
        self,
        seed: int,
        *,
        vocabulary: int = 64,
        mean: float = 20.0,
        spread: float = 1.5,
        lead: float = 0.0,
        ends: int | None = None,
    ):
        self.seed, self.vocabulary, self.ends = seed, vocabulary, ends
        self.mean, self.spread, self.lead = mean, spread, lead
        self._known: dict[Ids, Logits] = {}

    def noise(self, name: str, prefix: Ids) -> list[float]:
        """One standard normal number for each token: a pure function of the name and of the prefix's length and end.

        Of two windows, for one alone is the same after two prefixes once in 131,072 pairs of them: among the pairs of neighbours of ten seeds a model that repeats itself.
        """
        key = f"{name} {len(prefix)} {prefix[-_REMEMBERED:]}".encode()
        one, other = divmod(int.from_bytes(blake2b(key, digest_size=8).digest(), "little"), 1 << 32)
        table, size = halves(self.seed), self.vocabulary
        one, other = one % (_TABLE - size), other % (_TABLE - size)
        return list(map(add, table[one : one + size], table[other : other + size]))

    def logits(self, prefix: Ids) -> Logits:
        """The model's own."""
        key = (len(prefix), *prefix[-_REMEMBERED:])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = [self.mean + self.spread * one for one in self.noise("model", prefix)]
            if self.lead:
                luck = self.noise("lead", prefix)
                best = max(range(self.vocabulary), key=known.__getitem__)
                known[best] += self.lead * (luck[0] ** 2 + luck[1] ** 2) / 2
            over = self.ends is not None and len(prefix) - PROMPT >= self.ends
            known[END] = self.mean + (40.0 if over else _NEVER)
        return known

    def prompt(self, number: int) -> Ids:
        """The prompt of a conversation; its first token is the begin token."""
        return (1, 2, 3, *(2 + (number // 50**power) % 50 for power in (2, 1, 0)), 4, 5)


def log_softmax(logits: Sequence[float]) -> list[float]:
    """In nats, as float32 engines report them."""
    top = max(logits)
    total = top + math.log(math.fsum(map(math.exp, map(float.__sub__, logits, repeat(top)))))
    return array("f", [x - total for x in logits]).tolist()


class Arm:
    """One engine. ``disturb``: what is wrong with its logits; ``highest``: among equal logits it takes the highest id; ``top``: how many alternatives it lists;
    ``temperature``: what it divides logits by before it reports them; ``shifted``: each row shows the values so many rows back; ``wrong``: the place and rank
    (1 the best) at which its sampler takes another token than the best."""

    def __init__(
        self,
        world: World,
        disturb: Disturb | None = None,
        *,
        highest: bool = False,
        top: int = 10,
        temperature: float = 1.0,
        shifted: int = 0,
        wrong: tuple[int, int] | None = None,
    ):
        self.world, self.top, self.shifted = world, top, shifted
        self._shown: dict[Ids, tuple[list[float], list[int]]] = {}
        self._disturb, self._highest, self._temperature, self._wrong = disturb, highest, temperature, wrong

    def logits(self, prefix: Ids) -> Logits:
        """What it decodes by."""
        clean = self.world.logits(prefix)
        return self._disturb(len(prefix) - PROMPT, prefix, clean) if self._disturb else clean

    def logprobs(self, prefix: Ids) -> list[float]:
        """What it reports, of the whole vocabulary."""
        return self._show(prefix)[0]

    def _show(self, prefix: Ids) -> tuple[list[float], list[int]]:
        """The values of the whole vocabulary, and its tokens by them."""
        shown = self._shown.get(prefix)
        if shown is None:
            logits = self.logits(prefix)
            values = log_softmax(logits if self._temperature == 1.0 else [x / self._temperature for x in logits])
            shown = self._shown[prefix] = values, ranked(values)
        return shown

    def reply(self, prompt: Ids, length: int, *, drawn_by: str | None = None) -> TokenStream:
        """Say up to ``length`` tokens: greedily, or drawn from the model at temperature 1 by a seed of this name."""
        draw = random.Random(f"{drawn_by} {prompt}") if drawn_by is not None else None
        rows: list[Token] = []
        prefix = prompt
        while len(rows) < length:
            values, order = self._show(prefix)
            if draw is not None:
                chosen = draw.choices(range(len(values)), [math.exp(value) for value in values])[0]
            else:
                chosen = self._greedy(len(rows), values, order)
            rows.append(row(values, order, chosen, self.top))
            prefix = (*prefix, chosen)
            if chosen == END:
                break
        return stream(self._moved(rows), prompt_ids=prompt)

    def score(self, prompt: Ids, ids: Sequence[int]) -> list[tuple[int, Token]]:
        """Its values of given tokens, by index."""
        rows = [row(*self._show((*prompt, *ids[:index])), chosen, self.top) for index, chosen in enumerate(ids)]
        return list(enumerate(self._moved(rows)))

    def _greedy(self, index: int, values: list[float], order: list[int]) -> int:
        if self._wrong is not None and self._wrong[0] == index:
            return order[self._wrong[1] - 1]
        tied = [token for token in order[:8] if values[token] == values[order[0]]]
        return tied[-1] if self._highest else tied[0]

    def _moved(self, rows: list[Token]) -> list[Token]:
        if not self.shifted:
            return rows
        sources = [rows[min(max(index - self.shifted, 0), len(rows) - 1)] for index in range(len(rows))]
        return [
            Token(text=mine.text, id=mine.id, logprob=other.logprob, top=other.top)
            for mine, other in zip(rows, sources, strict=True)
        ]


def ranked(values: Sequence[float]) -> list[int]:
    """Token ids, the most likely first, equal ones by id."""
    return sorted(range(len(values)), key=values.__getitem__, reverse=True)  # stable: equal ones stay by id


def row(values: Sequence[float], order: Sequence[int], chosen: int, top: int) -> Token:
    """One reported row: the best ``top`` (``order``: tokens by value); as vLLM does, a chosen token that is not among them comes beside them."""
    listed = tuple(Alternative(values[one], one, f"<{one}>") for one in order[:top])
    if all(one.id != chosen for one in listed):
        listed = (*listed, Alternative(values[chosen], chosen, f"<{chosen}>"))
    return Token(text=f"<{chosen}>", id=chosen, logprob=values[chosen], top=listed)


def stream(rows: Sequence[Token], *, prompt_ids: Ids | None = None, finish: str | None = None, **more) -> TokenStream:
    """A choice of these rows: it ended by itself where the last is the end token."""
    ended = bool(rows) and rows[-1].id == END
    said = rows[:-1] if ended else rows
    more.setdefault("text", "".join(one.text for one in said))
    finish = finish or ("stop" if ended else "length")
    return TokenStream(tokens=tuple(rows), finish_reason=finish, count=len(rows), prompt_ids=prompt_ids, **more)


def noisy(world: World, size: float, name: str, *, first: int = 0, growing: float = 0.0, **more) -> Arm:
    """Normal noise of standard deviation ``size`` (nats) on each logit from position ``first`` on, ``growing`` more at each further one."""

    def disturb(index: int, prefix: Ids, logits: Logits) -> Logits:
        if index < first:
            return logits
        own = size + growing * (index - first)
        return [x + own * other for x, other in zip(logits, world.noise(name, prefix), strict=True)]

    return Arm(world, disturb, **more)


def rounded(world: World, **more) -> Arm:
    """Logits in bfloat16."""
    return Arm(world, lambda _index, _prefix, logits: [bf16(x) for x in logits], **more)
