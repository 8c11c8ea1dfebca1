"""The routers of vLLM and SGLang (Rust, from PyPI): round robin over one engine. Neither mirrors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tests import programs
from tests.bench.peers.peer import Peer, Setting, free_port, running

VLLM, SGLANG = "vllm-router==0.1.17", "sglang-router==0.3.2"
_SECONDS = 60.0


@contextlib.contextmanager
def vllm(setting: Setting) -> Iterator[Peer]:
    """vllm-router."""
    port, metrics = free_port(), free_port()
    words = [
        programs.environment("vllm-router", VLLM) / "vllm-router",
        *("--host", "127.0.0.1", "--port", port, "--prometheus-port", metrics, "--prometheus-host", "127.0.0.1"),
        *("--worker-urls", f"http://127.0.0.1:{setting.primary}", "--policy", "round_robin", "--log-level", "error"),
        *("--max-concurrent-requests", 4096, "--disable-retries"),
    ]
    with running(list(map(str, words)), port=port, folder=setting.folder, seconds=_SECONDS, environment=_calm()) as pid:
        yield Peer("vllm-router", port, pid, mirrors=False)


@contextlib.contextmanager
def sglang(setting: Setting) -> Iterator[Peer]:
    """sglang-router."""
    port, metrics = free_port(), free_port()
    words = [
        *(programs.environment("sglang-router", SGLANG) / "smg", "launch", "--host", "127.0.0.1", "--port", port),
        *("--prometheus-port", metrics, "--prometheus-host", "127.0.0.1"),
        *("--worker-urls", f"http://127.0.0.1:{setting.primary}", "--policy", "round_robin", "--log-level", "error"),
        *("--max-concurrent-requests", 4096, "--disable-retries"),
    ]
    with running(list(map(str, words)), port=port, folder=setting.folder, seconds=_SECONDS, environment=_calm()) as pid:
        yield Peer("sglang-router", port, pid, mirrors=False)


def _calm() -> dict[str, str]:
    return {**os.environ, "RUST_LOG": "error"}
