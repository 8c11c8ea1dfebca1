"""Faults that begin at a known token: one wrong token, everything wrong from a place on, noise that grows."""

from __future__ import annotations

import math

import pytest

from proxy.compare.comparison import FlipClass, Mode
from tests.known_truth import truth
from tests.known_truth.arms import Arm, Ids, Logits, World, noisy, ranked
from tests.known_truth.watched import said, watch

CONVERSATIONS = 12
GROWING = 16


def swapped(place: int, rank: int, lead: float):
    """At one position the token of this rank gets ``lead`` more than the best; nothing else is touched."""

    def disturb(index: int, _prefix: Ids, logits: Logits) -> Logits:
        if index != place:
            return logits
        chosen = ranked(logits)[rank - 1]
        return [max(logits) + lead if token == chosen else value for token, value in enumerate(logits)]

    return disturb


@pytest.mark.parametrize("rank", [2, 30])
@pytest.mark.parametrize("place", [0, 17, 63])
def test_one_wrong_token_is_found_where_it_is(place, rank, seed, tell):
    """At rank 30 it is not in the primary's list of ten: it is at least as far away as the list's end, and nobody knows how much further."""
    world = World(seed)
    primary, candidate = Arm(world), Arm(world, swapped(place, rank, 1.0))
    seen = watch(primary, candidate, Arm(world), conversations=CONVERSATIONS)
    assert said(seen.control) == {}
    at = [next(prefix for index, prefix, _ in truth.places([reply]) if index == place) for reply in seen.primary]
    for mode in (Mode.FREE, Mode.FORCED):
        expected = dict.fromkeys(FlipClass, 0)
        for prefix, comparison in zip(at, seen.of(mode), strict=True):
            choice = comparison.choices[0]
            found = [choice.first] if mode is Mode.FREE else list(choice.flips)
            values = primary.logprobs(prefix)
            best, wrong = ranked(values)[0], ranked(values)[rank - 1]
            [flip] = found
            assert (flip.index, flip.primary.id, flip.shadow.id) == (place, best, wrong)
            assert flip.shadow_gap == pytest.approx(1.0, abs=2e-6)
            assert flip.gap == (None if rank > primary.top else values[best] - values[wrong])
            least = values[best] - values[ranked(values)[primary.top - 1]]
            assert flip.gap_at_least == (least if rank > primary.top else None)
            near = (least if flip.gap is None else flip.gap) <= comparison.tau + 2e-6
            kind = FlipClass.GENUINE if not near else FlipClass.UNKNOWN if flip.gap is None else FlipClass.NEAR_TIE
            assert flip.kind is kind
            expected[kind] += 1
            alike = [index for index, d in enumerate(_errors(choice)) if d]
            assert alike == [place]
        name = "divergences" if mode is Mode.FREE else "flips"
        assert seen.mode(mode.value)[name] == {kind.value: n for kind, n in expected.items()}
        assert expected[FlipClass.GENUINE] >= CONVERSATIONS - 3
    assert seen.said().keys() == {"free", "forced"}
    assert seen.mode("free")["first_divergence"] == {"median": place}
    assert seen.mode("free")["exposed_tokens"] == CONVERSATIONS * (place + 1)
    hazard = seen.mode("free")["hazard_per_1000_tokens"]
    assert hazard["raw"] == pytest.approx(1000 / (place + 1))
    assert hazard["floor"] == 0.0
    for mode in ("free", "forced"):
        assert seen.mode(mode)["onset"]["position"] == place
        assert seen.mode(mode)["expected_flips"]["observed"] == CONVERSATIONS
        assert seen.mode(mode)["expected_flips"]["excess"] == CONVERSATIONS
    verdict = seen.candidate["verdict"]
    assert seen.tally.get("worse") == expected[FlipClass.GENUINE]
    assert verdict["log_e_fail"] > 5.0 > 0.0 > verdict["log_e_pass"]
    kinds = f"genuine, the gap of each {'at least that of the last listed' if rank > primary.top else 'as planted'}"
    tell(
        "one wrong token", f"rank {rank} at position {place}, free and forced", f"one difference a reply: {kinds}", f"position {place}"
    )  # fmt: skip


def _errors(choice) -> list[float]:
    return [abs(q - p) for p, q in zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True)]


@pytest.mark.parametrize("place", [0, 5, 40])
def test_a_wrong_pick_of_the_sampler_is_none_of_the_model(place, seed, tell):
    """The values are right and another token is taken: free mode parts there, forced mode has nothing to say."""
    world = World(seed)
    seen = watch(Arm(world), Arm(world, wrong=(place, 3)), Arm(world), conversations=CONVERSATIONS)
    assert said(seen.control) == {}
    assert seen.mode("free")["onset"]["position"] == place
    assert "onset" not in seen.mode("forced")
    assert seen.said() == {"free": {"genuine": CONVERSATIONS}}
    assert {one.choices[0].first.index for one in seen.of(Mode.FREE)} == {place}
    assert all(
        one.choices[0].first.shadow_gap < 0 for one in seen.of(Mode.FREE)
    )  # it took what it holds less likely itself
    assert seen.mode("forced")["logprob_error_nats"]["max"] == 0.0
    tell(
        "wrong pick of the sampler", f"third best at position {place}", "genuine in free mode alone; forced mode silent", f"position {place}"
    )  # fmt: skip


