import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.findings import alignment_findings, canonical, prompt_findings, values_incomparable


@pytest.mark.parametrize(
    ("primary", "shadow", "found"),
    [
        ((1, 2, 3), (1, 2, 3), ()),
        (None, (1, 2), ()),
        ((1, 2, 3), (1, 2, 4), ("prompt_tokens",)),
        ((1, 2, 3), (1, 1, 2, 3), ("prompt_tokens", "prompt_double_bos")),
        ((1, 1, 2, 3), (1, 2, 3), ("prompt_tokens", "prompt_double_bos")),
        ((1, 2, 3, 4, 5), (1, 4, 5), ("prompt_tokens", "context_truncated")),
        ((9, 8), (1, 2, 3, 8), ("prompt_tokens", "context_truncated")),
        ((), (1,), ("prompt_tokens",)),
    ],
)
def test_prompts(primary, shadow, found):
    assert prompt_findings(primary, shadow) == found


def test_counts_speak_only_where_ids_are_silent():
    assert prompt_findings(None, None, 5, 6) == ("prompt_tokens",)
    assert prompt_findings(None, None, 5, None) == ()
    assert prompt_findings((1, 2), (1, 2), 5, 6) == ()


@pytest.mark.parametrize(
    ("primary", "shadow", "unfiltered", "reason"),
    [
        ("raw", "raw", False, None),
        ("raw", "processed", False, "logprob_mode"),
        ("raw", "processed", True, None),
        ("raw", "raw_logits", True, "logprob_mode"),
        ("unknown", "unknown", True, "logprob_mode"),
        (None, "raw", False, "logprob_mode"),
    ],
)
def test_values_need_one_known_mode(primary, shadow, unfiltered, reason):
    assert values_incomparable(primary, shadow, unfiltered=unfiltered) == reason


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(json)
def test_canonical_arguments_do_not_depend_on_spelling(value):
    import json as standard

    assert canonical(standard.dumps(value)) == canonical(standard.dumps(value, indent=3, ensure_ascii=False))


@given(st.text())
def test_canonical_takes_any_text(text):
    assert isinstance(canonical(text), bytes)


def test_values_of_the_neighbouring_token_are_found_and_nothing_else_is():
    rng = random.Random(4)
    values = [-rng.expovariate(1.0) for _ in range(64)]
    noisy = [value + rng.gauss(0.0, 0.02) for value in values]
    assert alignment_findings(values, noisy) == ()
    assert alignment_findings(values[1:], noisy[:-1]) == ("logprob_alignment",)
    assert alignment_findings(values[:-1], noisy[1:]) == ("logprob_alignment",)
    assert alignment_findings(values, [-rng.expovariate(1.0) for _ in values]) == ()
    assert alignment_findings(values[1:12], noisy[:11]) == ()
    assert alignment_findings((None,) * 64, noisy) == ()
