"""Values of another kind, of another row, and lists that repeat or lack: found where they are, and nowhere else."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from proxy.compare.compare_forced import compare_forced
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Source
from proxy.compare.value_layer import alignment_findings, mode_finding, repeated_lists, shift, short_lists


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
    assert (shift(values[1:], noisy[:-1]), shift(values[:-1], noisy[1:])) == (1, -1)


def compared(make, tau, shadow, length=24, prompt=(1, 2)):
    return compare_free(
        make.reply(make.engine().greedy(prompt, length)),
        make.reply(shadow.greedy(prompt, length)),
        source=Source.REPLY,
        tau=tau,
        greedy=True,
    ).choices[0]


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.3])
def test_a_temperature_is_found_and_measured(make, tau, temperature):
    stream = make.engine().greedy((1, 2), 24)
    rows = make.engine(lambda _prefix, logits: [x / temperature for x in logits]).score(
        (1, 2), [token.id for token in stream.tokens]
    )
    comparison = compare_forced(make.reply(stream), [rows], source=Source.REPLY, tau=tau, greedy=True)
    assert comparison.values_incomparable == "logprob_mode"
    evidence = comparison.evidence["logprob_mode"]
    assert evidence["seen"] == "scaled"
    assert evidence["scale"] == pytest.approx(1 / temperature, rel=1e-3)


@pytest.mark.parametrize("size", [0.0, 0.01, 0.1, 0.5, 2.0])
def test_noise_of_any_size_is_no_temperature(make, tau, size):
    for prompt in make.prompts:
        assert mode_finding(compared(make, tau, make.noisy(size), prompt=prompt)) is None


def test_certain_tokens_throughout_are_renormalised(make, tau):
    stream = make.engine().greedy((1, 2), 24)
    bare = make.stream(*(make.token(one.id, 0.0) for one in stream.tokens), prompt_ids=(1, 2))
    comparison = compare_free(make.reply(stream), make.reply(bare), source=Source.REPLY, tau=tau, greedy=True)
    assert comparison.evidence["logprob_mode"] == {"arm": "shadow", "seen": "renormalised", "positions": 24}
    assert comparison.outcome == "identical"


def test_lists_of_the_row_before_are_found(make):
    tokens = make.engine().greedy((1, 2), 12).tokens
    chunked = [replace(token, top=tokens[index - index % 3].top) for index, token in enumerate(tokens)]
    assert repeated_lists(chunked) == [1, 2, 4, 5, 7, 8, 10, 11]
    assert repeated_lists(tokens) == repeated_lists([]) == []
    inserted = [replace(token, top=(token.top[0], *tokens[0].top[:-1])) for token in tokens[1:]]
    assert repeated_lists([tokens[0], *inserted]) == list(range(1, 12))  # each with its own token put in
    looping = [tokens[0]] * 4
    assert repeated_lists(looping) == []  # the same token again may well have the same list


@pytest.mark.parametrize(("top", "named"), [(60, True), (20, True), (2, False)])
def test_a_list_lacks_a_token_where_it_is_the_same_list_otherwise(make, tau, top, named):
    """One without the second of each row; of two tokens nothing but the first is left, which proves nothing."""
    tokens = make.engine().greedy((1, 2), 24, make.vocabulary).tokens
    whole, lacking = (
        make.reply(make.stream(*rows, prompt_ids=(1, 2)))
        for rows in (
            [replace(token, top=token.top[:top]) for token in tokens],
            [replace(token, top=(token.top[0], *token.top[2 : top + 1])) for token in tokens],
        )
    )
    for arms, guilty in (((whole, lacking), "shadow"), ((lacking, whole), "primary")):
        found = compare_free(*arms, source=Source.REPLY, tau=tau, greedy=True)
        assert [*found.evidence.get("alternatives_incomplete", {})] == (
            [f"{guilty}_left_out", "positions"] if named else []
        )


@pytest.mark.parametrize("top", [2, 4, 20])
def test_another_distribution_is_no_fault_of_the_lists(make, tau, top):
    tokens = make.engine().greedy((1, 2), 24, make.vocabulary).tokens
    turned = [
        replace(
            token,
            top=tuple(
                replace(one, logprob=other.logprob) for one, other in zip(token.top[::-1], token.top, strict=True)
            ),
        )
        for token in tokens
    ]
    scored = [
        replace(token, top=mine.top[:top], logprob=next(one.logprob for one in mine.top if one.id == token.id))
        for token, mine in zip(tokens, turned, strict=True)
    ]
    primary = make.reply(make.stream(*(replace(token, top=token.top[:top]) for token in tokens), prompt_ids=(1, 2)))
    found = compare_forced(primary, [list(enumerate(scored))], source=Source.REPLY, tau=tau, greedy=True)
    assert found.findings == ()
    assert len(found.choices[0].flips) == 24


def test_lists_that_only_one_arm_lacks(make):
    tokens = make.engine().greedy((1, 2), 6).tokens
    bare = [replace(token, top=()) for token in tokens]
    some = [*tokens[:4], *bare[4:]]
    assert short_lists(tokens, some) == ([], [4, 5])
    assert short_lists(some, tokens) == ([4, 5], [])
    assert short_lists(some, some) == short_lists(bare, bare) == ([], [])
    assert short_lists(tokens, bare) == ([], [0, 1, 2, 3, 4, 5])
    assert short_lists(bare, tokens) == ([], [])  # a client that asked for no rivals
