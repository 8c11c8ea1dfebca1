"""What comes from outside never makes more label values than there is room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.ledger import labels


def test_configured_models_keep_their_names_and_all_others_are_one():
    seen: set[str] = set()
    assert [labels.model(("a", "b"), seen, value) for value in ("a", "b", "c", "")] == ["a", "b", "other", "other"]
    assert not seen


def test_without_configuration_the_first_fifty_are_named():
    seen: set[str] = set()
    names = [labels.model((), seen, f"m{number}") for number in range(10_000)]
    assert names[:50] == [f"m{number}" for number in range(50)]
    assert set(names[50:]) == {"other"}
    assert labels.model((), seen, "m7") == "m7"


@given(st.lists(st.text(max_size=60)))
def test_reasons_are_few_and_plain(values):
    seen: set[str] = set()
    bounded = {labels.reason(seen, value) for value in values}
    assert all(value == "" or (value.isascii() and len(value) <= 48 and "\n" not in value) for value in bounded)
    assert len(bounded) <= labels.REASONS_SEEN + 2
