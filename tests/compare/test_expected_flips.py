"""Flips against those that noise makes: arms whose noise and whose faults are known, drawn directly and through whole comparisons."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from proxy.compare.compare_forced import compare_forced
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import ChoiceComparison, Comparison, Mode, Source
from proxy.compare.expected_flips import ENOUGH_FLIPS, FOLDS, summarise_expected
from proxy.compare.flip_gaps import gather

LENGTH = 64
Shift = Callable[[random.Random], float]


def normal(size: float) -> Shift:
    return lambda rng: rng.gauss(0.0, size)


def scored(gaps: list[float], shifts: list[float]) -> Comparison:
    """What a forced comparison says of these gaps and shifts: the first stays first while gap + shift is not below 0."""
    n = len(shifts)
    choice = ChoiceComparison(
        index=0,
        primary_tokens=n,
        shadow_tokens=None,
        compared=n,
        exposed=n,
        identical=False,
        gaps=tuple(gaps[:n]),
        gap_shifts=tuple(shifts),
        top1_agree=tuple(gap + shift >= 0 for gap, shift in zip(gaps, shifts, strict=False)),
    )
    return Comparison(mode=Mode.FORCED, choices=(choice,))


def pair(
    seed: int, count: int, control: Shift, candidate: Shift, *, fault: float = 0.0, until_first: bool = False
) -> tuple[dict, dict, int]:
    """Summaries of the control and of the candidate over the same conversations, and how many flips the fault made."""
    rng = random.Random(seed)
    arms: tuple[list[Comparison], list[Comparison]] = ([], [])
    added = 0
    for _ in range(count):
        gaps = [rng.expovariate(0.5) for _ in range(LENGTH)]
        for arm, noise, part in zip(arms, (control, candidate), (0.0, fault), strict=True):
            shifts: list[float] = []
            for gap in gaps:
                shifts.append(noise(rng))
                if rng.random() < part and gap + shifts[-1] >= 0:
                    shifts[-1] = -gap - 1.0
                    added += 1
                if until_first and gap + shifts[-1] < 0:
                    break
            arm.append(scored(gaps, shifts))
    keys = [f"{seed}/{number}" for number in range(count)]
    floor, own = (gather(arm, keys) for arm in arms)
    return summarise_expected(floor, floor), summarise_expected(own, floor), added


@pytest.mark.parametrize("until_first", [False, True], ids=["forced", "free"])
@pytest.mark.parametrize("size", [0.02, 0.05, 0.2])
def test_noise_is_recovered_and_flips_are_those_it_makes(seeds, size, until_first):
    for seed in seeds:
        for block in pair(seed, 60, normal(size), normal(size), until_first=until_first)[:2]:
            shifts = block["noise"]["n"]
            assert block["s_nats"] == pytest.approx(size, rel=4.5 / math.sqrt(2 * shifts))
            for model in {"normal", "shifts", "fitted"} & block.keys():
                found = block[model]
                assert found["excess"] == block["observed"] - found["expected"]
                # Both the count and the control's, from which it is expected, vary like counts.
                assert abs(found["excess"]) < 4.5 * math.sqrt(2 * found["expected"] + 4)
            assert block["model"] == ("fitted" if block["noise"]["flips"] >= ENOUGH_FLIPS else "shifts")


@pytest.mark.parametrize("until_first", [False, True], ids=["forced", "free"])
def test_the_interval_of_the_excess_covers_nothing_where_there_is_nothing(seeds, until_first):
    covered = runs = 0
    for seed in seeds:
        for run in range(8):
            for block in pair(1000 * seed + run, 24, normal(0.05), normal(0.05), until_first=until_first)[:2]:
                low, high = block["interval"]
                covered, runs = covered + (low <= 0.0 <= high), runs + 1
                assert low < high
    # 95 % are meant, and no fewer than 90 % must do so, give or take the chance of so many runs.
    assert covered >= 0.9 * runs - 4.5 * math.sqrt(0.09 * runs)


def test_a_fault_shows_as_an_excess_of_its_size(seeds):
    for seed in seeds:
        _, own, added = pair(seed, 100, normal(0.05), normal(0.05), fault=0.02)
        assert added > 80
        assert abs(own["excess"] - added) < 4.5 * math.sqrt(2 * own["expected"] + 4)
        low, high = own["interval"]
        assert 0 < low < high
        assert high - low < 1.5 * added
        assert own["own_noise"]["s_nats"] == pytest.approx(
            0.05, rel=0.3
        )  # one position in fifty does not change it by much
        assert own["own_noise"]["interval"][0] > 0


def test_an_arm_of_larger_noise_flips_more_than_the_controls(seeds):
    for seed in seeds:
        floor, own, _ = pair(seed, 100, normal(0.03), normal(0.3))
        assert own["interval"][0] > 0
        assert own["s_nats"] == floor["s_nats"] == pytest.approx(0.03, rel=0.05)
        alone = own["own_noise"]
        assert alone["s_nats"] == pytest.approx(0.3, rel=0.1)
        assert abs(alone["excess"]) < 4.5 * math.sqrt(alone["expected"]) + 0.1 * alone["expected"]
        assert "own_noise" not in floor


def heavy(rng: random.Random) -> float:
    return rng.gauss(0.0, 0.01) * (60 if rng.random() < 0.02 else 1)


def rare(rng: random.Random) -> float:
    return rng.gauss(0.0, 0.5) if rng.random() < 0.05 else 0.0


@pytest.mark.parametrize("shape", [heavy, rare])
def test_noise_that_is_not_normal_is_said_to_be_so_and_the_other_models_are_right(seeds, shape):
    for seed in seeds:
        floor, own, _ = pair(seed, 300, shape, shape)
        assert floor["tails"]["says"] == "heavier"
        assert floor["tails"]["interval"][0] > 0.0027
        assert own["normal"]["interval"][1] < 0
        assert own["model"] == "fitted"
        for model in ("shifts", "fitted"):
            assert abs(own[model]["excess"]) < 4.5 * math.sqrt(2 * own[model]["expected"] + 4)


def test_normal_tails(seeds):
    for seed in seeds:
        tails = pair(seed, 100, normal(0.1), normal(0.1))[0]["tails"]
        assert tails["n"] == 100 * LENGTH
        assert tails["beyond_3s"] == pytest.approx(0.0027, abs=4.5 * math.sqrt(0.0027 / tails["n"]))


def on_a_grid(rng: random.Random) -> float:
    """Like two engines in bf16: every other shift is exactly 0, the others are of a step or two."""
    return rng.choice([0.0, 0.0, 0.0, 0.0, 0.125, -0.125, 0.125, -0.25])


@pytest.mark.parametrize("mode", [Mode.FREE, Mode.FORCED])
def test_steps_and_exact_ties(seeds, mode):
    """A shift as large as the gap makes a tie, which an arm that chooses loses every other time and one that scores never; a tie that stays one is no flip."""
    for seed in seeds:
        rng = random.Random(seed)
        arm = []
        for _ in range(200):
            gaps = [rng.choice([0.0, *(rng.randint(0, 20) / 8 for _ in range(3))]) for _ in range(LENGTH)]
            shifts = [on_a_grid(rng) for _ in gaps]
            one = scored(gaps, shifts)
            if mode is Mode.FREE:
                agree = tuple(
                    gap + shift > 0 or (gap + shift == 0 and (gap == 0 or rng.random() < 0.5))
                    for gap, shift in zip(gaps, shifts, strict=True)
                )
                one = Comparison(mode=mode, choices=(replace(one.choices[0], top1_agree=agree),))
            arm.append(one)
        gathered = gather(arm, [f"{seed}/{number}" for number in range(200)])
        block = summarise_expected(gathered, gathered)
        assert block["s_nats"] == pytest.approx(math.sqrt((3 * 0.125**2 + 0.25**2) / 8), rel=0.05)
        for model in ("shifts", "fitted"):
            assert abs(block[model]["excess"]) < 4.5 * math.sqrt(2 * block[model]["expected"])
        assert block["normal"]["interval"][1] < 0


def test_the_curve_falls_and_holds_all_flips():
    floor, own, _ = pair(1, 100, normal(0.2), normal(0.2))
    curve = floor["curve"]
    assert curve == own["curve"]
    assert sum(part["n"] for part in curve) == floor["n"] == 100 * LENGTH
    assert sum(part["flips"] for part in curve) == floor["observed"]
    shares = [part["share"] for part in curve]
    assert shares == sorted(shares, reverse=True)
    assert 0.3 < shares[0] < 0.6
    assert shares[-1] == 0.0
    assert [part["from_nats"] for part in curve] == sorted({part["from_nats"] for part in curve})
    for part in curve:
        assert part["share"] == pytest.approx(part["flips"] / part["n"])


def test_no_noise_expects_nothing_and_one_flip_is_all_excess():
    gaps = [1.0] * LENGTH
    keys = [str(number) for number in range(30)]
    still = gather([scored(gaps, [0.0] * LENGTH) for _ in keys], keys)
    block = summarise_expected(still, still)
    assert (block["observed"], block["expected"], block["s_nats"], block["model"]) == (0, 0.0, 0.0, "shifts")
    assert block["interval"] == pytest.approx([0.0, 1.96**2], abs=0.01)
    moved = gather([scored(gaps, [-2.0, *([0.0] * 63)])] + [scored(gaps, [0.0] * LENGTH) for _ in keys[1:]], keys)
    block = summarise_expected(moved, still)
    assert (block["observed"], block["excess"]) == (1, 1.0)
    assert block["interval"] == pytest.approx([0.177, 5.66], abs=0.01)  # the score interval of one event


def test_what_is_too_little_is_not_judged():
    floor, own, _ = pair(1, 3, normal(0.1), normal(0.1))  # 192 shifts
    assert floor == own == {}
    floor, own, _ = pair(1, 8, normal(0.1), normal(0.1))
    assert "interval" not in own
    assert own["conversations"] == 8
    arm = gather([scored([1.0] * LENGTH, [0.0] * LENGTH)] * 20, [""] * 20)
    assert "interval" not in summarise_expected(arm, arm)
    one = gather([scored([1.0] * LENGTH, [0.0] * LENGTH)] * 20, ["same"] * 20)
    assert summarise_expected(one, one) == {}, "a conversation would be judged by its own noise"
    assert gather([Comparison(mode=Mode.FREE, incomparable="sampled")], ["a"]).positions == 0
    assert FOLDS > 1


def asked(seed: int, count: int) -> list[tuple[int, int]]:
    return [(2000 + seed, number) for number in range(count)]


def forced(make, tau, primary, shadow, prompts) -> list[Comparison]:
    found = []
    for prompt in prompts:
        stream = primary.greedy(prompt, LENGTH)
        rows = shadow.score(prompt, [token.id for token in stream.tokens])
        found.append(compare_forced(make.reply(stream), [rows], source=Source.REPLY, tau=tau, greedy=True))
    return found


def free(make, tau, primary, shadow, prompts) -> list[Comparison]:
    return [
        compare_free(
            make.reply(primary.greedy(prompt, LENGTH)),
            make.reply(shadow.greedy(prompt, LENGTH)),
            source=Source.REPLY,
            tau=tau,
            greedy=True,
        )
        for prompt in prompts
    ]


@pytest.mark.parametrize("mode", [free, forced])
def test_whole_comparisons_of_noisy_arms(make, tau, seeds, mode):
    """Gaussian noise of size s on every logit: gaps shift by s times the root of 2."""
    size = 0.1
    for seed in seeds:
        prompts = asked(seed, 40)
        keys = [str(prompt) for prompt in prompts]
        primary = make.engine()
        floor = gather(mode(make, tau, primary, make.noisy(size, f"control{seed}"), prompts), keys)
        same = mode(make, tau, primary, make.noisy(size, f"candidate{seed}"), prompts)
        control, own = summarise_expected(floor, floor), summarise_expected(gather(same, keys), floor)
        assert control["s_nats"] == pytest.approx(size * math.sqrt(2), rel=4.5 / math.sqrt(control["noise"]["n"]))
        if mode is free:
            assert own["observed"] == sum(one.choices[0].first is not None for one in same)
        else:
            assert own["observed"] == sum(len(one.choices[0].flips) for one in same)
        assert own["n"] == sum(one.choices[0].exposed for one in same)
        for block in (control, own):
            assert abs(block["excess"]) < 4.5 * math.sqrt(2 * block["expected"] + 4)


def test_a_fault_in_whole_comparisons_is_the_excess(make, tau, seeds):
    """On top of the noise the fault puts, at one position of each reply, the third token first, whatever the gap."""
    for seed in seeds:

        def wrong(prefix, logits, seed=seed):
            rng = random.Random(f"candidate{seed}{prefix[-6:]}")
            third = sorted(range(len(logits)), key=lambda one: -logits[one])[2] if len(prefix) == 2 + 17 else None
            return [value + rng.gauss(0.0, 0.05) + 9.0 * (one == third) for one, value in enumerate(logits)]

        prompts = asked(seed, 40)
        keys = [str(prompt) for prompt in prompts]
        floor = gather(forced(make, tau, make.engine(), make.noisy(0.05, f"control{seed}"), prompts), keys)
        found = forced(make, tau, make.engine(), make.engine(wrong), prompts)
        assert all(17 in {flip.index for flip in one.choices[0].flips} for one in found)
        own = summarise_expected(gather(found, keys), floor)
        assert abs(own["excess"] - 40) < 4.5 * math.sqrt(2 * own["expected"] + 4)
        assert own["interval"][0] > 0
