"""Whatever is judged adds up: any split over any number of shards, in any order, says to the last bit what one would have said who had seen everything."""

from __future__ import annotations

from functools import reduce
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.confidence_sequence import Shares, Tails, mean_interval, quantile_interval
from proxy.compare.verdict import Tally, Terms, judge

_CONTROLLED = [Tally(worse=1), Tally(better=1), Tally(both=1), Tally(neither=1), Tally(missing=1)]
_ALONE = [Tally(worse=1, controlled=False), Tally(neither=1, controlled=False), Tally(missing=1, controlled=False)]
_EDGES = (0.01, 0.1, 1.0)


@st.composite
def split(draw: st.DrawFn, one: st.SearchStrategy) -> tuple[list, list[list]]:
    """Results as they came, and the same spread over shards in another order."""
    seen = draw(st.lists(one, min_size=1, max_size=80))
    shards: list[list] = [[] for _ in range(draw(st.integers(1, 6)))]
    for result in draw(st.permutations(seen)):
        draw(st.sampled_from(shards)).append(result)
    return seen, [shard for shard in shards if shard]


@given(st.one_of(split(st.sampled_from(_CONTROLLED)), split(st.sampled_from(_ALONE))), st.integers(1, 200))
def test_verdicts_add_up(results: tuple[list[Tally], list[list[Tally]]], many: int) -> None:
    seen, shards = results
    terms = Terms(alpha=0.05, margin=0.05, allowance=0.1)
    whole = reduce(
        add, [one for one in seen for _ in range(many)]
    )  # many times, so that verdicts of every kind are reached
    parts = reduce(add, (reduce(add, shard) for shard in shards for _ in range(many)))
    assert parts == whole
    assert judge(parts, terms) == judge(whole, terms)


@given(split(st.floats(0, 1)))
def test_intervals_of_means_add_up(results: tuple[list[float], list[list[float]]]) -> None:
    seen, shards = results
    parts = reduce(add, map(Shares.of, shards))
    assert parts == Shares.of(seen)
    assert mean_interval(parts, 0.05) == mean_interval(Shares.of(seen), 0.05)


@given(split(st.lists(st.floats(0, 3), max_size=5)))
def test_intervals_of_quantiles_add_up(results: tuple[list[list[float]], list[list[list[float]]]]) -> None:
    seen, shards = results
    parts = reduce(add, (Tails.of(_EDGES, shard) for shard in shards))
    assert parts == Tails.of(_EDGES, seen)
    assert quantile_interval(parts, 0.5, 0.05) == quantile_interval(Tails.of(_EDGES, seen), 0.5, 0.05)
