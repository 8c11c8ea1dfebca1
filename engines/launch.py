"""Starts the engines that Parhelion can start itself: a real vLLM, the reference engine, llama.cpp.

Each ``start_*`` returns an ``EngineProcess`` (base URL, log, ``stop()``), ready unless ``wait`` is False. ``run_vllm`` is the command ``parhelion engine vllm``.

House rules: this file knows each engine's command line and environment, ``process.py`` knows processes. Only what makes an engine comparable is set (logprobs,
loopback, no telemetry); what changes its numbers is the caller's to say.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from engines.process import ROOT, EngineError, EngineProcess, Say, free_port, require_free, start

#: GiB of KV cache for a vLLM CPU build when VLLM_CPU_KVCACHE_SPACE is not set; its own default takes most of the machine's memory.
KV_SPACE = 2


class VllmOptions(Struct, frozen=True, kw_only=True):
    """How a vLLM is started. ``model`` is a directory or a hub name; ``python`` the interpreter that has vLLM (None: see ``engine_python``).

    ``threads`` is for CPU builds: that many, not bound to cores (vLLM's default binds every server to the same first cores). ``extra`` goes to vLLM as it is.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    dtype: str = "auto"
    max_model_len: int | None = None
    max_logprobs: int = 20
    served_model_name: str | None = None
    threads: int | None = None
    python: str | None = None
    extra: tuple[str, ...] = ()


def engine_python(asked: str | None = None) -> str:
    """Return the interpreter for vLLM and the reference engine.

    In order: the one asked for, PARHELION_VLLM_PYTHON, ``.venv-vllm`` here or beside this code, and the one that runs now.
    """
    if asked or (asked := os.environ.get("PARHELION_VLLM_PYTHON")):
        return asked
    built = (directory / ".venv-vllm" / "bin" / "python" for directory in (Path.cwd(), ROOT))
    return next((str(path) for path in built if path.is_file()), sys.executable)


def has_package(python: str, package: str) -> bool:
    """Tell whether an interpreter can import a package (looked up, not imported). Raises EngineError when there is no such interpreter."""
    question = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    try:
        return subprocess.run([python, "-c", question], check=False, capture_output=True).returncode == 0  # noqa: S603 - our own words
    except OSError as failed:
        raise EngineError(f"--python {python}: {failed.strerror}") from failed


def vllm_command(options: VllmOptions) -> list[str]:
    """Return vLLM's command line; the server module is used because a CPU wheel installs no working ``vllm`` command."""
    command = [engine_python(options.python), "-m", "vllm.entrypoints.openai.api_server", "--model", options.model]
    command += [
        "--host",
        options.host,
        "--port",
        str(options.port),
        "--dtype",
        options.dtype,
        "--max-logprobs",
        str(options.max_logprobs),
    ]
    if options.served_model_name is not None:
        command += ["--served-model-name", options.served_model_name]
    if options.max_model_len is not None:
        command += ["--max-model-len", str(options.max_model_len)]
    if options.threads is not None:
        command += ["--distributed-executor-backend", "uni"]
    return [*command, *options.extra]


def vllm_environment(options: VllmOptions, outer: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add for vLLM; what ``outer`` already sets stays."""
    wanted = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": str(KV_SPACE)}
    if is_loopback(options.host):
        wanted["VLLM_HOST_IP"] = "127.0.0.1"  # else its internal queue listens on an outer address
    if Path(options.model).is_dir():
        wanted["HF_HUB_OFFLINE"] = "1"
    if options.threads is not None:
        wanted |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(options.threads)}
        # With threads set from outside, a CPU build needs no worker process of its own to bind them: 20 s less to start, 0.7 GB less memory.
        wanted["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    return {name: value for name, value in wanted.items() if name not in outer}


def start_vllm(
    model: str | Path,
    *,
    port: int | None = None,
    dtype: str = "auto",
    served_model_name: str | None = None,
    max_model_len: int | None = None,
    threads: int | None = None,
    python: str | None = None,
    extra: Sequence[str] = (),
    log: Path | None = None,
    wait: bool = True,
    say: Say | None = None,
) -> EngineProcess:
    """Start a vLLM on loopback. ``--enforce-eager`` in ``extra`` halves the start on a CPU, and changes numbers a little."""
    options = VllmOptions(
        model=str(model),
        port=free_port() if port is None else port,
        dtype=dtype,
        served_model_name=served_model_name,
        max_model_len=max_model_len,
        threads=threads,
        python=python,
        extra=tuple(extra),
    )
    return _ready(_start_vllm(options, log), wait=wait, say=say)


def start_reference(
    model: str | Path,
    *,
    port: int | None = None,
    dtype: str = "fp32",
    device: str = "cpu",
    served_model_name: str | None = None,
    threads: int | None = None,
    python: str | None = None,
    extra: Sequence[str] = (),
    log: Path | None = None,
    wait: bool = True,
    say: Say | None = None,
) -> EngineProcess:
    """Start the reference engine on loopback, with an interpreter that has torch and Transformers."""
    python = engine_python(python)
    if not has_package(python, "torch"):
        raise EngineError(
            f"torch is not installed for {python}: pip install 'parhelion[reference]' (in a checkout: '.[reference]'), make vllm-env, or name another interpreter"
        )
    port = free_port() if port is None else port
    require_free("127.0.0.1", port)
    command = [
        python,
        "-m",
        "engines.reference",
        "--model",
        str(model),
        "--port",
        str(port),
        "--dtype",
        dtype,
        "--device",
        device,
    ]
    command += ["--served-model-name", served_model_name] if served_model_name else []
    command += ["--threads", str(threads)] if threads else []
    return _ready(
        start("reference engine", [*command, *extra], url=f"http://127.0.0.1:{port}", log=log), wait=wait, say=say
    )


def start_llama(
    model: Path,
    *,
    port: int | None = None,
    alias: str | None = None,
    context: int = 2048,
    parallel: int = 1,
    threads: int = 1,
    extra: Sequence[str] = (),
    log: Path | None = None,
    wait: bool = True,
    say: Say | None = None,
) -> EngineProcess:
    """Start llama.cpp's server on loopback, with this interpreter (extra ``llama``). One slot and one thread: runs are then bit-equal."""
    if not has_package(sys.executable, "xllamacpp"):
        raise EngineError("xllamacpp is not installed: pip install 'parhelion[llama]' (in a checkout: '.[llama]')")
    port = free_port() if port is None else port
    require_free("127.0.0.1", port)
    command = [
        sys.executable,
        "-m",
        "engines.llama_server",
        "--model",
        str(model),
        "--port",
        str(port),
        "--context",
        str(context),
    ]
    command += ["--parallel", str(parallel), "--threads", str(threads), *(["--alias", alias] if alias else []), *extra]
    return _ready(start("llama.cpp", command, url=f"http://127.0.0.1:{port}", log=log), wait=wait, say=say)


def run_vllm(options: VllmOptions, say: Say) -> int:
    """Run a vLLM in the foreground until it ends or a signal comes; every process of it has ended when this returns its exit status.

    vLLM's own output goes to ours; ``say`` hears of the wait and of readiness. Raises EngineError when it cannot start.
    """
    engine = _start_vllm(options, None)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        engine.wait_ready(3600, say=say)
        say(f"vLLM ready: {engine.url}")
        return engine.wait()
    except KeyboardInterrupt:
        say("stopping vLLM")
        engine.stop()
        return 0
    finally:
        engine.stop()
        signal.signal(signal.SIGTERM, before)


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address is this machine's loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _start_vllm(options: VllmOptions, log: Path | None) -> EngineProcess:
    python = engine_python(options.python)
    if not has_package(python, "vllm"):
        raise EngineError(
            f"vLLM is not installed for {python}: `make vllm-env` builds a CPU environment, `pip install vllm` is the GPU build; "
            "or name the interpreter that has it with --python"
        )
    require_free(options.host, options.port)
    host = "127.0.0.1" if options.host in {"0.0.0.0", "localhost"} else options.host  # noqa: S104 - compared, not bound
    url = f"http://[{host}]:{options.port}" if ":" in host else f"http://{host}:{options.port}"
    return start("vLLM", vllm_command(options), url=url, log=log, environment=vllm_environment(options, os.environ))


def _ready(engine: EngineProcess, *, wait: bool, say: Say | None) -> EngineProcess:
    if not wait:
        return engine
    try:
        return engine.wait_ready(say=say)
    except BaseException:
        engine.stop()
        raise
