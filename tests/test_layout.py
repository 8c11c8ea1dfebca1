"""The shape of the repository: sizes, mirrored tests, no drawer for odds and ends, layers that know only what they may."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("proxy", "engines") for path in (ROOT / folder).rglob("*.py"))
ALL = SOURCES + sorted((ROOT / "tests").rglob("*.py"))
#: Baselines that other dialects differ from, and parts that are no dialects, may be longer than a dialect.
DIALECTS = {
    "vllm.py",
    "llama_cpp.py",
    "transformers.py",
    "reference_dialect.py",
    "sglang.py",
    "lmdeploy.py",
    "ollama.py",
    "tgi.py",
    "tensorrt_llm.py",
    "hosted.py",
}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "util", "helper"}


def lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_too_long(path: Path) -> None:
    assert lines(path) <= (200 if path.name in DIALECTS and path.parent.name == "engines" else 400)
    assert path.stem not in FORBIDDEN_NAMES


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_owns(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_ignored_warning_has_its_reason(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for mark in re.findall(r"#\s*(?:noqa: [A-Z0-9, ]+|type: ignore\[[a-z-, ]+\])(.*)$", line):
            assert len(mark.strip(" -#")) > 5, f"{path.name}:{number} gives no reason"


def test_every_folder_has_a_readme() -> None:
    for folder in (
        "proxy",
        "engines",
        "deploy",
        "tests",
        "grafana",
        "proxy/compare",
        "proxy/ledger",
        "proxy/ledger/pages",
        "proxy/traffic",
        "proxy/judge",
        "proxy/replay",
    ):
        assert (ROOT / folder / "README.md").exists(), folder


def test_nothing_names_a_path_of_one_machine() -> None:
    pattern = re.compile(r"/(?:work|root|home|tmp/pv)/[A-Za-z]")
    for path in [*ALL, *ROOT.glob("*.md"), *ROOT.rglob("*/README.md"), ROOT / "Makefile", ROOT / "pyproject.toml"]:
        installed = any(part.startswith(".") for part in path.relative_to(ROOT).parts)  # environments, not sources
        if installed or path == Path(__file__) or "fixtures" in path.parts:
            continue
        assert not pattern.search(path.read_text(encoding="utf-8")), path
