import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.findings import canonical, values_incomparable


@pytest.mark.parametrize(
    ("primary", "shadow", "unfiltered", "reason"),
    [
        ("raw", "raw", False, None),
        ("raw", "processed", False, "logprob_mode"),
        ("raw", "processed", True, None),
        ("raw", "raw_logits", True, "logprob_mode"),
        ("unknown", "unknown", True, "logprob_mode"),
        ("renormalised", "renormalised", True, "logprob_mode"),
        ("processed", "processed", False, None),
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
