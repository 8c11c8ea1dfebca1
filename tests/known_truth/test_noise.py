"""Stacks that differ by nothing, by normal noise of known size, or by noise that grows with the reply."""

from __future__ import annotations

import math

import pytest

from proxy.compare.comparison import Mode
from tests.known_truth import truth
from tests.known_truth.arms import Arm, World, noisy, rounded
from tests.known_truth.watched import said, watch

CONVERSATIONS = 32


@pytest.mark.parametrize(
    ("kind", "conversations", "length"), [("fp32", 20, 64), ("fp32", 4, 400), ("bf16", 20, 64), ("ends", 20, 64)]
)
def test_an_identical_stack_is_silent(kind, conversations, length, seed, tell):
    world = World(seed, ends=37 if kind == "ends" else None)
    arm = rounded(world) if kind == "bf16" else Arm(world)
    seen = watch(arm, arm, arm, conversations=conversations, length=length)
    assert seen.said() == said(seen.control) == {}
    free, forced = seen.mode("free"), seen.mode("forced")
    tokens = sum(len(one.tokens) for one in seen.primary)
    assert (free["requests"], free["identical"], free["exposed_tokens"]) == (conversations, conversations, tokens)
    assert (forced["requests"], forced["flip_positions"], forced["top1_agreement"]) == (conversations, tokens, 1.0)
    for numbers in (free, forced):
        assert numbers["logprob_error_nats"]["max"] == numbers["probability_error"]["max"] == 0.0
        assert numbers["expected_flips"]["sum"] == 0.0
    assert forced["kl_lower_bound_nats"]["max"] == forced["tv_lower_bound"]["max"] == forced["k3"] == forced["k1"] == 0
    assert forced["correlation"] == 1.0
    hazard = free["hazard_per_1000_tokens"]
    assert (hazard["raw"], hazard["floor"], hazard["excess"]) == (0.0, 0.0, 0.0)
    assert hazard["interval"][0] < 0.0 < hazard["interval"][1]
    assert seen.candidate["ties"]["tie_break_mismatches"] == 0
    assert seen.candidate["slices"] == []
    for numbers in (free, forced):
        assert "onset" not in numbers
        assert (numbers["expected_flips"]["observed"], numbers["expected_flips"]["excess"]) == (0, 0.0)
        assert {numbers["headline"][name]["excess"] for name in numbers["headline"]} == {0.0}
    assert set(free["survival"]["candidate"]) == {1.0}
    assert seen.tally == {"neither": conversations}
    assert seen.candidate["verdict"]["log_e_fail"] < 0.0 < seen.candidate["verdict"]["log_e_pass"]
    planted = {"ends": "replies of 38 tokens that end"}.get(kind, f"{kind}, replies of {length} tokens")
    tell("identical stack", f"{planted}, {tokens:,} in all", "nothing; every error 0", "nowhere")


