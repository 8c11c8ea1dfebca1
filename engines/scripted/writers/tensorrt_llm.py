"""TensorRT-LLM's ``trtllm-serve``: the baseline with a blank before each event's line end, no logprobs on completions.

House rules. Pure. Sources are its protocol and post-processing files as ``engines.tensorrt_llm`` names them: nulls are left out of events and kept in whole
replies; ``/metrics`` is JSON.
"""

from __future__ import annotations

from dataclasses import replace

from engines.scripted.asked import Asked, Habits
from engines.scripted.engine import Writer
from engines.scripted.refused import Refused
from engines.scripted.writers import openai
from engines.scripted.writers.shape import Shape, chat_rows

HABITS = Habits()


def _check(asked: Asked) -> None:
    if not asked.chat and asked.top is not None:
        raise Refused("logprobs is not supported", param="logprobs")


CHAT = Shape(rows=chat_rows, first={"role": "assistant", "content": ""}, lean=True)
COMPLETIONS = replace(CHAT, rows=lambda *_: None, first=None)

WRITER = Writer(
    "tensorrt_llm",
    HABITS,
    {
        **openai.routes(HABITS, CHAT, COMPLETIONS, "tensorrt_llm"),
        "POST /v1/completions": openai.generating(False, HABITS, COMPLETIONS, _check),
        "GET /version": openai.constant({"version": "1.1.0"}),
        "GET /server_info": openai.constant({"disaggregated_params": None}),
        "GET /metrics": openai.constant([{"iter": 1, "iterLatencyMS": 0.0}]),
    },
    lambda refused: {
        "object": "error",
        "message": refused.message,
        "type": "BadRequestError",
        "param": refused.param,
        "code": refused.status,
    },
    {"server": "uvicorn"},
    trailing=b" ",
)
