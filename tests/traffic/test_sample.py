"""Sampling: the share it takes, and that the same key is decided the same everywhere."""

from __future__ import annotations

from math import sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import Match, Rule, Sampling
from proxy.traffic.sample import (
    Standing,
    body_facts,
    conversation_key,
    decide,
    effective_rate,
    fingerprint,
    position,
    possible_rates,
    settle,
)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
def test_the_share_lies_within_the_binomial_bound(rate: float) -> None:
    """200,000 keys, five standard errors: a fair sampler fails this once in two million runs, and it has no random part."""
    count = 200_000
    taken = sum(position("salt", b"request-%d" % number) < rate for number in range(count))
    assert abs(taken - count * rate) < 5 * sqrt(count * rate * (1 - rate))


def test_positions_are_uniform_in_every_tenth() -> None:
    counts = [0] * 10
    for number in range(100_000):
        counts[int(position("s", b"%d" % number) * 10)] += 1
    assert all(abs(found - 10_000) < 5 * sqrt(9_000) for found in counts)


def test_a_position_is_fixed_for_ever() -> None:
    """The value of every replica and release: BLAKE2b-64 keyed with the salt (computed once, by hand)."""
    assert position("salt", b"key") == 0.8807671812065322
    assert position("other", b"key") != position("salt", b"key")


@given(st.text(max_size=100), st.binary(max_size=100))
def test_a_position_is_in_range_and_repeats(salt: str, key: bytes) -> None:
    assert 0.0 <= position(salt, key) < 1.0
    assert position(salt, key) == position(salt, key)
    assert len(fingerprint(salt, key)) == 24


def sampling(rate: float, *rules: tuple[dict[str, Any], float], by: str = "request") -> Sampling:
    return Sampling(rate=rate, by=by, salt="s", rules=tuple(Rule(Match(**match), value) for match, value in rules))


@pytest.mark.parametrize(
    ("which", "u", "expected"),
    [
        (sampling(0.5), 0.4999, Standing.SAMPLED),
        (sampling(0.5), 0.5, Standing.NOT_SAMPLED),
        (sampling(0.0), 0.0, Standing.NOT_SAMPLED),
        (sampling(1.0), 0.999999, Standing.SAMPLED),
        (sampling(0.1, ({"model": "a"}, 0.9)), 0.05, Standing.SAMPLED),
        (sampling(0.1, ({"model": "a"}, 0.9)), 0.5, Standing.OFFERED),
        (sampling(0.1, ({"model": "a"}, 0.9)), 0.95, Standing.NOT_SAMPLED),
        (sampling(0.1, ({"path": "/v1/*"}, 0.9)), 0.5, Standing.SAMPLED),
        (sampling(0.1, ({"path": "/v2/*"}, 0.9)), 0.5, Standing.NOT_SAMPLED),
        (sampling(0.1, ({"path": "/v2/*", "stream": True}, 0.9)), 0.5, Standing.NOT_SAMPLED),
        (sampling(0.9, ({}, 0.0)), 0.0, Standing.NOT_SAMPLED),
        (sampling(0.5, by="conversation"), None, Standing.OFFERED),
        (sampling(1.0, by="conversation"), None, Standing.SAMPLED),
        (sampling(0.0, by="conversation"), None, Standing.NOT_SAMPLED),
    ],
)
def test_the_head_decides_what_it_can(which: Sampling, u: float | None, expected: Standing) -> None:
    assert decide(which, u, "/v1/chat/completions") is expected


RULES = st.lists(
    st.tuples(
        st.builds(
            Match,
            model=st.sampled_from([None, "a*", "b"]),
            path=st.sampled_from([None, "/v1/*", "/x"]),
            has_tools=st.sampled_from([None, True, False]),
            stream=st.sampled_from([None, True, False]),
        ),
        st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    ),
    max_size=4,
).map(lambda rules: tuple(Rule(match, rate) for match, rate in rules))


@given(
    RULES,
    st.floats(0, 1),
    st.sampled_from(["/v1/chat/completions", "/x"]),
    st.sampled_from(["a1", "b", "c"]),
    st.booleans(),
    st.booleans(),
    st.floats(0, 0.999),
)
def test_the_head_never_contradicts_the_body(
    rules: tuple[Rule, ...], rate: float, path: str, model: str, tools: bool, stream: bool, u: float
) -> None:
    which = Sampling(rate=rate, rules=rules, salt="s")
    effective = effective_rate(which, model=model, path=path, has_tools=tools, stream=stream)
    lowest, highest = possible_rates(which, path)
    assert lowest <= effective <= highest
    standing = decide(which, u, path)
    if standing is not Standing.OFFERED:
        assert (standing is Standing.SAMPLED) == (u < effective)


def test_a_conversation_keeps_its_key_as_it_grows() -> None:
    opening = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
    later = [*opening, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "and?"}]
    assert conversation_key({"messages": opening, "model": "a"}) == conversation_key({"messages": later, "model": "b"})
    assert conversation_key({"messages": opening[1:]}) != conversation_key({"messages": opening})
    assert conversation_key({"prompt": "x"}) != conversation_key({"prompt": "y"})
    assert conversation_key({"input": "x"}) == conversation_key({"input": "x", "stream": True})
    assert conversation_key({"messages": "no list"}) == conversation_key({})


def test_an_offer_is_settled_by_the_body() -> None:
    which = sampling(0.0, ({"model": "a", "has_tools": True, "stream": True}, 1.0))
    body: dict[str, Any] = {"model": "a", "tools": [{}], "stream": True}
    assert body_facts(body) == ("a", True, True)
    assert settle(which, u=0.5, salt="s", path="/", body=body)
    assert not settle(which, u=0.5, salt="s", path="/", body={**body, "tools": []})
    assert not settle(which, u=0.5, salt="s", path="/", body={**body, "model": 7})
    half = sampling(0.5, by="conversation")
    shares = sum(settle(half, u=None, salt="s", path="/", body={"prompt": str(number)}) for number in range(2000))
    assert 850 < shares < 1150
