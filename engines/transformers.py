"""``transformers serve``: text only.

House rules. It answers 422 to any field it does not know and drops ``logprobs`` in silence, so nothing is ever added to a body.
Sources: recorded replies of 5.24; its streams have no ``[DONE]`` and always carry usage on the last event. For logprobs from the same
library run our own reference engine.
"""

from __future__ import annotations

from dataclasses import replace

from engines import openai
from engines.dialect import Defaults, Endpoint, Json


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Return the body as it is."""
    del endpoint, top
    return dict(body)


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
    notes=("no logprobs and no token ids: text is all there is; run `parhelion engine reference` for both",),
)
