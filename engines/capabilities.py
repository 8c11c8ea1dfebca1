"""What an engine can do, and what is to be said about it, as found by asking it.

House rules. Frozen values. Everything here was observed on a canary; ``None`` means it could not be tried. All gaps are in nats.
"""

from __future__ import annotations

from msgspec import Struct


class Capabilities(Struct, frozen=True):
    """The result of the behavioural probe.

    ``top_logprobs`` is the most alternatives it gave of those the product asks for. ``rows_per_token``: one row for each token of a
    whole reply; ``stream_same``: a stream gives the same tokens. ``forced``: given tokens can be scored, and the values are those of the same model.
    ``self_noise`` and ``self_noise_median``: decode against forced scoring of the same tokens, the smallest drift that may ever be reported.
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
    logits_step: str | None = None
    context_length: int | None = None


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
