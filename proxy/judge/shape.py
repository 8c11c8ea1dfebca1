"""The body a shadow gets: the client's, with only the declared changes.

House rules. Pure; never mutates what it is given. The declared changes are: the model's name at the shadow, no field that
stores or identifies (``store``, ``user``, ``metadata``, ``safety_identifier``, ``prompt_cache_key``, ``service_tier``), the primary's sampling defaults made explicit where
the client left them out, and what the shadow's dialect adds to be told logprobs and ids. The primary's own request is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping

from engines.dialect import Defaults, Dialect, Endpoint, Json
from proxy.judge.request import Asked

#: Never sent twice: side effects at a provider, or a person's identity.
WITHHELD = frozenset({"store", "user", "metadata", "safety_identifier", "prompt_cache_key", "service_tier"})

#: Engines known to take top_k and min_p; others may refuse a request over an unknown field.
_EXTENDED = frozenset({"vllm", "sglang", "llama_cpp", "reference", "lmdeploy"})


def shadow_body(
    asked: Asked, dialect: Dialect, *, models: Mapping[str, str], defaults: Defaults, top_logprobs: int
) -> Json:
    """What to post to the shadow on the same route. ``defaults`` are the primary's."""
    body = asked.body.copy()
    for key in WITHHELD & body.keys():
        del body[key]
    if "model" in body:
        body["model"] = models.get(asked.model, asked.model)
    _make_explicit(body, asked, defaults, extended=dialect.name in _EXTENDED)
    return dialect.ask(asked.endpoint, body, top_logprobs)


def _make_explicit(body: Json, asked: Asked, defaults: Defaults, *, extended: bool) -> None:
    _fill(body, "temperature", defaults.temperature)
    if (asked.effective_temperature(defaults) or 0.0) > 0:  # greedy decoding looks at no other sampling field
        _fill(body, "top_p", defaults.top_p)
        if extended:
            _fill(body, "top_k", defaults.top_k)
            _fill(body, "min_p", defaults.min_p)
    if asked.endpoint is Endpoint.COMPLETIONS and asked.max_tokens is None:
        _fill(body, "max_tokens", defaults.max_tokens_completions)


def _fill(body: Json, key: str, value: float | None) -> None:
    if value is not None and body.get(key) is None:
        body[key] = value
