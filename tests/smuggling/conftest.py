"""What these tests share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def state() -> Iterator[Path]:
    """A state directory with a short path: a unix socket's address has room for 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="phl"))
    yield path
    shutil.rmtree(path)
