"""What an engine can do, and what is to be said about it, as found by asking it.

House rules. Frozen values. Everything here was observed on a canary; ``None`` means it could not be tried. All gaps are in nats.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from proxy.compare.comparison import Mode


class Level(StrEnum):
    """How much of an engine can be compared, best first. The list is closed; it decides which modes run."""

    FULL = "full"
    NO_RIVALS = "no_rivals"
    SCORED_FREE = "scored_free"
    NO_IDS = "no_ids"
    TEXT = "text"
    UNUSABLE = "unusable"

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes that run with an engine of this level."""
        match self:
            case Level.FULL | Level.NO_RIVALS:
                return (Mode.FREE, Mode.FORCED)
            case Level.SCORED_FREE | Level.NO_IDS | Level.TEXT:
                return (Mode.FREE,)
            case Level.UNUSABLE:
                return ()

    @property
    def meaning(self) -> str:
        """What is compared at this level, in one line."""
        return _MEANINGS[self]


_MEANINGS = {
    Level.FULL: "token ids, alternatives, and scores of given tokens: every token of a reply is compared",
    Level.NO_RIVALS: "token ids and scores of given tokens, but fewer than two alternatives: values are compared, ties and near ties are not told",
    Level.SCORED_FREE: "token ids and logprobs, but no scores of given tokens: compared up to the first divergence",
    Level.NO_IDS: "logprobs without token ids: tokens are joined by bytes or text, and compared up to the first divergence",
    Level.TEXT: "texts alone: compared up to the first difference, without values and without its cause",
    Level.UNUSABLE: "nothing can be compared",
}


class SelfNoise(Struct, frozen=True):
    """An engine against itself on one greedy question.

    ``positions`` compared (up to the first other token, that one included), ``flips`` among them (0 or 1); ``max`` and ``median`` of the differences of the
    chosen tokens' logprobs in nats, None without values. Of an engine that names no tokens, the text is one position.
    """

    positions: int
    flips: int
    max: float | None = None
    median: float | None = None


class Capabilities(Struct, frozen=True):
    """The result of the behavioural probe.

    ``top_logprobs`` is the most alternatives it gave of those the product asks for. ``rows_per_token``: one row for each token of a
    whole reply; ``stream_same``: a stream gives the same tokens. ``forced``: given tokens can be scored, and the values are those of the same model.
    ``self_noise`` and ``self_noise_median``: decode against forced scoring of the same tokens, the smallest drift that may ever be reported.
    ``cold_warm``: the same question with an empty and with a filled prefix cache; ``batch_mates``: alone, and while others run.
    ``logits_step``: the number format its logits seem to have ("bf16", "fp16", "fp32"), from the gaps between alternatives.
    ``logprob_mode``: raw, processed, logits, renormalised or unknown.
    """

    chat: bool = True
    text_only: bool = False
    token_ids: bool = False
    top_logprobs: int = 0
    rows_per_token: bool = False
    stream_same: bool | None = None
    prompt_ids: bool = False
    forced: bool = False
    logprob_mode: str = "unknown"
    self_noise: float | None = None
    self_noise_median: float | None = None
    cold_warm: SelfNoise | None = None
    batch_mates: SelfNoise | None = None
    logits_step: str | None = None
    context_length: int | None = None

    @property
    def level(self) -> Level:
        """How much of it can be compared."""
        if self.text_only:
            return Level.TEXT
        if not self.token_ids:
            return Level.NO_IDS
        if not self.forced:
            return Level.SCORED_FREE
        return Level.FULL if self.top_logprobs >= 2 else Level.NO_RIVALS


class Finding(Struct, frozen=True):
    """Something a person should know.

    ``finding`` is the bounded name, ``text`` says what was seen, ``remedy`` what to do. ``severe``: the engine cannot be compared as it is.
    """

    finding: str
    text: str
    remedy: str
    severe: bool = False


_REMEDIES = {
    "refused": "nothing listens there: start the engine, or mend the url",
    "dns": "the host name is not known: mend the url",
    "tls": "the TLS handshake failed: check the certificate, or use http://",
    "timeout": "it did not answer in time: wait until it has loaded its model, then look at its log",
    "reset": "it closed the connection: look at its log",
    "cut": "it ended its answer early: look at its log",
    "not_json": "it does not answer with JSON: is this the engine, or a proxy's login page?",
    "not_an_engine": "no route answers as an engine does: give the base URL without /v1, and check the port",
    "no_model": "it serves no model: load one",
    "status_401": "it wants a key: set api_key",
    "status_403": "it refuses the key: check api_key",
    "status_404": "the route or the model is not there: check the url (without /v1) and `models`",
    "status_503": "it is still loading: try again when it is ready",
}


def remedy(reason: str) -> str:
    """Return what to do about a DialectError's reason, in one line."""
    return _REMEDIES.get(reason, f"it answered with {reason}: look at its log")
