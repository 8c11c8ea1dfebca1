import math
import random

import pytest

from proxy.compare.by_position import bucket, lives_by_position, scored_by_position, start
from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, FlipClass, Mode, TokenRef
from proxy.compare.hazard import Exposure, intervals
from proxy.compare.life import Life


def test_buckets_double_and_begin_at_powers_of_two():
    assert [start(number) for number in range(8)] == [0, 1, 16, 32, 64, 128, 256, 512]
    for number in range(20):
        assert bucket(start(number)) == bucket(start(number + 1) - 1) == number


def drawn(seed: str, hazards: dict[int, float], number: int = 120) -> list[Life]:
    """Several streams a conversation, of any length, with one hazard a bucket."""
    chance = random.Random(seed)
    found = []
    for name in range(number):
        length = chance.randrange(1, 90)
        first = next((at for at in range(length) if chance.random() < hazards.get(bucket(at), 0.0)), None)
        found.append(Life(f"c{name // 2}", length if first is None else first + 1, first is not None))
    return found


def test_each_bucket_is_what_the_hazard_of_its_positions_would_be(seeds):
    for seed in seeds:
        own = drawn(f"{seed} own", {1: 0.01, 2: 0.02, 4: 0.1})
        floor = drawn(f"{seed} floor", {2: 0.01})
        for number, block in enumerate(lives_by_position(own, floor, resampled=True)):
            arms = []
            for lives in (own, floor):
                parts = [(one, min(one.exposed, start(number + 1)) - start(number)) for one in lives]
                arms.append([
                    Exposure(one.conversation, int(one.parted and one.exposed <= start(number + 1)), part) for one, part in parts if part > 0
                ])  # fmt: skip
            ours, theirs = arms
            assert (block["from"], block["to"]) == (start(number), start(number + 1) - 1)
            assert block["streams"] == len(ours)
            assert block["exposed"] == sum(one.exposed for one in ours)
            assert block["events"] == sum(one.events for one in ours)
            assert block["control_exposed"] == sum(one.exposed for one in theirs)
            hazard = block["hazard_per_1000_tokens"]
            assert hazard["excess"] == hazard["raw"] - hazard["floor"]
            expected = intervals(ours, theirs)
            for name, edges in zip(("raw_interval", "floor_interval", "interval"), expected, strict=True):
                assert hazard.get(name) == (None if edges is None else pytest.approx(list(edges)))


def test_without_a_control_there_is_no_floor_and_without_conversations_no_interval():
    (first, *_) = lives_by_position(drawn("x", {0: 0.5}), resampled=True)
    assert "floor" not in first["hazard_per_1000_tokens"]
    assert first["hazard_per_1000_tokens"]["interval"] == first["hazard_per_1000_tokens"]["raw_interval"]
    (first, *_) = lives_by_position(drawn("x", {0: 0.5}), resampled=False)
    assert first["hazard_per_1000_tokens"].keys() == {"raw"}
    assert lives_by_position([], resampled=True) == []


def scored(errors: list[float | None], flips: tuple[int, ...] = (), **fields) -> Comparison:
    flipped = tuple(Flip(at, TokenRef(), TokenRef(), FlipClass.GENUINE) for at in flips)
    near = Flip(0, TokenRef(), TokenRef(), FlipClass.NEAR_TIE)
    choice = ChoiceComparison(
        index=0,
        primary_tokens=len(errors),
        shadow_tokens=None,
        compared=len(errors),
        exposed=len(errors),
        identical=False,
        flips=(near, *flipped),
        primary_logprobs=tuple(-1.0 if one is not None else None for one in errors),
        shadow_logprobs=tuple(-1.0 - one if one is not None else None for one in errors),
        top1_agree=tuple(at not in flips for at in range(len(errors))),
        **fields,
    )
    return Comparison(Mode.FORCED, choices=(choice,))


def test_forced_mode_reaches_every_position():
    own = [scored([0.0] * 16 + [0.5, 0.25, None, 0.0], flips=(17,)) for _ in range(12)]
    floor = [scored([0.0] * 16 + [0.25] * 4) for _ in range(12)]
    names = [f"c{name}" for name in range(12)]
    zero, first, second = scored_by_position((own, names), (floor, names), resampled=True)
    assert [(one["from"], one["to"], one["positions"]) for one in (zero, first, second)] == [
        (0, 0, 12),
        (1, 15, 180),
        (16, 31, 48),
    ]
    assert [one["genuine_flips"] for one in (zero, first, second)] == [0, 0, 12]
    assert second["genuine_flips_per_1000"]["raw"] == pytest.approx(250.0)
    assert second["control_genuine_flips"] == 0
    errors = second["error_nats"]
    assert (errors["raw"], errors["floor"], errors["excess"]) == (0.25, 0.25, 0.0)
    assert (errors["positions"], errors["control_positions"]) == (36, 48)
    assert zero["error_nats"]["raw"] == 0.0
    assert "interval" not in zero["error_nats"]  # alike in every conversation: nothing to draw from


def test_the_mean_error_has_an_interval_that_holds_it(seeds):
    for seed in seeds:
        chance = random.Random(seed)
        own = [scored([chance.expovariate(10) for _ in range(40)]) for _ in range(200)]
        floor = [scored([chance.expovariate(20) for _ in range(40)]) for _ in range(200)]
        names = [f"c{name}" for name in range(200)]
        errors = scored_by_position((own, names), (floor, names), resampled=True)[3]["error_nats"]
        assert errors["raw_interval"][0] < errors["raw"] < errors["raw_interval"][1]
        low, high = errors["interval"]
        assert low < errors["excess"] < high
        assert 0.03 < low < high < 0.07


def test_values_that_are_no_numbers_are_left_out():
    broken = scored([0.5, math.inf, math.nan, 0.5])
    errors = scored_by_position(([broken], ["a"]), resampled=True)[1]["error_nats"]
    assert (errors["raw"], errors["positions"]) == (0.5, 1)


def test_values_of_another_kind_and_positions_of_a_sample_are_kept_apart():
    sampled = scored([0.5, 0.5, 0.5], positions=(3, 20, 300))
    other = Comparison(Mode.FORCED, choices=sampled.choices, values_incomparable="logprob_mode")
    blocks = scored_by_position(
        ([sampled, other, Comparison(Mode.FORCED, incomparable="unaligned")], ["a", "b", "c"]), resampled=True
    )
    assert [one["from"] for one in blocks] == [1, 16, 256]
    assert [one["error_nats"]["positions"] for one in blocks] == [1, 1, 1]
    assert [one["positions"] for one in blocks] == [2, 2, 2]
    assert [one["conversations"] for one in blocks] == [2, 2, 2]
