"""The body a shadow gets: the client's, with only the declared changes.

House rules. Pure; never mutates what it is given. The declared changes are: the model's name at the shadow, no field that
stores or identifies (``store``, ``user``, ``metadata``, ``safety_identifier``, ``prompt_cache_key``, ``service_tier``), the primary's sampling defaults made explicit where
the client left them out, fields under the shadow's own names, what the shadow's dialect adds to be told logprobs and ids, and ``store: false`` on
``/v1/responses``, where leaving it out means true. The primary's own request is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping

from engines.dialect import Defaults, Dialect, Endpoint, Json
from engines.endpoints import speaking
from proxy.judge.request import Asked

#: Never sent twice: side effects at a provider, or a person's identity.
WITHHELD = frozenset({
    "store", "user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier", "previous_response_id", "conversation",
})  # fmt: skip

#: Sampling values that change nothing.
NEUTRAL: Mapping[str, float] = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_p": 1.0,
    "min_p": 0.0,
}
_PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
_EVERYWHERE = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens_chat": "max_tokens",
    "max_tokens_completions": "max_tokens",
}
_OPENAI = _EVERYWHERE | {"presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty"}
_MORE = {"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repetition_penalty"}
#: Under which name an engine takes a sampling field, where it is not OpenAI's set; a field that is not here is not sent to it. LMDeploy takes the OpenAI penalties and
#: applies none, TGI and ``transformers serve`` make another penalty of them.
_SPELLED: Mapping[str, Mapping[str, str]] = {
    "vllm": _OPENAI | _MORE,
    "sglang": _OPENAI | _MORE,
    "reference": _OPENAI | _MORE,
    "lmdeploy": _EVERYWHERE | _MORE,
    "tensorrt_llm": _OPENAI | _MORE,
    "together": _OPENAI | _MORE,
    "fireworks": _OPENAI | _MORE,
    "llama_cpp": _OPENAI | _MORE | {"repetition_penalty": "repeat_penalty"},
    "tgi": _EVERYWHERE,
    "transformers": _EVERYWHERE,
}


def spelled(dialect: str, field: str) -> str | None:
    """Return the name under which an engine takes a sampling field (of ``Defaults``), None when it does not."""
    return _SPELLED.get(dialect, _OPENAI).get(field)


def shadow_body(
    asked: Asked,
    dialect: Dialect,
    *,
    models: Mapping[str, str],
    defaults: Defaults,
    top_logprobs: int,
    own: Defaults | None = None,
) -> Json:
    """What to post to the shadow on the same route. ``defaults`` are the primary's, ``own`` the shadow's."""
    body = asked.body.copy()
    for key in WITHHELD & body.keys():
        del body[key]
    if "model" in body:
        body["model"] = models.get(asked.model, asked.model)
    if asked.endpoint.generates:
        _rename(body, dialect.name)
        _make_explicit(body, asked, defaults, own or Defaults(), dialect.name)
    return speaking.ask(dialect, asked.endpoint, body, top_logprobs)


def _rename(body: Json, dialect: str) -> None:
    """Say the one field that engines call by two names as the shadow does."""
    name = spelled(dialect, "repetition_penalty")
    for other in ("repetition_penalty", "repeat_penalty"):
        if name is not None and other != name and other in body:
            value = body.pop(other)
            body.setdefault(name, value)


def _make_explicit(body: Json, asked: Asked, defaults: Defaults, own: Defaults, dialect: str) -> None:
    names = ["temperature"]
    if (asked.effective_temperature(defaults) or 0.0) > 0:  # greedy decoding looks at no filter
        names += ["top_p", "top_k", "min_p"]
    # Some engines mistreat a penalty that does nothing: it is said only to one that would not do nothing by itself.
    if asked.endpoint.by_token:  # no other route has penalties
        names += [
            name for name in _PENALTIES if getattr(defaults, name) not in (None, getattr(own, name) or NEUTRAL[name])
        ]
    if asked.endpoint.by_token and asked.max_tokens is None:
        names.append("max_tokens_chat" if asked.endpoint is Endpoint.CHAT else "max_tokens_completions")
    for name in names:
        field, value = spelled(dialect, name), getattr(defaults, name)
        if field is not None and value is not None and body.get(field) is None:
            body[field] = value
    if (
        asked.endpoint is Endpoint.CHAT
        and defaults.enable_thinking is not None
        and "top_k" in _SPELLED.get(dialect, ())
    ):
        given = body.get("chat_template_kwargs")
        if given is None or isinstance(given, dict):
            body["chat_template_kwargs"] = {"enable_thinking": defaults.enable_thinking, **(given or {})}
