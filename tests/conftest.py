"""What all tests share: real engines, one of each kind a session, and how tests are divided between processes."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest

# Machines are shared: how long one example took says nothing of the code.
hypothesis.settings.register_profile("shared", deadline=None)
hypothesis.settings.load_profile("shared")

pytest_plugins = ["tests.engine_fixtures", "tests.figures", "tests.seeds", "tests.browser"]

#: Tests with real engines run in one process, so that each engine is started once; every other module goes where there is room.
ENGINES = (
    "tests/e2e/",
    "tests/demo/test_signals.py",
    "tests/engines/reference/test_against_vllm.py",
    "tests/engines/reference/test_server.py",
    "tests/engines/test_launch.py",
    "tests/engines/test_llama_live.py",
    "tests/engines/test_probe_live.py",
    "tests/engines/test_transformers_live.py",
    "tests/engines/test_vllm_live.py",
    "tests/engines/test_weights_gguf.py",
    "tests/fidelity/test_inject_live.py",
    "tests/foreign/",
    "tests/known_truth/real/",
    "tests/probes/test_live.py",
    "tests/rollouts/test_scoring_live.py",
)


def with_engines(nodeid: str) -> bool:
    """Whether a test's module is one of those with real engines."""
    return nodeid.startswith(ENGINES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest, those with engines, first; and see that the list above is complete."""
    for item in items:
        if any(item.get_closest_marker(name) for name in ("llama", "torch", "vllm")) and not with_engines(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} uses a real engine: name its module in tests/conftest.py")
    items.sort(key=lambda item: not with_engines(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Module by module, with all modules that use engines as one."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist publishes no types for it
        def _split_scope(self, nodeid: str) -> str:
            return "engines" if with_engines(nodeid) else nodeid.partition("::")[0]

    return Scheduling(config, log)
