"""Synthetic engines whose truth is known: next-token logits from a hash of the prefix, disturbed in one declared way.

``token``, ``stream`` and ``reply`` write one value by hand; ``engine`` makes an arm that decodes greedily, samples, and scores
given tokens, with lists of alternatives as real engines report them (float32, sorted by value, then id).
"""

import math
import random
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace

import pytest

from proxy.compare.comparison import TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Alternative, Reply, Token, TokenStream

VOCABULARY = 60
Logits = list[float]


def float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def bf16(value: float) -> float:
    """Round to the eight significant bits of bfloat16."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 256), exponent - 8)


def clean(prefix: tuple[int, ...]) -> Logits:
    """Logits of size 16 to 32, as real models' heads, so that bf16 moves in steps of 1/8."""
    return list(_clean(prefix[-6:]))


@lru_cache(maxsize=8192)  # the arms of a comparison ask for the same prefixes
def _clean(last: tuple[int, ...]) -> tuple[float, ...]:
    rng = random.Random(repr(last))
    return tuple(rng.gauss(20.0, 1.5) for _ in range(VOCABULARY))


def log_softmax(logits: Logits, *, exact: bool = False) -> list[float]:
    top = max(logits)
    total = math.log(math.fsum(math.exp(x - top) for x in logits))
    values = [x - top - total for x in logits]
    return values if exact else [float32(x) for x in values]


def token(id_, logprob=None, top=(), *, text=None, data=None, **more) -> Token:
    text = f"<{id_}>" if text is None else text
    top = tuple(Alternative(lp, other, f"<{other}>") for other, lp in top)
    return Token(text=text, id=id_, data=data, logprob=logprob, top=top, **more)


def stream(*tokens: Token, finish: str | None = "length", **more) -> TokenStream:
    more.setdefault("count", len(tokens))
    more.setdefault("text", "".join(one.text for one in tokens))
    return TokenStream(tokens=tokens, finish_reason=finish, **more)


def reply(*streams: TokenStream, **more) -> Reply:
    return Reply(choices=streams, **more)


def row(logprobs: list[float], chosen: int, top: int) -> Token:
    order = sorted(range(len(logprobs)), key=lambda one: (-logprobs[one], one))[:top]
    if chosen not in order:
        order = [chosen, *order[: top - 1]] if top else []
        order.sort(key=lambda one: (-logprobs[one], one))
    return token(chosen, logprobs[chosen], [(one, logprobs[one]) for one in order])


class Engine:
    """One arm: ``disturb(prefix, logits)`` is all that is wrong with it; ``highest`` breaks exact ties towards the highest id, ``rule(tied, prefix)`` as it says."""

    def __init__(
        self,
        disturb: Callable[[tuple[int, ...], Logits], Logits] | None = None,
        *,
        highest: bool = False,
        rule: Callable[[list[int], tuple[int, ...]], int] | None = None,
    ):
        self._disturb = disturb or (lambda _prefix, logits: logits)
        self._rule = rule or (lambda tied, _prefix: tied[-1] if highest else tied[0])

    def logprobs(self, prefix: tuple[int, ...]) -> list[float]:
        return log_softmax(self._disturb(prefix, clean(prefix)))

    def greedy(self, prompt: tuple[int, ...], length: int = 48, top: int = 8) -> TokenStream:
        rows: list[Token] = []
        prefix = prompt
        for _ in range(length):
            logprobs = self.logprobs(prefix)
            best = max(logprobs)
            tied = [index for index, value in enumerate(logprobs) if value == best]
            chosen = self._rule(tied, prefix)
            rows.append(row(logprobs, chosen, top))
            prefix = (*prefix, chosen)
        return stream(*rows, prompt_ids=prompt)

    def sample(self, prompt: tuple[int, ...], seed: int, length: int = 48, top: int = 8) -> TokenStream:
        rng = random.Random(seed)
        rows: list[Token] = []
        prefix = prompt
        for _ in range(length):
            logprobs = self.logprobs(prefix)
            chosen = rng.choices(range(VOCABULARY), [math.exp(value) for value in logprobs])[0]
            rows.append(row(logprobs, chosen, top))
            prefix = (*prefix, chosen)
        return stream(*rows, prompt_ids=prompt)

    def score(self, prompt: tuple[int, ...], ids: Sequence[int], top: int = 8) -> list[tuple[int, Token]]:
        return [(index, row(self.logprobs((*prompt, *ids[:index])), chosen, top)) for index, chosen in enumerate(ids)]


def noisy(size: float, salt: str = "noise") -> Engine:
    def disturb(prefix: tuple[int, ...], logits: Logits) -> Logits:
        rng = random.Random(f"{salt}{prefix[-6:]}")
        return [x + rng.gauss(0.0, size) for x in logits]

    return Engine(disturb)


def rounded(*, highest: bool = False, rule: Callable[[list[int], tuple[int, ...]], int] | None = None) -> Engine:
    return Engine(lambda _prefix, logits: [bf16(x) for x in logits], highest=highest, rule=rule)


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    return SimpleNamespace(
        token=token,
        stream=stream,
        reply=reply,
        row=row,
        engine=Engine,
        noisy=noisy,
        rounded=rounded,
        bf16=bf16,
        log_softmax=log_softmax,
        prompts=tuple((number, number + 1) for number in range(20)),
        vocabulary=VOCABULARY,
    )


@pytest.fixture(scope="session")
def tau() -> Tau:
    return Tau(1e-3, TauOrigin.ASSUMED)
