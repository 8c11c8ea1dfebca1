"""A begin token put twice and a template cut short in a real engine: named as what they are, and nothing behind them counted as drift."""

from __future__ import annotations

import pytest

from proxy.compare.comparison import Comparison
from proxy.compare.layers import Known
from proxy.compare.near_tie import Tau
from tests.known_truth.real.arms import QUESTIONS, free, greedy, planted, replies

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(900)]
ASKED = [greedy(question, 2) for question in QUESTIONS[:2]]
LONG = [greedy(" ".join(QUESTIONS), 2)]


def compared(reference: str, spelling: str, tau: Tau, bodies: list[dict[str, object]]) -> list[Comparison]:
    known = Known(chat=True, max_tokens=2)
    return free(replies(reference, bodies), replies(planted(reference, spelling), bodies), tau, known)


@pytest.mark.parametrize(
    ("spelling", "finding", "bodies"),
    [
        ("extra-bos=true", "prompt_double_bos", ASKED),
        ("drop-prompt-tokens=1", "prompt_missing_bos", ASKED),
        ("drop-prompt-tokens=5", "prompt_template", ASKED),
        ("drop-prompt-tokens=300", "context_truncated", LONG),
    ],
)
def test_it_is_named_and_explains_the_rest(
    reference_fp32: str, assumed: Tau, spelling: str, finding: str, bodies: list[dict[str, object]]
) -> None:
    for one in compared(reference_fp32, spelling, assumed, bodies):
        assert one.findings == (finding, "prompt_tokens")
        assert (one.incomparable, one.choices) == ("prompt_tokens", ())


def test_a_healthy_engine_has_none(reference_fp32: str, assumed: Tau) -> None:
    for one in compared(reference_fp32, "ties=lowest", assumed, [*ASKED, *LONG]):
        assert (one.findings, one.incomparable, one.outcome) == ((), None, "identical")
