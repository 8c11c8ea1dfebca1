"""``transformers serve``: text only.

House rules. It answers 422 to any field it does not know and overlooks ``logprobs``, so nothing is ever added to a body; a shadow's copy is freed of what
says nothing. Sources: recorded replies of 5.24; its ``cli/serving`` package and a live run of 5.19: ``frequency_penalty`` x becomes a repetition penalty of 1 + x, which also
replaces the model's own, so that 0 is not neutral; ``max_completion_tokens``, ``n``, ``presence_penalty`` and ``stream_options`` are overlooked; an empty
``logit_bias`` is a 500; streams have no ``[DONE]`` and always carry usage on the last event. For logprobs from the same library run our own reference engine.
"""

from __future__ import annotations

from dataclasses import replace

from engines import openai
from engines.dialect import Defaults, Endpoint, Json
from engines.neutral import with_max_tokens, without_neutral

#: Fields that it would refuse, or take for something else, though they say nothing.
_NEUTRAL = frozenset(
    {"frequency_penalty", "presence_penalty", "repetition_penalty", "top_k", "min_p", "typical_p", "logit_bias", "n"}
)
#: What other engines are asked about their tokens; there is no answer to it here.
_ABOUT_TOKENS = frozenset(
    {"logprobs", "top_logprobs", "return_token_ids", "return_tokens_as_token_ids", "prompt_logprobs", "cache_salt"}
)


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Return the body without what it cannot answer and what says nothing."""
    del endpoint, top
    kept = {name: value for name, value in body.items() if name not in _ABOUT_TOKENS}
    return with_max_tokens(without_neutral(kept, _NEUTRAL))


def strip(endpoint: Endpoint, client: Json, value: Json) -> Json | None:
    """Return the reply as it is: nothing was added."""
    del endpoint, client
    return value


DIALECT = replace(
    openai.DIALECT,
    name="transformers",
    max_top_logprobs=0,
    defaults=Defaults(),  # all of them from the model's generation_config.json
    ask=ask,
    strip=strip,
    inject=None,
    misread=frozenset({"frequency_penalty", "presence_penalty", "n", "response_format"}),
    notes=("no logprobs and no token ids: text is all there is; run `parhelion engine reference` for both",),
)
