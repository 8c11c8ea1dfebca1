"""Scores: their differences, the order they give, and who lists what."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.compare.ranking import compare_ranking, ranked
from proxy.compare.token_stream import Reply, Score


def scores(*values, label=0):
    return tuple(Score(index, value, label) for index, value in enumerate(values) if value is not None)


def test_the_same_scores_are_identical_in_whatever_order_they_are_listed():
    comparison = compare_ranking(Reply(scores=scores(0.5, 0.9)), Reply(scores=scores(0.5, 0.9)[::-1]), kind="rerank")
    assert (comparison.outcome, comparison.ranking.kind, comparison.ranking.score_errors) == (
        "identical",
        "rerank",
        (0.0, 0.0),
    )


def test_other_values_in_the_same_order_are_measured():
    comparison = compare_ranking(Reply(scores=scores(0.5, 0.9)), Reply(scores=scores(0.25, 1.0)), kind="score")
    assert (comparison.outcome, comparison.ranking.first_difference) == ("measured", None)
    assert comparison.ranking.score_errors == pytest.approx((0.25, 0.1))


def test_another_order_is_a_divergence_at_its_rank():
    comparison = compare_ranking(
        Reply(scores=scores(0.9, 0.5, 0.4)), Reply(scores=scores(0.9, 0.4, 0.5)), kind="rerank"
    )
    ranking = comparison.ranking
    assert (comparison.outcome, ranking.first_difference, ranking.discordant_pairs, ranking.pairs) == (
        "diverged",
        1,
        1,
        3,
    )


def test_equal_scores_have_no_order():
    assert ranked(scores(0.5, 0.5), scores(0.5, 0.5)[::-1], kind="rerank").first_difference is None


def test_the_best_few_may_be_other_items():
    found = ranked(scores(0.9, 0.8, None), scores(0.9, None, 0.8), kind="rerank")
    assert (found.items, found.only_primary, found.only_shadow, found.first_difference) == (1, 1, 1, 1)
    assert found.order_differs
    longer = ranked(scores(0.9, 0.8), scores(0.9, 0.8, 0.1), kind="rerank")
    assert (longer.first_difference, longer.only_shadow, longer.order_differs) == (None, 1, True)


def test_every_label_has_an_order_of_its_own():
    left = scores(0.9, 0.1) + scores(0.2, 0.8, label=1)
    assert ranked(left, left, kind="score").pairs == 2
    other = ranked(left, scores(0.9, 0.1) + scores(0.8, 0.2, label=1), kind="score")
    assert (other.first_difference, other.discordant_pairs) == (0, 1)


def test_as_many_labels_as_a_client_may_ask_for_are_gone_through_once():
    left = tuple(Score(index, index * (label + 1.0), label) for label in range(20_000) for index in range(2))
    right = tuple(replace(one, value=-one.value) if one.label == 19_999 else one for one in left)
    ranking = ranked(left, right, kind="score")
    assert (ranking.items, ranking.pairs, ranking.discordant_pairs, ranking.first_difference) == (40_000, 20_000, 1, 0)


@pytest.mark.parametrize(
    ("primary", "shadow", "reason"),
    [
        (Reply(error="cut"), Reply(), "primary_error"),
        (Reply(), Reply(error="status_501"), "shadow_error"),
        (Reply(prompt_tokens=1), Reply(prompt_tokens=2), "prompt_tokens"),
        (Reply(scores=scores(1.0)), Reply(scores=scores(1.0) + scores(1.0, label=1)), "score_labels"),
    ],
)
def test_what_cannot_be_compared_says_why(primary, shadow, reason):
    comparison = compare_ranking(primary, shadow, kind="rerank")
    assert (comparison.outcome, comparison.incomparable, comparison.ranking) == ("incomparable", reason, None)


@given(pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_discordant_pairs_are_counted_as_by_hand(pairs):
    left, right = scores(*(float(a) for a, _ in pairs)), scores(*(float(b) for _, b in pairs))
    places = [sorted(range(len(pairs)), key=lambda item, side=side: (-pairs[item][side], item)) for side in (0, 1)]
    expected = sum(
        (places[0].index(a) < places[0].index(b)) != (places[1].index(a) < places[1].index(b))
        for a, b in combinations(range(len(pairs)), 2)
    )
    found = ranked(left, right, kind="score")
    assert (found.discordant_pairs, found.pairs) == (expected, len(pairs) * (len(pairs) - 1) // 2)
    assert (found.first_difference is None) == (places[0] == places[1])
