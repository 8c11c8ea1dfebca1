"""vLLM's own serving benchmark finds the same engine behind Parhelion as without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine_fixtures import MODEL
from tests.foreign.twice import HERE, Front, counted, counts, results

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.torch, pytest.mark.timeout(600)]

BACKENDS = ("openai", "openai-chat")
REQUESTS = 8


def test_the_same_number_succeeds_with_the_same_tokens(
    vllm: Front, engine_interpreter: str, smollm2_directories: dict[str, Path]
) -> None:
    before = counts(vllm)
    command = [engine_interpreter, "-P", HERE / "vllm_bench.py", MODEL, smollm2_directories["fp32"], ",".join(BACKENDS)]
    direct, through = results(command, vllm)
    for backend in BACKENDS:
        for run in (direct[backend], through[backend]):
            assert (run["completed"], run["failed"]) == (REQUESTS, 0), run["errors"]
        for field in ("total_input_tokens", "total_output_tokens", "output_lens", "generated_texts"):
            assert through[backend][field] == direct[backend][field], (backend, field)
        assert direct[backend]["total_output_tokens"] > REQUESTS
        print(
            f"\nvLLM's benchmark, {backend}: {REQUESTS} of {REQUESTS} succeed, {direct[backend]['total_output_tokens']} tokens out, directly and through"
        )
    counted(vllm, before, len(BACKENDS) * REQUESTS, compared=REQUESTS)
