"""Synthetic arms with a known fault, and what must be reported of each."""

import math
import random

import pytest

from proxy.compare.compare_forced import compare_forced
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import FlipClass, Pick, SeenBy, Source, TauOrigin
from proxy.compare.distance import correlation
from proxy.compare.near_tie import Noise, Tau, learn, logit_step, threshold
from proxy.compare.summary import summarise_forced, summarise_free, summarise_ties
from proxy.compare.token_stream import Token

LENGTH = 64


def free(make, primary, shadow, tau):
    return [
        compare_free(
            make.reply(primary.greedy(prompt, LENGTH)),
            make.reply(shadow.greedy(prompt, LENGTH)),
            source=Source.REPLY,
            tau=tau,
            greedy=True,
        )
        for prompt in make.prompts
    ]


def forced(make, primary, shadow, tau, *, sampled=False):
    found = []
    for number, prompt in enumerate(make.prompts):
        stream = primary.sample(prompt, number, LENGTH) if sampled else primary.greedy(prompt, LENGTH)
        rows = shadow.score(prompt, [token.id for token in stream.tokens])
        found.append(
            compare_forced(
                make.reply(stream), [rows], source=Source.REPLY, tau=tau, greedy=not sampled, unfiltered=sampled
            )
        )
    return found


def test_an_identical_stack_raises_nothing(make, tau):
    engine = make.rounded()
    summary = summarise_free(free(make, engine, engine, tau))
    assert (summary["requests"], summary["identical"]) == (20, 20)
    assert summary["divergences"] == {"exact_tie": 0, "near_tie": 0, "genuine": 0, "unknown": 0}
    assert summary["hazard_per_1000_tokens"] == {"raw": 0.0}
    assert summary["logprob_error_nats"]["max"] == 0.0
    summary = summarise_forced(forced(make, engine, engine, tau))
    assert (summary["top1_agreement"], summary["k3"], summary["kl_lower_bound_nats"]["max"]) == (1.0, 0.0, 0.0)
    assert sum(summary["flips"].values()) == 0


def test_one_wrong_token_is_located_exactly(make, tau):
    def wrong(prefix, logits):
        if len(prefix) != 2 + 17:
            return logits
        best, second, *_ = sorted(range(len(logits)), key=lambda one: -logits[one])
        swapped = {best: logits[second], second: logits[best] + 1.0}
        return [swapped.get(one, value) for one, value in enumerate(logits)]

    faulty = make.engine(wrong)
    for comparison in free(make, make.engine(), faulty, tau):
        assert comparison.choices[0].first is not None
        assert comparison.choices[0].first.index == 17
        assert comparison.choices[0].first.shadow_gap >= 1.0
    for comparison in forced(make, make.engine(), faulty, tau):
        assert [flip.index for flip in comparison.choices[0].flips] == [17]


@pytest.mark.parametrize(("highest", "picked"), [(False, Pick.LOWEST), (True, Pick.HIGHEST)])
def test_bf16_logits_make_exact_ties_and_the_policy_is_named(make, tau, highest, picked):
    arm = make.rounded(highest=highest)
    comparisons = free(make, arm, arm, tau)
    ties = summarise_ties(comparisons, forced(make, arm, make.engine(), tau))
    assert ties["positions"] == 20 * LENGTH
    assert 0.02 * ties["positions"] < ties["exact"]
    assert (
        ties["primary_pick"]["other"] == ties["primary_pick"][{"lowest": "highest", "highest": "lowest"}[picked]] == 0
    )
    assert 0 < ties["primary_pick"][picked] <= ties["exact"]
    assert ties["shadow_pick"] == summarise_ties(comparisons)["primary_pick"]
    assert summarise_ties(free(make, make.engine(), make.engine(), tau))["exact"] == 0


def test_two_tie_rules_on_one_stack_are_tie_break_mismatches_and_nothing_else(make, tau):
    comparisons = free(make, make.rounded(), make.rounded(highest=True), tau)
    summary = summarise_free(comparisons)
    diverged = [one.choices[0].first for one in comparisons if one.choices[0].first is not None]
    assert len(diverged) > 10
    assert summary["divergences"] == {"exact_tie": len(diverged), "near_tie": 0, "genuine": 0, "unknown": 0}
    assert {(flip.tie_seen_by, flip.primary_pick, flip.shadow_pick, flip.lowest) for flip in diverged} == {
        (SeenBy.BOTH, Pick.LOWEST, Pick.HIGHEST, "primary")
    }
    assert summarise_ties(comparisons)["tie_break_mismatches"] == len(diverged)


def test_rounding_shows_as_ties_seen_by_the_rounded_arm_and_as_near_ties(make):
    noise = Noise()
    tau = threshold(noise, dtype="bf16")
    for comparison in forced(make, make.rounded(), make.engine(), tau):
        learn(noise, comparison, control=False)
        for flip in comparison.choices[0].flips:
            assert flip.kind in (FlipClass.EXACT_TIE, FlipClass.NEAR_TIE)
            if flip.kind is FlipClass.EXACT_TIE:
                assert flip.tie_seen_by is SeenBy.PRIMARY
    assert logit_step(noise) == 0.125
    assert threshold(noise) == Tau(0.25, TauOrigin.ASSUMED)


