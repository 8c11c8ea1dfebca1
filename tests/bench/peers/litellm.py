"""LiteLLM's proxy (PyPI) with its ``silent_model`` mirror: one worker, no database, no retries, no cool-down, errors logged only."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator

from tests import programs
from tests.bench.peers.peer import Peer, Setting, free_port, running

REQUIREMENT = "litellm[proxy]==1.108.7"
_KEY = "sk-bench"
_SECONDS = 120.0


@contextlib.contextmanager
def mirror(setting: Setting) -> Iterator[Peer]:
    """Every request mirrored."""
    port = free_port()
    shadow = {"model": "openai/shadow", "api_base": f"http://127.0.0.1:{setting.shadow}/v1", "api_key": "none"}
    primary = {
        "model": "openai/bench",
        "api_base": f"http://127.0.0.1:{setting.primary}/v1",
        "api_key": "none",
        "silent_model": "shadow",
    }
    file = setting.folder / "litellm.yaml"
    file.write_text(  # JSON is YAML
        json.dumps(
            {
                "model_list": [
                    {"model_name": "bench", "litellm_params": primary},
                    {"model_name": "shadow", "litellm_params": shadow},
                ],
                "litellm_settings": {"num_retries": 0, "telemetry": False, "set_verbose": False},
                "router_settings": {"num_retries": 0, "disable_cooldowns": True},
                "general_settings": {"master_key": _KEY},
            }
        )
    )
    litellm = programs.environment("litellm", REQUIREMENT) / "litellm"
    words = [litellm, "--config", file, "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    environment = {**os.environ, "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with running(words, port=port, folder=setting.folder, seconds=_SECONDS, environment=environment) as pid:
        yield Peer("litellm-mirror", port, pid, mirrors=True, headers=(f"Authorization: Bearer {_KEY}",))
