"""The comparison does no I/O, reads no clock, draws nothing, and knows nothing above it."""

import ast
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[2] / "proxy" / "compare").glob("*.py"))
FORBIDDEN = {
    "aiohttp", "asyncio", "datetime", "engines", "httptools", "logging", "multiprocessing", "numpy", "os", "pathlib",
    "random", "secrets", "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "uuid", "uvloop",
}  # fmt: skip
CALLS = {"open", "print", "input", "exec", "eval"}


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_file_of_the_comparison_touches_the_world(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for name in imported(tree):
        assert name.split(".")[0] not in FORBIDDEN, f"{path.name} imports {name}"
        if name.split(".")[0] == "proxy":
            assert name == "proxy.compare" or name.startswith("proxy.compare."), f"{path.name} imports {name}"
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & CALLS, f"{path.name} calls {called & CALLS}"


def test_the_walk_finds_what_it_must_refuse():
    tree = ast.parse("import os.path\nfrom time import time\ndef f():\n    import random\n")
    assert {name.split(".")[0] for name in imported(tree)} <= FORBIDDEN
    assert len(SOURCES) > 10
