"""What these tests share with those of the live path."""

from __future__ import annotations

from tests.engines.conftest import llama
from tests.traffic.conftest import certificate, state

__all__ = ["certificate", "llama", "state"]
