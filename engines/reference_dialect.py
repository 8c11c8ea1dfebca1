"""Our own reference engine (``engines.reference``): vLLM's dialect with true bytes and no limit of twenty.

House rules. It speaks vLLM's extensions on purpose, so that one reader serves both; only what differs stands here. Each row's ``bytes`` are the
token's own, even for a part of a character and beside a ``token_id:N`` label, so ids and texts come together. It has no prefix
cache, hence nothing to salt.
"""

from __future__ import annotations

from dataclasses import replace

from engines import vllm
from engines.body import document
from engines.choices import reply
from engines.dialect import Answer, Defaults, Endpoint, Json
from proxy.compare.token_stream import Reply


def read(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer as token streams. Never raises."""
    del endpoint
    value, error = document(answer)
    return reply(value, request, error, raw_bytes=True)


DIALECT = replace(
    vllm.DIALECT,
    name="reference",
    max_top_logprobs=None,
    greedy_at=1e-5,
    defaults=Defaults(max_tokens_completions=16),  # the others from the model's generation_config.json
    read=read,
    cache_salt=None,
    notes=("the fp32 yardstick: scores every position in one pass",),
)
