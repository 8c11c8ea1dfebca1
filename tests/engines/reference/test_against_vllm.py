"""The reference engine held against a real vLLM on the same weights."""

from statistics import median

import pytest

from tests.engines.reference.asking import QUESTIONS, decode, score, values

pytestmark = [pytest.mark.torch, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]
TOKENS = 32


def test_fp32_agrees_with_fp32(reference_fp32, vllm_fp32):
    differences = []
    for question in QUESTIONS[:4]:
        own = decode(reference_fp32, question, TOKENS)
        other = decode(vllm_fp32, question, TOKENS)
        assert (other.prompt, other.ids) == (own.prompt, own.ids)
        scored = values(score(vllm_fp32, own.prompt, own.ids), own.ids)
        differences += [abs(a - b) for a, b in zip(own.values, scored, strict=True)]
    assert len(differences) > 100
    # vLLM's own float32 normaliser is most of it: see engines/reference/logprobs.py.
    assert median(differences) < 1e-5
    assert max(differences) < 1e-4


def test_exact_ties_of_bf16_go_to_the_lowest_id(reference_fp32, vllm_bf16):
    ties = 0
    differences = []
    for question in QUESTIONS:
        other = decode(vllm_bf16, question, TOKENS)
        scored = values(score(reference_fp32, other.prompt, other.ids), other.ids)
        differences += [abs(a - b) for a, b in zip(other.values, scored, strict=True)]
        for chosen, value, top in zip(other.ids, other.values, other.tops, strict=True):
            tied = {token for token, logprob in top if logprob == value} | {chosen}
            ties += len(tied) > 1
            assert chosen == min(tied)
    assert ties > 0
    # bf16 against fp32: an error of rounding, not of a wrong model and not of none.
    assert 1e-3 < median(differences) < 5e-2
