"""What is known of an engine that cannot be asked."""

from __future__ import annotations

from engines.registry import dialect
from engines.unasked import unasked


def test_what_its_kind_documents_and_nothing_else() -> None:
    known = unasked(dialect("vllm"), {})
    assert (known.capabilities.logprob_mode, known.defaults.temperature) == ("raw", None)
    assert known.footprint.value("engine") == "vllm"
    assert known.footprint.value("dtype") == ""
    assert unasked(dialect("openai"), {}).capabilities.logprob_mode == "unknown"


def test_what_its_owner_declares() -> None:
    known = unasked(dialect("vllm"), {"logprob_mode": "processed", "dtype": "bf16", "temperature": 0.7})
    assert (known.capabilities.logprob_mode, known.defaults.temperature) == ("processed", 0.7)
    assert known.footprint.value("dtype") == "bf16"
    assert known.footprint.id != unasked(dialect("vllm"), {}).footprint.id