@pytest.mark.parametrize("top", [2, 5, 20])
@pytest.mark.parametrize("spread", [1.5, 3.0], ids=["flat", "peaked"])
def test_another_model_is_wrong_everywhere_and_its_lists_are_not_to_blame(spread, top, seed, tell):
    """Its favourites are below the end of the primary's lists, which is what lists that leave tokens out look like."""
    world, other = (World(seed + own, vocabulary=500, spread=spread, lead=2 * spread - 3) for own in (0, 2**31))
    candidate = Arm(world, lambda _index, prefix, _logits: other.logits(prefix), top=top)
    seen = watch(Arm(world, top=top), candidate, Arm(world, top=top), conversations=CONVERSATIONS, length=16)
    assert said(seen.control) == {}
    assert seen.said().keys() == {"free", "forced"}
    assert seen.tally == {"worse": CONVERSATIONS}
    forced = seen.mode("forced")
    positions = 16 * CONVERSATIONS
    assert forced["flip_positions"] == positions
    # The two agree by luck once in as many positions as there are tokens, and a gap is a near tie about as seldom as that.
    assert truth.surely(positions - forced["flips"]["genuine"], 2 * positions / 500)
    tell(
        "another model", f"{'flat' if spread < 2 else 'peaked'}, lists of {top} of 500 tokens",
        f"{forced['flips']['genuine']} genuine flips of {positions} positions; {CONVERSATIONS} conversations worse", "position 0",
    )  # fmt: skip


@pytest.mark.parametrize(("first", "conversations"), [(64, 24), (256, 12), (1000, 12)])
def test_a_fault_from_a_position_on_is_found_there(first, conversations, seed, tell):
    world = World(seed)
    candidate = noisy(world, 0.3, "late", first=first)
    seen = watch(Arm(world), candidate, Arm(world), conversations=conversations, length=first + 32)
    assert said(seen.control) == {}
    assert seen.said().keys() == {"free", "forced"}
    starts = {next(index for index, d in enumerate(_errors(one)) if d) for one in seen.choices(Mode.FORCED)}
    assert starts == {first}
    firsts = [one.first.index for one in seen.choices(Mode.FREE) if one.first is not None]
    flips = [flip.index for one in seen.choices(Mode.FORCED) for flip in one.flips]
    assert firsts
    assert min(firsts) >= first
    assert min(flips) >= first
    free, forced = seen.mode("free"), seen.mode("forced")
    low, high = free["onset"]["between"]
    # Every place from the planted one to the first difference explains what was seen; a power of two among them more likely than its neighbours.
    assert low <= free["onset"]["position"] <= high
    assert low <= min(firsts)
    assert high >= first
    assert free["onset"]["position"] == pytest.approx(min(firsts), abs=3)
    assert (forced["onset"]["position"], forced["onset"]["by"]) == (first, "logprob_error")
    for block in free["by_position"]:
        assert block["events"] == 0 or block["to"] >= first
        assert block["control_events"] == 0
    assert seen.tally.get("better", 0) == seen.tally.get("both", 0) == seen.tally.get("missing", 0) == 0
    assert free["exposed_tokens"] == sum(one.exposed for one in seen.choices(Mode.FREE)) >= conversations * first
    tell(
        "fault from a position on", f"sigma 0.3 from {first} on, {conversations} replies of {first + 32}",
        f"{len(firsts)} replies part, the first at {min(firsts)}; {len(flips)} flips, none before; onset in free mode {free['onset']['position']}, in forced mode {forced['onset']['position']}", f"position {first}",
    )  # fmt: skip


@pytest.mark.parametrize("growth", [0.0005, 0.003])
def test_noise_that_grows_with_the_reply_makes_the_hazard_rise(growth, seed, tell):
    """As a quantised cache does: each token more adds to what the next ones are off by."""
    world = World(seed)
    primary, candidate = Arm(world), noisy(world, 0.0, "cache", growing=growth)
    seen = watch(primary, candidate, Arm(world), conversations=GROWING, length=192)
    assert said(seen.control) == {}
    assert seen.said().keys() == {"free", "forced"}
    halves = [0, 0]
    squares, chances = [0.0, 0.0], [0.0, 0.0]
    for reply, choice in zip(seen.primary, seen.choices(Mode.FORCED), strict=True):
        for index, prefix, _ in truth.places([reply]):
            chances[index >= 96] += truth.turned(world.logits(prefix), growth * index) if index else 0.0
            squares[index >= 96] += (choice.gap_shifts[index] or 0.0) ** 2 / 2 / (GROWING * 96)
        for flip in choice.flips:
            halves[flip.index >= 96] += 1
    assert all(truth.surely(own, expected) for own, expected in zip(halves, chances, strict=True))
    # The mean of (growth * index)^2 over each half.
    true = [math.fsum((growth * i) ** 2 for i in part) / 96 for part in (range(96), range(96, 192))]
    for own, expected in zip(squares, true, strict=True):
        # sum i^4 / (sum i^2)^2 is 1.8 / 96 for the first half and less for the second.
        allowed = truth.LUCK * math.sqrt(1.8 / (2 * GROWING * 96) + 1 / 2**18)
        assert math.sqrt(own) == pytest.approx(math.sqrt(expected), rel=allowed)
    blocks = seen.mode("forced")["by_position"]
    errors = [block["error_nats"]["excess"] for block in blocks]
    assert errors == sorted(errors)
    assert [block["from"] for block in blocks] == [0, 1, 16, 32, 64, 128]
    assert all(block["error_nats"]["floor"] == block["control_genuine_flips"] == 0 for block in blocks)
    assert seen.mode("forced")["onset"]["position"] <= 2  # it begins at once
    rates = [block["genuine_flips_per_1000"]["raw"] for block in blocks if block["from"] in (16, 64, 128)]
    assert rates == sorted(rates)
    tell(
        "noise that grows with the reply", f"sigma {growth:g} more each token, to {192 * growth:.3g}",
        f"flips before and after position 96: {halves[0]} and {halves[1]} (expected {chances[0]:.1f} and {chances[1]:.1f})", "flips",
    )  # fmt: skip