@pytest.mark.parametrize("sigma", [0.001, 0.01, 0.05, 0.2])
def test_normal_noise_is_recovered_and_makes_the_flips_that_it_must(sigma, seed, tell):
    world = World(seed)
    primary = Arm(world, top=20)
    candidate, control = (noisy(world, sigma, f"{name} {sigma}", top=20) for name in ("candidate", "control"))
    seen = watch(primary, candidate, control, conversations=CONVERSATIONS)
    forced = seen.mode("forced")
    assert seen.said().keys() <= {"free", "forced"}
    assert not {"exact_tie", "unknown"} & {*seen.said().get("free", {}), *seen.said().get("forced", {})}

    assert forced["tokens_compared"] == forced["flip_positions"] == CONVERSATIONS * 64
    # The primary's second is in the candidate's list of twenty but where noise of five sizes threw it out.
    shifts = [shift for one in seen.choices(Mode.FORCED) for shift in one.gap_shifts if shift is not None]
    assert len(shifts) > 0.999 * CONVERSATIONS * 64
    recovered = math.sqrt(math.fsum(shift * shift for shift in shifts) / len(shifts) / 2)
    # What a sample of so many says of a standard deviation, and that the noise itself is drawn from a table of 2^17.
    assert recovered == pytest.approx(sigma, rel=truth.LUCK * math.sqrt(1 / (2 * len(shifts)) + 1 / 2**18))

    errors = truth.errors(primary, candidate, seen.primary)
    shown = forced["logprob_error_nats"]
    assert shown["mean"] == pytest.approx(math.fsum(map(abs, errors)) / len(errors), rel=1e-9)
    assert shown["max"] == max(map(abs, errors))
    assert (
        0.3 * sigma < shown["median"] < 0.7 * sigma
    )  # 0.67 of what is left of it when the likely token draws the sum along

    chances = [truth.turned(world.logits(prefix), sigma) for _, prefix, _ in truth.places(seen.primary)]
    expected, variance = math.fsum(chances), math.fsum(one * (1 - one) for one in chances)
    flips = sum(forced["flips"].values())
    assert truth.surely(flips, expected, variance)

    tau = forced["near_tie"]["tau_nats"]
    assert forced["near_tie"]["origin"] == "learned"
    assert tau == pytest.approx(2.576 * math.sqrt(2) * sigma, rel=0.2)
    beyond = math.fsum(
        truth.far_rivals(world.logits(prefix), sigma, comparison.tau)
        for reply, comparison in zip(seen.primary, seen.of(Mode.FORCED), strict=True)
        for _, prefix, _ in truth.places([reply])
    )
    genuine = forced["flips"]["genuine"]
    assert truth.no_more(genuine, beyond)
    hazard = seen.mode("free")["hazard_per_1000_tokens"]
    assert truth.may_be(hazard, 0.0)  # no further from the primary than the control
    beside = forced["expected_flips"]
    assert beside["observed"] == flips
    assert truth.may_be(beside, 0.0)
    assert truth.may_be(forced["headline"]["flips_per_1000_positions"], 0.0)
    assert truth.may_be(forced["headline"]["genuine_flips_per_1000_positions"], 0.0)
    # Evidence of where nothing is reaches 1 / alpha in a share alpha of all runs at most, however small alpha is.
    located = [mode["onset"]["log_e"] for mode in (seen.mode("free"), forced) if "onset" in mode]
    assert all(one < math.log(1e5) for one in (*located, seen.candidate["verdict"]["log_e_fail"]))
    assert seen.candidate["slices"] == []
    tell(
        "Gaussian noise on logits, control alike",
        f"sigma {sigma}",
        f"sigma {recovered:.3g} from gap shifts; {flips} flips where {expected:.1f} must be, {genuine} of them genuine (at most {beyond:.1f} expected); "
        f"excess over the control's {beside['excess']:.1f}, interval {beside['interval'][0]:.1f} to {beside['interval'][1]:.1f}",
        "flips",
    )


@pytest.mark.parametrize(("candidate", "control"), [(0.1, 0.02), (0.3, 0.01), (0.01, 0.1)])
def test_more_noise_than_the_controls_is_excess_of_its_size(candidate, control, seed, tell):
    """Raw, floor and excess of the flips, of the error and of the hazard: near the truth, and on the right side of 0."""
    world = World(seed)
    primary = Arm(world, top=20)
    arms = noisy(world, candidate, "candidate", top=20), noisy(world, control, "control", top=20)
    seen = watch(primary, *arms, conversations=CONVERSATIONS)
    headline = seen.mode("forced")["headline"]
    logits = [world.logits(prefix) for _, prefix, _ in truth.places(seen.primary)]
    raw, floor = (math.fsum(truth.turned(one, size) for one in logits) for size in (candidate, control))
    flips = headline["flips_per_1000_positions"]
    assert (flips["n"], flips["floor_n"]) == (len(logits), len(logits))
    for own, expected in ((flips["raw"], raw), (flips["floor"], floor)):
        assert truth.surely(own * len(logits) / 1000, expected)
    assert flips["excess"] == pytest.approx(flips["raw"] - flips["floor"])
    error = headline["mean_error_nats"]
    means = [math.fsum(map(abs, own)) / len(own) for own in (truth.errors(primary, arm, seen.primary) for arm in arms)]
    assert (error["raw"], error["floor"]) == (pytest.approx(means[0]), pytest.approx(means[1]))
    hazard = seen.mode("free")["hazard_per_1000_tokens"]
    assert truth.may_be(flips, 1000 * (raw - floor) / len(logits))
    assert truth.may_be(error, means[0] - means[1])
    worse = candidate > control
    for shown in (flips, error, hazard):
        low, high = shown["interval"]
        assert low <= shown["excess"] <= high
        assert (shown["excess"] > 0.0) is worse
    for shown in (flips, error):
        assert (shown["interval"][0] > 0.0) is worse
        assert (shown["interval"][1] < 0.0) is not worse
    beside = seen.mode("forced")["expected_flips"]
    assert (beside["excess"] > 0.0) is worse
    verdict = seen.candidate["verdict"]
    assert (verdict["excess"] > 0.0) is worse
    assert (verdict["log_e_worse_than_control"] > 0.0) is worse
    tell(
        "Gaussian noise, candidate against control", f"sigma {candidate:g} against {control:g}",
        f"excess flips {flips['excess']:.0f} per 1,000 (true {1000 * (raw - floor) / len(logits):.0f}), interval {flips['interval'][0]:.0f} to {flips['interval'][1]:.0f}",
        "flips, errors, hazard",
    )  # fmt: skip
