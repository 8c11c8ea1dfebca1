"""Small fixed questions, and what their answers give away: hashes of tokenizer and template, the logits' number format, the logprob mode.

House rules. The texts are ours, fixed for ever (hashes are compared across versions of Parhelion) and hold no special tokens. Inference from
numbers is pure and says None when there is too little to go by.
"""

from __future__ import annotations

import hashlib
import math

import orjson

from engines.dialect import Dialect, DialectError, Endpoint, Fetch, Json
from proxy.compare.token_stream import Alternative, Token, Tokens

#: The canary's length in tokens: eight rows are enough to see the shape, and cost nothing.
LENGTH = 8
_QUESTION = "Write one sentence about the sea."
PROMPT = "The sea is"
_TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "  def f(x):\n\treturn x**2  # 3.14159 and 1234567890\n",
    "naïve café — “quotes” … ½ µ Ω",
    "日本語の文章と中文文本 한국어",
    "🎉🥳👩‍🚀 family",
    "HELLO hello HeLLo\r\n\r\n   end ",
)
CHATS: tuple[list[Json], ...] = (
    [{"role": "user", "content": _QUESTION}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": _QUESTION}],
    [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello! "},
        {"role": "user", "content": " And now? "},
    ],
)
#: An engine asked twice differs from itself by less (nats), and values of unrelated tokens by more in one of so many rows.
_OWN, _ENOUGH_ROWS = 0.1, 6
#: Steps of the logits' grid that are looked for, finest first: below 1/1024 it is float32's for all that can be told.
_STEPS = tuple(2.0**-power for power in range(10, 1, -1))


def question(endpoint: Endpoint, model: str, *, length: int = LENGTH, temperature: float = 0.0) -> Json:
    """Return the canary request."""
    asked: Json = {"messages": CHATS[0]} if endpoint is Endpoint.CHAT else {"prompt": PROMPT}
    return {"model": model, **asked, "max_tokens": length, "temperature": temperature}


def begun_with(asked: Json, text: str) -> Json:
    """Return a canary request whose text begins otherwise: another prefix to an engine's cache."""
    if "prompt" in asked:
        return {**asked, "prompt": f"{text} {asked['prompt']}"}
    return {**asked, "messages": [{"role": "user", "content": f"{text} {_QUESTION}"}]}


async def tokenizer_hash(fetch: Fetch, dialect: Dialect, model: str) -> str | None:
    """Hash how fixed texts are tokenized; None when the engine cannot tell."""
    if dialect.tokenize is None:
        return None
    try:
        return _hash([await dialect.tokenize(fetch, text, model) for text in _TEXTS])
    except DialectError:
        return None


async def chat_template_hash(fetch: Fetch, dialect: Dialect, model: str) -> str | None:
    """Hash how fixed chats are rendered; a chat that the template refuses counts as refused. None when the engine cannot tell."""
    if dialect.prompt_ids is None:
        return None
    rendered: list[object] = []
    for chat in CHATS:
        try:
            rendered.append(await dialect.prompt_ids(fetch, Endpoint.CHAT, {"model": model, "messages": chat}))
        except DialectError as error:
            if error.reason == "no_prompt_ids":  # it is no template that refuses, but a route that renders no such chat
                return None
            rendered.append("refused")
    return None if rendered[0] == "refused" else _hash(rendered)


def _hash(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value)).hexdigest()[:16]


def logits_step(tokens: Tokens) -> str | None:
    """Infer the logits' number format from the gaps between alternatives; None with too few of them.

    bf16 logits of size 8 to 32 differ in multiples of 1/16 or 1/8, fp16 ones in multiples of 1/128 or 1/64, fp32 ones in nothing
    one could see.
    """
    gaps = [token.top[0].logprob - other.logprob for token in tokens for other in token.top[1:]]
    gaps = [gap for gap in gaps if gap < 20]
    if len(gaps) < 8:
        return None
    coarsest = None
    for step in _STEPS:
        # A log-softmax in float32 leaves about 1e-6 of error on values of this size.
        fitting = sum(abs(gap / step - round(gap / step)) * step < 2e-5 for gap in gaps)
        if fitting >= 0.9 * len(gaps):
            coarsest = step
    if coarsest is None:
        return "fp32"
    return "bf16" if coarsest >= 2.0**-5 else "fp16"


def displaced(whole: Tokens, stream: Tokens) -> bool:
    """Tell that a stream's values are those of the token before, or after: equal tokens, and every value fits its neighbour's row and not its own."""
    pairs = [(one.logprob, other.logprob) for one, other in zip(whole, stream, strict=False)]
    mine = [left for left, right in pairs if left is not None and right is not None]
    theirs = [right for left, right in pairs if left is not None and right is not None]
    if len(mine) < len(pairs) or len(pairs) < _ENOUGH_ROWS or _fits(mine, theirs):
        return False
    return _fits(mine[:-1], theirs[1:]) or _fits(mine[1:], theirs[:-1])


def _fits(one: list[float], other: list[float]) -> bool:
    return all(abs(left - right) < _OWN for left, right in zip(one, other, strict=True))


def values_mode(tokens: Tokens) -> str | None:
    """Say what the values cannot be: ``logits`` (above zero, or more than one in all), ``renormalised`` (all zero). None: logprobs, as far as one sees."""
    values = [token.logprob for token in tokens if token.logprob is not None]
    if any(value > 1e-6 for value in values) or any(_mass(token.top) > 1.01 for token in tokens):
        return "logits"
    if values and all(value == 0.0 for value in values):
        return "renormalised"
    return None


def _mass(top: tuple[Alternative, ...]) -> float:
    listed = {(_key(one), one.logprob) for one in top}  # a list that holds one token twice makes it no likelier
    return sum(math.exp(min(logprob, 50.0)) for _, logprob in listed)


def scaled(one: Token, halved: Token) -> str | None:
    """Tell raw from processed values: the same position at temperature 1 and 0.5; processed gaps double. None when the lists do not say."""
    wanted = {_key(other): other.logprob for other in halved.top}
    shared = [(other.logprob, wanted[_key(other)]) for other in one.top if _key(other) in wanted]
    if len(shared) < 2:
        return None
    first, last = shared[0], shared[-1]
    gap = first[0] - last[0]
    if gap < 0.2:
        return None
    ratio = (first[1] - last[1]) / gap
    if 0.85 < ratio < 1.15:
        return "raw"
    return "processed" if 1.7 < ratio < 2.3 else None


def _key(one: Alternative) -> object:
    return one.id if one.id is not None else (one.text, one.data)
