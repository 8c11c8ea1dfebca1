"""Logits rounded to bfloat16, and the rule by which equal ones are told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from proxy.compare.comparison import Mode, Pick, SeenBy
from proxy.compare.near_tie import Noise, learn, logit_step
from tests.known_truth import truth
from tests.known_truth.arms import Arm, World, rounded
from tests.known_truth.watched import watch

#: Mean and standard deviation of the logits, and the step of bfloat16 where their largest are.
MAGNITUDES = [(10.0, 1.2, 0.0625), (20.0, 1.5, 0.125), (44.0, 2.0, 0.25)]
CONVERSATIONS = 40


def tied(arm: Arm, seen) -> list[tuple[int, int]]:
    """(conversation, position) of every exact tie at the top, from the planted logits themselves."""
    found = []
    for number, reply in enumerate(seen.primary):
        for index, prefix, _ in truth.places([reply]):
            first, second, *_ = sorted(arm.logits(prefix), reverse=True)
            if first == second:
                found.append((number, index))
    return found


def named(rule: str, conversations: Iterable[int]) -> str:
    """The rule, where picks of these conversations (one number each) prove it at 90 %: picks of one conversation count as one where they are many (Kish),
    and n picks without an exception put the share above n / (n + 1.96^2) (Wilson)."""
    sizes = Counter(conversations).values()
    worth = sum(sizes) ** 2 / sum(size * size for size in sizes)
    return rule if worth / (worth + 1.959964**2) > 0.9 else "unknown"


@pytest.mark.parametrize(("mean", "spread", "step"), MAGNITUDES)
def test_rounding_shows_as_its_ties_and_its_step_and_as_nothing_genuine(mean, spread, step, seed, tell):
    world = World(seed, mean=mean, spread=spread)
    primary, candidate = rounded(world), Arm(world)
    seen = watch(primary, candidate, rounded(world), conversations=CONVERSATIONS)
    exact = tied(primary, seen)
    ties = seen.candidate["ties"]
    assert (ties["exact"], ties["positions"]) == (len(exact), CONVERSATIONS * 64)
    assert ties["shadow_exact"] == ties["tie_break_mismatches"] == 0
    assert ties["primary_pick"] == {"lowest": len(exact), "highest": 0, "other": 0}
    assert ties["shadow_pick"] == {"lowest": 0, "highest": 0, "other": 0}
    noise = Noise()
    for one in seen.of(Mode.FORCED):
        learn(noise, one, control=False)
    assert logit_step(noise) == step
    assert seen.mode("forced")["near_tie"]["tau_nats"] == step  # the control is silent, so one step is all there is
    logits = ties["logits"]
    assert (logits["primary"]["says"], logits["primary"]["step_nats"]) == ("bf16", step)
    assert (logits["shadow"]["says"], logits["shadow"]["step_nats"]) == ("fp32", None)
    assert ties["exposure"]["primary"]["share"] == len(exact) / ties["positions"]
    assert ties["policy"]["primary"]["rule"] == named("lowest", (number for number, _ in exact))
    assert ties["policy"]["shadow"] == {"rule": "unknown", "picks": 0}
    assert seen.said().keys() <= {"free", "forced"}
    for comparison in seen.of(Mode.FORCED):
        for flip in comparison.choices[0].flips:
            assert flip.gap is not None
            assert flip.gap <= step
            assert (flip.kind == "exact_tie") == (flip.gap == 0.0)
            assert flip.tie_seen_by == (SeenBy.PRIMARY if flip.gap == 0.0 else None)
    flips = seen.said()["forced"]
    assert not {"genuine", "unknown"} & flips.keys()
    turned = sum(
        max(range(world.vocabulary), key=candidate.logprobs(prefix).__getitem__)
        not in _heads(primary.logprobs(prefix), token)
        for _, prefix, token in truth.places(seen.primary)
    )
    assert sum(flips.values()) == turned
    assert seen.tally == {"neither": CONVERSATIONS}
    tell(
        "bf16 logits against fp32",
        f"logits around {mean:g}, step {step}",
        f"{len(exact)} exact ties of {ties['positions']:,} positions, all of them taken by the lowest id; step {step}; {turned} flips, as many as there are, all of them exact ties that the primary sees",
        "flips",
    )


def _heads(values: list[float], token: int) -> set[int]:
    """What a greedy arm's first is: the token it took, where that is one of the best."""
    assert values[token] == max(values)
    return {token}


@pytest.mark.parametrize("rules", [("lowest", "highest"), ("highest", "lowest"), ("highest", "highest")], ids="-".join)
@pytest.mark.parametrize(("mean", "spread", "step"), MAGNITUDES[1:])
def test_two_tie_rules_are_named_and_their_mismatches_counted(mean, spread, step, rules, seed, tell):
    world = World(seed, mean=mean, spread=spread)
    primary, candidate = (rounded(world, highest=rule == "highest") for rule in rules)
    seen = watch(primary, candidate, rounded(world, highest=rules[0] == "highest"), conversations=120, length=12)
    exact = tied(primary, seen)
    firsts = {}
    for number, index in exact:
        firsts.setdefault(number, index)
    ties, free = seen.candidate["ties"], seen.mode("free")
    assert ties["exact"] == len(exact)
    assert ties["primary_pick"] == {"lowest": 0, "highest": 0, "other": 0} | {rules[0]: len(exact)}
    parted = len(firsts) if rules[0] != rules[1] else 0
    assert ties["tie_break_mismatches"] == parted
    assert seen.said() == ({"free": {"exact_tie": parted}} if parted else {})
    for number, comparison in enumerate(seen.of(Mode.FREE)):
        first = comparison.choices[0].first
        assert (None if first is None else first.index) == (firsts.get(number) if parted else None)
        if first is not None:
            assert (first.primary_pick, first.shadow_pick) == (Pick(rules[0]), Pick(rules[1]))
            assert (first.tie_seen_by, first.tie_break_mismatch, first.gap) == (SeenBy.BOTH, True, 0.0)
            assert first.lowest == ("primary" if rules[0] == "lowest" else "shadow")
    # The candidate's picks are seen up to where it parts: at its first tie, and at all of them where it never does.
    picks = parted or len(exact)
    assert ties["shadow_pick"] == {"lowest": 0, "highest": 0, "other": 0} | {rules[1]: picks}
    numbers = [number for number, _ in exact]
    assert ties["policy"]["primary"]["rule"] == named(rules[0], numbers)
    assert ties["policy"]["shadow"]["rule"] == named(rules[1], firsts if parted else numbers) == rules[1]
    assert seen.tally == {"neither": 120}
    assert "onset" not in seen.mode("forced")
    assert free["tokens_compared"] == free["exposed_tokens"]
    assert seen.mode("forced")["top1_agreement"] == 1.0
    tell(
        "tie rule: primary, candidate",
        f"{rules[0]} id, {rules[1]} id, step {step}",
        f"{named(rules[0], numbers)}, {rules[1]}; {parted} tie-break mismatches of {len(firsts)} conversations with a tie; no flip of another class",
        "the first tie of each conversation" if parted else "nowhere",
    )
