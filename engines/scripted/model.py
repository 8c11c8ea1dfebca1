"""The toy model: the logits of the next token, a pure function of the ids before it and of the script.

House rules. Pure: no clock, no random source but keyed hashes, so decoding and scoring agree to the last bit and two engines of one script are one
model. Planted differences of numbers (noise, rounding) are applied here; what only the wire does wrong is planted elsewhere. Values are nats.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from engines.scripted.replies import Wanted, wanted_replies
from engines.scripted.script import Differences, Script
from engines.scripted.vocabulary import END, Table, table

Ids = tuple[int, ...]

#: A token that the toy does not say of its own accord.
_SILENT = -20.0
#: How much the whole context weighs beside its last tokens: a second BOS or a cut history shows in every value, and rarely in a choice.
_GLOBAL = 0.25
_LOCAL_TOKENS = 6
#: How far a token that a scripted reply wants is above all that the toy says, in spreads.
_WANTED = 4.0
_CACHED = 2048


class Toy:
    """One model. Keeps the logits of the contexts seen last."""

    def __init__(self, script: Script) -> None:
        self.table: Table = table(script.vocabulary)
        self.script = script
        self._replies = wanted_replies(script)
        self._cache: OrderedDict[Ids, tuple[float, ...]] = OrderedDict()

    def logits(self, context: Ids) -> tuple[float, ...]:
        """Return one logit for each id of the vocabulary."""
        known = self._cache.get(context)
        if known is None:
            known = self._cache[context] = self._logits(context)
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return known

    def logprobs(self, context: Ids) -> tuple[float, ...]:
        """Return the log-softmax of the logits, as float32."""
        return log_softmax(self.logits(context))

    def _logits(self, context: Ids) -> tuple[float, ...]:
        toy, differences = self.script.toy, self.script.differences
        wanted = self._replies.next(context)
        values = _chosen(wanted, len(self.table)) if wanted is not None and wanted.values else self._own(context)
        if wanted is not None and not wanted.values:
            values[wanted.token] = max(values) + _WANTED * toy.spread
        size = _noise(differences, len(context))
        if size:
            key = _key(b"noise", differences.noise_seed, context)
            for place, deviation in zip(range(len(values)), _normal(key), strict=False):
                values[place] += size * deviation
        return rounded(values, differences)

    def _own(self, context: Ids) -> list[float]:
        toy = self.script.toy
        near, whole = _key(b"near", toy.seed, context[-_LOCAL_TOKENS:]), _key(b"whole", toy.seed, context)
        values = [_SILENT] * len(self.table)
        for place, local, other in zip(self.table.spoken, _uniform(near), _uniform(whole), strict=False):
            # Exponential values: the gap of the best two has the mean ``spread``, as wide as a real model's, and is seldom small.
            values[place] = toy.spread * (_GLOBAL * (other - 0.5) - math.log(1.0 - local))
        ends = next(_uniform(_key(b"end", toy.seed, context))) < 1.0 / toy.length
        values[END] = toy.spread * (12.0 if ends else -1.0)
        return values


def _noise(differences: Differences, length: int) -> float:
    """Return the standard deviation, in nats, of what logits after so many tokens are off by."""
    further = length - differences.noise_from
    return differences.noise + differences.noise_growth * further if further >= 0 else 0.0


def log_softmax(logits: Sequence[float], temperature: float = 1.0) -> tuple[float, ...]:
    """Return log-probabilities in nats as float32 widened, of ``logits / temperature``."""
    scaled = logits if temperature == 1.0 else [value / temperature for value in logits]
    top = max(scaled)
    total = top + math.log(math.fsum(math.exp(value - top) for value in scaled))
    return _float32([value - total for value in scaled])


def rounded(values: Sequence[float], differences: Differences) -> tuple[float, ...]:
    """Round logits to the planted number format."""
    match differences.precision:
        case "fp16":
            return struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values))
        case "bf16":
            bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
            # To the nearest, ties to even: the upper half of a float32 is a bfloat16.
            upper = [(one + 0x7FFF + (one >> 16 & 1)) & 0xFFFF0000 for one in bits]
            return struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}I", *upper))
        case "fp32":
            return _float32(values)


def draw(name: bytes, seed: int, context: Ids) -> float:
    """Return a number in [0, 1): a pure function of all three."""
    return next(_uniform(_key(name, seed, context)))


def vector(script: Script, ids: Ids, size: int) -> tuple[float, ...]:
    """Return a text's ``size`` numbers for embeddings, noise included."""
    own, differences = _normal(_key(b"vector", script.toy.seed, ids)), script.differences
    noise = _normal(_key(b"vnoise", differences.noise_seed, ids))
    return tuple(next(own) + differences.noise * next(noise) for _ in range(size))


def _chosen(wanted: Wanted, size: int) -> list[float]:
    """Make logits whose log-softmax holds the script's values; what probability they leave is spread over the rest."""
    rest = 1.0 - math.fsum(math.exp(value) for value in wanted.values.values())
    others = size - len(wanted.values)
    share = math.log(max(rest, 1e-12) / others)
    return [wanted.values.get(token, share) for token in range(size)]


def _float32(values: Sequence[float]) -> tuple[float, ...]:
    return struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values))


def _key(name: bytes, seed: int, context: Ids) -> bytes:
    packed = struct.pack(f"<Q{len(context)}I", seed % (1 << 64), *context)
    return hashlib.blake2b(packed, digest_size=32, person=name).digest()


def _uniform(key: bytes) -> Iterator[float]:
    block = 0
    while True:
        digest = hashlib.blake2b(key + struct.pack("<I", block)).digest()
        for value in struct.unpack("<16I", digest):
            yield value / 2**32
        block += 1


def _normal(key: bytes) -> Iterator[float]:
    """Standard normal numbers (Box and Muller, 1958)."""
    numbers = _uniform(key)
    while True:
        radius, angle = math.sqrt(-2.0 * math.log(1.0 - next(numbers))), 2.0 * math.pi * next(numbers)
        yield radius * math.cos(angle)
        yield radius * math.sin(angle)
