"""What one arm said, as tokens: the only currency between dialects and the comparison.

House rules. Everything here is a frozen value. Nothing here knows an engine, a socket, a clock or a file: dialects
(``engines/``) build these values, ``proxy.compare`` reads them. Logprobs are natural logarithms (nats); ``None`` means
"the engine did not say", never zero and never a sentinel such as -9999.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct


class Channel(StrEnum):
    """Which part of a reply a token belongs to."""

    CONTENT = "content"
    REASONING = "reasoning"
    TOOL = "tool"


class Alternative(Struct, frozen=True, gc=False):
    """One entry of a top-k list: a token the engine could have chosen.

    ``id`` is None where the engine gives no ids; ``data`` is None where the engine's bytes cannot be trusted.
    """

    logprob: float
    id: int | None = None
    text: str | None = None
    data: bytes | None = None


class Token(Struct, frozen=True, gc=False):
    """One token of an arm's output.

    ``logprob`` is in nats, None when not reported (a part of a merged multi-byte row, a sentinel, a null).
    ``top`` is the engine's list of alternatives sorted by descending logprob, ties by ascending id, the chosen token
    included when the engine lists it; empty when none was asked for or given.
    """

    text: str
    id: int | None = None
    data: bytes | None = None
    logprob: float | None = None
    top: tuple[Alternative, ...] = ()
    channel: Channel = Channel.CONTENT


#: Mostly a tuple; ``Columns`` where a reader found the usual shape.
Tokens = Sequence[Token]


class ToolCall(Struct, frozen=True):
    """One tool call of a reply; ``arguments`` is the text the engine sent, not parsed."""

    name: str
    arguments: str
    id: str | None = None


class TokenStream(Struct, frozen=True):
    """One choice of one reply.

    ``tokens`` is empty for an engine that reports text only. ``count`` is the number of tokens the engine says it
    produced for *this* choice (None when it does not say, or says only a sum over several choices).
    ``rows_missing`` is true when the engine's rows are known not to be one per token (merged rows whose ids could not
    be re-joined, rows swallowed by a parser): such a stream cannot be aligned, and says so instead.
    ``refused``: the engine says that the model declined (a refusal field or part, a content filter's finish reason).
    """

    index: int = 0
    tokens: Tokens = ()
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    count: int | None = None
    prompt_ids: tuple[int, ...] | None = None
    rows_missing: bool = False
    refused: bool = False

    @property
    def has_ids(self) -> bool:
        """True when every token carries the engine's own id."""
        ids: tuple[int, ...] | bool | None = getattr(self.tokens, "ids", False)
        if ids is not False:  # columns know without making a token
            return bool(ids)
        return bool(self.tokens) and all(token.id is not None for token in self.tokens)

    @property
    def has_logprobs(self) -> bool:
        """True when at least one token carries a value."""
        return any(token.logprob is not None for token in self.tokens)


class Score(Struct, frozen=True):
    """One item's score. ``index``: of the item in the request; ``label``: which of several scores of it (SGLang scores label tokens)."""

    index: int
    value: float
    label: int = 0


class Reply(Struct, frozen=True):
    """One arm's whole answer to one request: every choice, in index order.

    ``error`` is a short machine-readable reason when the reply is not a usable answer (``status_500``, ``not_json``,
    ``stream_error``, ``cut``, ...); then ``choices`` holds what could be read before it.
    ``vectors``: embeddings, one for each input in the order of the inputs; ``scores``: of reranking and scoring, as listed.
    """

    choices: tuple[TokenStream, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    error: str | None = None
    vectors: tuple[Sequence[float], ...] = ()
    scores: tuple[Score, ...] = ()
