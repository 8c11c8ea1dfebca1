"""The engines of the demo: a primary, a candidate that differs, and a control that is the primary's own stack again.

House rules. Real engines on real weights, started here and ended here. Which engines, and how the proxy is to treat them, is all that
differs between the light demo and the one with vLLM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from engines.launch import engine_python, has_package, start_llama, start_reference, start_vllm
from engines.weights_gguf import huggingface_directories
from proxy.demo import weights
from proxy.demo.weights import Say

MODEL = "smollm2-135m"
CONTEXT = 2048


class Missing(Exception):
    """Something the demo needs is not installed; the text says how to get it."""


class Trio(Struct, frozen=True):
    """Running engines. ``shadows``: the proxy's configuration of them; ``extra``: fields that let a client see token ids."""

    title: str
    primary: str
    shadows: tuple[dict[str, Any], ...]
    extra: dict[str, Any] = {}


def needs(*packages: str, extra: str) -> None:
    """Raise Missing unless every package can be imported."""
    import importlib.util

    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent:
        raise Missing(
            f"{', '.join(absent)} is not installed; run `make demo`, or pip install 'parhelion[{extra}]' (in a checkout: '.[{extra}]')"
        )


@contextmanager
def light(directory: Path, say: Say) -> Iterator[Trio]:
    """llama.cpp three times: Q4_1 answers, F32 is the candidate, Q4_1 again is the control.

    One slot, one thread and no prompt cache carried from one request to the next keep primary and control bit-equal.
    """
    needs("xllamacpp", "gguf", "openai", extra="demo")
    quantised = weights.fetch(weights.models_directory(), say)
    full = weights.f32(quantised, say)
    with ExitStack() as stack:
        say("starting llama.cpp three times: Q4_1 primary, F32 candidate, Q4_1 control")
        primary, candidate, control = (
            stack.enter_context(
                start_llama(
                    model, alias=MODEL, context=CONTEXT, extra=("--no-prompt-cache",), log=directory / f"{name}.log"
                )
            )
            for name, model in (("primary", quantised), ("candidate", full), ("control", quantised))
        )
        yield Trio(
            title="SmolLM2-135M-Instruct on llama.cpp: Q4_1 answers clients; F32 (candidate) and Q4_1 again (control) are asked too",
            primary=primary.url,
            shadows=(
                {"name": "f32", "role": "candidate", "url": candidate.url, "declare": {"quantisation": "F32"}},
                {"name": "control", "role": "control", "url": control.url, "declare": {"quantisation": "Q4_1"}},
            ),
        )


@contextmanager
def with_vllm(directory: Path, say: Say) -> Iterator[Trio]:
    """Real vLLM in bf16 twice, and the fp32 reference engine as a candidate that scores what vLLM said."""
    needs("gguf", "openai", extra="demo")
    python = engine_python()
    if not has_package(python, "vllm"):
        raise Missing(f"{python} has no vLLM; run `make demo-vllm`, which installs it, or set PARHELION_VLLM_PYTHON")
    quantised = weights.fetch(weights.models_directory(), say)
    say("writing the weights as safetensors in fp32 and bf16")
    directories = huggingface_directories(quantised, weights.models_directory(), ("fp32", "bf16"), python=python)
    with ExitStack() as stack:
        say("starting vLLM bf16 twice and the fp32 reference engine (a minute or two on two cores)")
        primary, control = (
            stack.enter_context(
                start_vllm(
                    directories["bf16"],
                    dtype="bfloat16",
                    served_model_name=MODEL,
                    max_model_len=CONTEXT,
                    threads=1,
                    python=python,
                    extra=("--enforce-eager",),
                    log=directory / f"{name}.log",
                    wait=False,
                )
            )
            for name in ("primary", "control")
        )
        reference = stack.enter_context(
            start_reference(
                directories["fp32"],
                served_model_name=MODEL,
                threads=1,
                python=python,
                log=directory / "reference.log",
                wait=False,
            )
        )
        for engine in (primary, control, reference):  # all load at once, each says when it is ready
            engine.wait_ready(say=say)
        yield Trio(
            title="SmolLM2-135M-Instruct: vLLM bf16 answers clients; the fp32 reference (candidate, forced) and vLLM bf16 again (control)",
            primary=primary.url,
            shadows=(
                {"name": "reference-fp32", "role": "candidate", "url": reference.url, "modes": ["forced"]},
                {"name": "control", "role": "control", "url": control.url},
            ),
            extra={"return_token_ids": True},
        )