def test_gaussian_noise_is_recovered_and_makes_no_genuine_flips(make, tau):
    size = 0.05
    noise = Noise()
    for comparison in forced(make, make.engine(), make.noisy(size, "control"), tau):
        learn(noise, comparison, control=True)
    learned = threshold(noise)
    assert learned.origin is TauOrigin.LEARNED
    assert learned.value == pytest.approx(2.576 * size * math.sqrt(2), rel=0.2)

    comparisons = forced(make, make.engine(), make.noisy(size, "candidate"), learned)
    shifts = [shift for one in comparisons for shift in one.choices[0].gap_shifts if shift is not None]
    assert math.sqrt(math.fsum(s * s for s in shifts) / len(shifts)) == pytest.approx(size * math.sqrt(2), rel=0.1)
    flips = summarise_forced(comparisons)["flips"]
    gaps = [gap for one in comparisons for gap in one.choices[0].gaps if gap is not None]
    expected = sum(0.5 * math.erfc(gap / (size * 2.0)) for gap in gaps)  # Phi(-g / s), s = size * sqrt 2
    assert summarise_forced(comparisons)["expected_flips"]["sum"] == pytest.approx(expected, rel=0.2)
    assert sum(flips.values()) == pytest.approx(expected, abs=4 * math.sqrt(expected))
    assert flips["genuine"] <= 1


def test_a_larger_noise_than_the_controls_shows_as_excess(make, tau):
    control = free(make, make.engine(), make.noisy(0.01, "control"), tau)
    candidate = free(make, make.engine(), make.noisy(0.3, "candidate"), tau)
    keys = [str(prompt) for prompt in make.prompts]
    summary = summarise_free(candidate, conversations=keys, control=control, control_conversations=keys)
    hazard = summary["hazard_per_1000_tokens"]
    assert hazard["excess"] == hazard["raw"] - hazard["floor"]
    assert 0 < hazard["interval"][0] < hazard["excess"] < hazard["interval"][1]


def test_logprobs_shifted_by_one_collapse_the_correlation_while_the_tokens_agree(make, tau):
    clean, shifted = [], []
    for number, prompt in enumerate(make.prompts):
        stream = make.engine().sample(prompt, number, LENGTH)
        rows = make.engine().score(prompt, [token.id for token in stream.tokens])
        values = [token.logprob for _, token in rows]
        moved = [(index, Token(text=token.text, id=token.id, logprob=values[index - 1])) for index, token in rows]
        for target, scored in ((clean, rows), (shifted, moved)):
            target.append(compare_forced(make.reply(stream), [scored], source=Source.REPLY, tau=tau, greedy=False))
    good, bad = summarise_forced(clean), summarise_forced(shifted)
    assert good["correlation"] == pytest.approx(1.0)
    both = [one.choices[0] for one in shifted]
    pairs = [pair for one in both for pair in zip(one.primary_logprobs, one.shadow_logprobs, strict=True)]
    assert abs(correlation(pairs)) < 0.2
    assert abs(math.fsum(q - p for p, q in pairs) / len(pairs)) < 0.05
    assert not {"logprob_error_nats", "k3", "kl_lower_bound_nats", "correlation"} & bad.keys()
    assert (bad["flip_positions"], sum(bad["flips"].values())) == (0, 0)
    assert all("logprob_alignment" in one.findings for one in shifted)
    assert not any(one.findings for one in clean)


def test_k3_of_draws_estimates_the_kl_and_the_bound_stays_below_it(make, tau):
    size = 0.4
    candidate = make.noisy(size)
    comparisons = forced(make, make.engine(), candidate, tau, sampled=True)
    summary = summarise_forced(comparisons)
    truth = []
    for number, prompt in enumerate(make.prompts):
        ids = [token.id for token in make.engine().sample(prompt, number, LENGTH).tokens]
        for index in range(LENGTH):
            prefix = (*prompt, *ids[:index])
            p, q = make.engine().logprobs(prefix), candidate.logprobs(prefix)
            truth.append(math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True)))
    mean = math.fsum(truth) / len(truth)
    assert summary["k3_is_kl"] == 1.0
    assert summary["k3"] == pytest.approx(mean, rel=0.15)
    assert summary["k1"] == pytest.approx(mean, abs=0.05)
    assert 0.3 * mean < summary["kl_lower_bound_nats"]["mean"] <= mean


def test_a_fault_from_a_position_on_is_located_there(make, tau):
    def late(prefix, logits):
        rng = random.Random(repr(prefix))
        return [x + rng.gauss(0.0, 1.0) for x in logits] if len(prefix) >= 2 + 32 else logits

    comparisons = forced(make, make.engine(), make.engine(late), tau)
    worst = [0.0] * LENGTH
    for comparison in comparisons:
        choice = comparison.choices[0]
        for index, (p, q) in enumerate(zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True)):
            worst[index] = max(worst[index], abs(q - p))
    assert next(index for index, value in enumerate(worst) if value) == 32
    first = [one.choices[0].first for one in free(make, make.engine(), make.engine(late), tau)]
    assert min(flip.index for flip in first if flip is not None) >= 32


def test_values_after_temperature_are_no_drift_when_the_modes_are_known_to_differ(make, tau):
    cold = make.engine(lambda _prefix, logits: [x / 0.7 for x in logits])
    stream = make.engine().greedy((1, 2), LENGTH)
    rows = cold.score((1, 2), [token.id for token in stream.tokens])
    comparison = compare_forced(
        make.reply(stream), [rows], source=Source.REPLY, tau=tau, greedy=True, values_incomparable="logprob_mode"
    )
    summary = summarise_forced([comparison])
    assert summary["top1_agreement"] == 1.0
    assert "logprob_error_nats" not in summary
    assert "k3" not in summary
    found_out = compare_forced(make.reply(stream), [rows], source=Source.REPLY, tau=tau, greedy=True)
    assert found_out.findings == ("logprob_mode",)
    assert "logprob_error_nats" not in summarise_forced([found_out])
