"""Values that are another function of the same logits, or another token's: named, and nothing of them counted as drift."""

from __future__ import annotations

import math

import pytest

from proxy.compare.comparison import Mode
from proxy.compare.distance import correlation
from tests.known_truth import truth
from tests.known_truth.arms import Arm, World, noisy
from tests.known_truth.watched import no_numbers, said, watch

CONVERSATIONS = 8


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.5])
def test_values_after_temperature_are_named_with_their_scale(temperature, seed, tell):
    world = World(seed)
    seen = watch(Arm(world), Arm(world, temperature=temperature), Arm(world), conversations=CONVERSATIONS)
    assert said(seen.control) == {}
    assert seen.said() == {"findings": {"logprob_mode": 2 * CONVERSATIONS}}
    for mode in Mode:
        for comparison in seen.of(mode):
            evidence = comparison.evidence["logprob_mode"]
            assert evidence == {"seen": "scaled", "scale": pytest.approx(1 / temperature, abs=1e-4), "positions": 64}
            assert comparison.values_incomparable == "logprob_mode"
        assert no_numbers(seen.mode(mode.value))
    assert seen.mode("free")["identical"] == CONVERSATIONS
    assert seen.mode("forced")["top1_agreement"] == 1.0
    assert seen.tally == {"neither": CONVERSATIONS}  # clients get the same
    assert not {"onset"} & {*seen.mode("free"), *seen.mode("forced")}
    tell(
        "temperature-scaled logprobs", f"{temperature}", f"logprob_mode, scale {evidence['scale']:.4f}; no numbers, no flip", "logprobs"
    )  # fmt: skip


def sure(choice, sigma: float) -> bool:
    """Whether a scale of 1 / 0.7 explains 98 % of how these gaps moved, however the noise on them fell."""
    gaps = [gap for gap in choice.gaps if gap is not None]
    noise, signal = 2 * (sigma / 0.7) ** 2, (1 / 0.7 - 1) ** 2 * math.fsum(gap * gap for gap in gaps)
    if len(gaps) < 8 or sum(0.43 * gap > 0.05 + truth.LUCK * math.sqrt(noise) for gap in gaps) < len(gaps) // 2:
        return False
    left = noise * (len(gaps) + truth.LUCK * math.sqrt(2 * len(gaps)))
    return left <= 0.02 * (signal - 2 * truth.LUCK * math.sqrt(signal * noise))


@pytest.mark.parametrize("sigma", [0.01, 0.05])
def test_a_scale_is_found_under_noise_and_the_flips_that_the_noise_makes_still_count(sigma, seed, tell):
    """Gaps as wide as in real text, where a scale is what moves them most."""
    world = World(seed, lead=2.5)
    seen = watch(Arm(world), noisy(world, sigma, "noise", temperature=0.7), conversations=CONVERSATIONS)
    scales = []
    for mode in Mode:
        for comparison, reply in zip(seen.of(mode), seen.primary, strict=True):
            named = "logprob_mode" in comparison.findings
            assert named or not sure(comparison.choices[0], sigma)
            if named and mode is Mode.FORCED:
                # The slope's own error: that of a gap, scaled, over the root of the sum of squared gaps.
                gaps = math.fsum(truth.gap(world.logits(prefix)) ** 2 for _, prefix, _ in truth.places([reply]))
                allowed = truth.LUCK * sigma * math.sqrt(2) / 0.7 / math.sqrt(gaps) + 1e-4
                scale = comparison.evidence["logprob_mode"]["scale"]
                assert scale == pytest.approx(1 / 0.7, abs=allowed)
                scales.append(scale)
    assert len(scales) == CONVERSATIONS
    assert seen.said()["findings"].keys() == {"logprob_mode"}
    assert no_numbers(seen.mode("forced"))
    chances = [truth.turned(world.logits(prefix), sigma) for _, prefix, _ in truth.places(seen.primary)]
    flips = sum(seen.mode("forced")["flips"].values())
    assert truth.surely(flips, math.fsum(chances))
    tell(
        "temperature-scaled logprobs and noise", f"0.7, sigma {sigma}",
        f"logprob_mode, scales {min(scales):.3f} to {max(scales):.3f}; no numbers; {flips} flips where {math.fsum(chances):.1f} must be", "logprobs",
    )  # fmt: skip


@pytest.mark.parametrize("rows", [1, -1])
@pytest.mark.parametrize("length", [32, 128])
def test_values_one_row_off_are_named_while_their_mean_looks_fine(rows, length, seed, tell):
    world = World(seed, spread=2.0)
    conversations = 4096 // length // 4
    seen = watch(
        Arm(world), Arm(world, shifted=rows), Arm(world), conversations=conversations, length=length, drawn=True
    )
    assert said(seen.control) == {"incomparable": {"sampled": conversations}}
    assert seen.said() == {
        "findings": {"logprob_alignment": conversations}, "incomparable": {"sampled": conversations}
    }  # fmt: skip
    pairs = []
    for comparison in seen.of(Mode.FORCED):
        assert comparison.evidence["logprob_alignment"] == {"rows": rows, "positions": length}
        [choice] = comparison.choices
        pairs += list(zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True))
    forced = seen.mode("forced")
    assert no_numbers(forced)
    assert forced["flip_positions"] == 0
    linear, mean = correlation(pairs), math.fsum(q - p for p, q in pairs) / len(pairs)
    assert abs(linear) < 0.25  # of unrelated values: 4.5 / sqrt(1,024) = 0.14, and the row that each reply doubles
    assert abs(mean) < 0.2  # all but the first and last value of each reply are the same ones
    tell(
        "logprobs shifted by one row", f"{'behind' if rows > 0 else 'ahead'}, replies of {length} drawn tokens",
        f"logprob_alignment, rows {rows}; correlation {linear:.2f} while the mean error is {mean:.3f}; no numbers, no flip", "logprobs",
    )  # fmt: skip


@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "greedy"])
def test_k3_estimates_a_kl_of_draws_alone(drawn, seed, tell):
    """Greedy tokens give a score, and it says so."""
    world = World(seed)
    primary, candidate = Arm(world), noisy(world, 0.3, "candidate")
    seen = watch(primary, candidate, conversations=32, drawn=drawn)
    forced = seen.mode("forced")
    assert forced["k3_is_kl"] == (1.0 if drawn else 0.0)
    rows = [(primary.logprobs(prefix), candidate.logprobs(prefix)) for _, prefix, _ in truth.places(seen.primary)]
    kl = math.fsum(truth.kl(p, q) for p, q in rows) / len(rows)
    bounds = [bound for one in seen.choices(Mode.FORCED) for bound in one.kl_lower_bounds]
    assert all(bound <= truth.kl(p, q) + 1e-6 for bound, (p, q) in zip(bounds, rows, strict=True))
    assert 0.3 * kl < forced["kl_lower_bound_nats"]["mean"] <= kl
    if drawn:
        # Variance of k3 under p at each place, from the whole vocabulary.
        second = math.fsum(
            math.exp(a) * (math.expm1(b - a) - (b - a)) ** 2 for p, q in rows for a, b in zip(p, q, strict=True)
        )
        assert abs(forced["k3"] - kl) <= truth.LUCK * math.sqrt(second) / len(rows)
    tell(
        "k3 and the KL bound, sigma 0.3", "tokens drawn at temperature 1" if drawn else "greedy tokens",
        f"true KL {kl:.4f}; k3 {forced['k3']:.4f}, {'an estimate' if drawn else 'labelled a score'}; lower bound {forced['kl_lower_bound_nats']['mean']:.4f}", "values",
    )  # fmt: skip
