"""``parhelion engine``: what it says where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT = "import sys; sys.modules['numpy'] = sys.modules['torch'] = None; from proxy.cli import main; main()"


def test_the_reference_engine_without_its_libraries_says_what_to_install(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT, "engine", "reference", "--model", "anything"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PARHELION_VLLM_PYTHON": sys.executable}
    ended = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode != 0
    assert "numpy is not installed: pip install 'parhelion[reference]'" in ended.stderr
    assert "Traceback" not in ended.stderr
