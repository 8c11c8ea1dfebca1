"""What the tests of this folder share: replies of a healthy reference engine, made once."""

from __future__ import annotations

import pytest

from proxy.compare.near_tie import Noise, Tau, threshold
from proxy.compare.token_stream import Reply
from tests.known_truth.real.arms import QUESTIONS, greedy, replies


@pytest.fixture(scope="package")
def healthy(reference_fp32: str) -> list[Reply]:
    """Greedy answers of the healthy engine: ten conversations of up to 32 tokens."""
    return replies(reference_fp32, [greedy(question, 32) for question in QUESTIONS[:10]])


@pytest.fixture(scope="package")
def assumed() -> Tau:
    """The near-tie threshold of fp32 engines of which nothing is known yet."""
    return threshold(Noise())
