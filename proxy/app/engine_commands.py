"""``parhelion engine reference``, ``vllm`` and ``scripted``: engines with logprobs ready, in the foreground."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from proxy.config_file import ConfigError

engine = App(name="engine", help="Start an engine with logprobs ready.")


@engine.command
def reference(
    *,
    model: str,
    dtype: Literal["fp32", "bf16", "fp16"] = "fp32",
    device: Literal["auto", "cpu", "cuda"] = "cpu",
    host: str = "127.0.0.1",
    port: int = 8100,
    served_model_name: str | None = None,
    threads: int | None = None,
    attention: str = "sdpa",
    max_model_len: int | None = None,
    max_logprobs: int = 1000,
    chat_template: str | None = None,
    temperature: float | None = None,
    planted: str = "",
    planted_routes: bool = False,
    full_vocabulary: bool = False,
) -> int:
    """Start the reference engine: Transformers and torch, fp32, logprobs, token ids and one-pass scoring.

    Needs the extra `reference` (torch and Transformers), here or in the environment that `make vllm-env` builds.

    Parameters
    ----------
    model
        A local directory, a .gguf file (dequantised while loading), or a hub name.
    dtype
        Number format of weights and arithmetic.
    device
        Where to compute.
    host
        Address to listen on.
    port
        Port to listen on; 0 takes a free one.
    served_model_name
        The model's name in requests and replies.
    threads
        Processor threads; torch's own choice when left out.
    attention
        Transformers' attention implementation.
    max_model_len
        Most tokens of a prompt and its reply together.
    max_logprobs
        Most alternatives a request may ask for.
    chat_template
        A file that stands for the model's own chat template.
    temperature
        Temperature of requests that say none; the model's own when left out.
    planted
        Faults to put into the answers, to try a comparison or an alert: `logit-noise=0.02,noise-seed=1`, `round-logits=bf16`, `ties=highest`,
        `extra-bos=true`, `drop-prompt-tokens=3`, `from-position=16` and others (engines/reference/README.md). Never for users.
    planted_routes
        Serve every route below `/planted/FAULTS/` as well, with those faults. Never for users.
    full_vocabulary
        Serve `/full_logprobs`: every token's logprob as an array.
    """
    _hand_over(sys.argv[3:])
    try:
        from engines.reference.options import EngineStartError, ReferenceOptions
        from engines.reference.server import serve
    except ImportError as missing:
        raise ConfigError(
            f"{missing.name} is not installed: pip install 'parhelion[reference]' (in a checkout: '.[reference]')"
        ) from None
    try:
        options = ReferenceOptions(
            model=model,
            dtype=dtype,
            device=device,
            host=host,
            port=port,
            served_model_name=served_model_name,
            threads=threads,
            attention=attention,
            max_model_len=max_model_len,
            max_logprobs=max_logprobs,
            chat_template=chat_template,
            temperature=temperature,
            planted=planted,
            planted_routes=planted_routes,
            full_vocabulary=full_vocabulary,
        )
        serve(options)
    except (EngineStartError, ValueError) as error:
        raise ConfigError(str(error)) from None
    return 0


@engine.command
def vllm(
    *extra: Annotated[str, Parameter(allow_leading_hyphen=True)],
    model: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    dtype: str = "auto",
    max_model_len: int | None = None,
    max_logprobs: int = 20,
    served_model_name: str | None = None,
    threads: int | None = None,
    python: str | None = None,
) -> int:
    """Start a real vLLM (GPU, or the CPU build) with logprobs ready; what follows `--` goes to vLLM as it is.

    Parameters
    ----------
    extra
        vLLM's own options, after `--`.
    model
        A local directory or a hub name.
    host
        Address to listen on.
    port
        Port to listen on; refused when anything listens there already.
    dtype
        Number format of weights and arithmetic.
    max_model_len
        Most tokens of a prompt and its reply together.
    max_logprobs
        Most alternatives a request may ask for.
    served_model_name
        The model's name in requests and replies.
    threads
        Processor threads of a CPU build.
    python
        The interpreter that has vLLM; PARHELION_VLLM_PYTHON, `.venv-vllm` or this one when left out.
    """
    from engines.launch import VllmOptions, run_vllm
    from engines.process import EngineError

    options = VllmOptions(
        model=model,
        host=host,
        port=port,
        dtype=dtype,
        max_model_len=max_model_len,
        max_logprobs=max_logprobs,
        served_model_name=served_model_name,
        threads=threads,
        python=python,
        extra=extra,
    )
    try:
        return run_vllm(options, _say)
    except EngineError as error:
        raise ConfigError(str(error)) from None


@engine.command
def scripted(
    *,
    dialect: str = "vllm",
    script: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8200,
) -> int:
    """Start a toy model that speaks any engine's dialect, with the differences and faults that a script plants.

    For tests, and for trying dashboards and alerts without a real engine. Without a script it is healthy: two of them answer
    the same to the last bit, whatever dialects they speak. engines/scripted/README.md says what a script holds.

    Parameters
    ----------
    dialect
        Whose HTTP interface to speak: vllm, sglang, llama_cpp, openai and the others that the README lists.
    script
        A YAML file that says what the engine says and what is wrong with it.
    host
        Address to listen on.
    port
        Port to listen on; 0 takes a free one.
    """
    from engines.scripted.script_load import ScriptError, load
    from engines.scripted.server import serve
    from engines.scripted.writers.registry import NAMES

    if dialect not in NAMES:
        raise ConfigError(f"--dialect: there is no {dialect}: choose one of {', '.join(NAMES)}")
    try:
        serve(load(script), dialect, host, port)
    except ScriptError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        reason = error.strerror or "not an address"
        raise ConfigError(f"cannot listen on {host}:{port}: {reason}; choose another --port or --host") from None
    return 0


def _hand_over(words: list[str]) -> None:
    """Become the interpreter that has torch, where this one has none and another is known; the server takes the same options."""
    from engines.launch import engine_python, has_package
    from engines.process import EngineError

    if importlib.util.find_spec("torch") is not None:
        return
    try:
        python = engine_python()
        if python == sys.executable or not has_package(python, "torch"):
            return
    except EngineError:
        return
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    os.execve(python, [python, "-m", "engines.reference", *words], os.environ | {"PYTHONPATH": path})  # noqa: S606 - our own module


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
