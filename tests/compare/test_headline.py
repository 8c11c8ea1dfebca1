"""Raw, floor and excess with intervals: what they are made of, how they add up, and that an interval holds the truth as often as it says."""

import json
import random
from array import array
from math import isfinite
from pathlib import Path
from statistics import mean, stdev

import pytest

from proxy.compare.addends import Addends, by_conversation, together
from proxy.compare.bins import bins_of, fixed
from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, FlipClass, Mode, TokenRef
from proxy.compare.distance import correlation
from proxy.compare.hazard import Exposure, intervals
from proxy.compare.headline import headline, headline_of, headline_of_arms
from proxy.compare.llama_block import llama_block
from proxy.compare.quantile import quantile
from proxy.compare.quantities import quantities
from proxy.compare.resampled import Arm

KEYS = ("raw_interval", "floor_interval", "interval")


def scored(rng, size, *, tokens=20, flips=0.05, shifted=False, **more):
    """One forced comparison: Gaussian errors of one size, flips at a rate."""
    p = tuple(-rng.expovariate(1.0) - 1e-4 for _ in range(tokens))
    q = tuple(p[number - 1] if shifted else one + rng.gauss(0.0, size) for number, one in enumerate(p))
    flipped = [number for number in range(tokens) if rng.random() < flips]
    choice = ChoiceComparison(
        index=0,
        primary_tokens=tokens,
        shadow_tokens=tokens,
        compared=tokens,
        exposed=tokens,
        identical=False,
        primary_logprobs=p,
        shadow_logprobs=q,
        ranks=tuple(2 if number in flipped else 1 for number in range(tokens)),
        kl_lower_bounds=tuple(rng.random() * size**2 for _ in range(tokens)),
        tv_lower_bounds=tuple(rng.random() * size for _ in range(tokens)),
        top1_agree=tuple(number not in flipped for number in range(tokens)),
        flips=tuple(Flip(number, TokenRef(), TokenRef(), FlipClass.GENUINE) for number in flipped),
    )
    return Comparison(mode=Mode.FORCED, choices=(choice,), **more)


def answered(rng, rate, *, tokens=30):
    """One free comparison that parts at a rate."""
    at = next((number for number in range(tokens) if rng.random() < rate), None)
    first = None if at is None else Flip(at, TokenRef(), TokenRef(), rng.choice(list(FlipClass)))
    exposed = tokens if at is None else at + 1
    return Comparison(
        mode=Mode.FREE,
        choices=(
            ChoiceComparison(
                index=0, primary_tokens=tokens, shadow_tokens=tokens, compared=exposed, exposed=exposed, identical=at is None, first=first
            ),
        ),
    )  # fmt: skip


def named(n):
    return [f"c{number // 2}" for number in range(n)]


def test_every_number_is_the_one_of_the_values_themselves():
    rng = random.Random(1)
    made = [scored(rng, 0.1, expected_flips=0.5, k3_is_kl=number % 2 == 0) for number in range(40)]
    found = headline(Mode.FORCED, made, named(40))
    assert list(found) == [quantity.name for quantity in quantities(Mode.FORCED)]
    pairs = [pair for one in made for pair in zip(one.choices[0].primary_logprobs, one.choices[0].shadow_logprobs, strict=True)]  # fmt: skip
    errors = sorted(abs(q - p) for p, q in pairs)
    flips = sum(len(one.choices[0].flips) for one in made)
    raw = {name: number["raw"] for name, number in found.items()}
    assert raw["mean_error_nats"] == pytest.approx(sum(errors) / 800, rel=1e-12)
    assert raw["mean_difference_nats"] == pytest.approx(sum(q - p for p, q in pairs) / 800, rel=1e-9)
    assert raw["k1_nats"] == -raw["mean_difference_nats"]
    assert raw["p99_error_nats"] == pytest.approx(quantile(errors, 0.99), rel=1 / 32)
    assert raw["error_above_0.1_nats_share"] == sum(one > 0.1 for one in errors) / 800
    assert raw["genuine_flips_per_1000_positions"] == raw["flips_per_1000_positions"] == 1000 * flips / 800
    assert raw["expected_flips_per_1000_positions"] == 25.0
    assert raw["top1_agreement_share"] == raw["rank_1_share"] == pytest.approx(1 - flips / 800)
    assert raw["p99_rank"] == 2.0
    assert raw["correlation"] == pytest.approx(correlation(pairs), rel=1e-12)
    assert found["k3_nats"]["is_kl"] == 0.5
    assert found["p99_relative_error"]["left_out"] == 800 - found["p99_relative_error"]["n"] > 0
    for number in found.values():
        assert number["conversations"] == 20
        assert number.get("interval") == number.get("raw_interval")
    json.dumps(found)


def test_every_number_is_written_down():
    readme = (Path(__file__).parents[2] / "proxy" / "compare" / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## Headline numbers")[2].partition("## Findings")[0]
    for name in {one.name for mode in Mode for one in quantities(mode)}:
        kind = next((kind.value for kind in FlipClass if name.startswith(kind.value)), "")
        assert f"`{name}`" in table or f"`{kind}_`" in table or f"{kind}_{name.removeprefix(kind + '_')}`" in table, (
            name
        )


def test_free_hazards_are_those_of_the_hazard():
    rng = random.Random(2)
    ours, control = [answered(rng, 0.02) for _ in range(60)], [answered(rng, 0.01) for _ in range(60)]

    def exposures(made):
        return [
            Exposure(key, int(one.choices[0].first is not None), one.choices[0].exposed)
            for key, one in zip(named(60), made, strict=True)
        ]

    for floor in (control, ours, [answered(rng, 0.0) for _ in range(60)]):
        found = headline(Mode.FREE, ours, named(60), floor, named(60))["divergences_per_1000_tokens"]
        known = intervals(exposures(ours), exposures(floor))
        assert [found[key] for key in KEYS] == [pytest.approx(list(one)) for one in known]
    share = headline(Mode.FREE, ours, named(60))["identical_share"]
    assert share["raw"] == sum(one.choices[0].identical for one in ours) / 60
    assert share["raw_interval"][0] < share["raw"] < share["raw_interval"][1]


def test_shards_add_up_to_the_last_bit_and_in_any_order():
    rng = random.Random(3)
    made, control = [scored(rng, 0.1) for _ in range(60)], [scored(rng, 0.05) for _ in range(60)]
    keys = [f"c{number % 17}" for number in range(60)]
    whole = headline(Mode.FORCED, made, keys, control, keys)
    parts = [slice(40, 60), slice(0, 13), slice(13, 40)]
    ours, theirs = (together(by_conversation(one[part], keys[part]) for part in parts) for one in (made, control))
    assert headline_of(Mode.FORCED, ours, theirs) == whole


def test_an_arm_used_again_gives_the_same_numbers():
    rng = random.Random(9)
    made, control = [scored(rng, 0.1) for _ in range(30)], [scored(rng, 0.05) for _ in range(30)]
    ours, theirs = (Arm(by_conversation(one, named(30))) for one in (made, control))
    alone = headline_of_arms(Mode.FORCED, theirs, Arm({}), known=True)
    both = headline_of_arms(Mode.FORCED, ours, theirs, known=True)
    assert alone == headline(Mode.FORCED, control, named(30))
    assert both == headline(Mode.FORCED, made, named(30), control, named(30))


def test_an_arm_like_its_control_has_its_floor_and_no_excess():
    rng = random.Random(4)
    same = [scored(rng, 0.1) for _ in range(40)]
    for number in headline(Mode.FORCED, same, named(40), same, named(40)).values():
        assert (number["floor"], number["excess"]) == (number["raw"], 0.0)
        assert number.get("floor_interval") == number.get("raw_interval")
        if "interval" in number:
            assert number["interval"][0] < 0.0 < number["interval"][1]


def test_no_interval_is_a_point_and_what_was_not_seen_is_bounded():
    rng = random.Random(5)
    quiet = [scored(rng, 0.0, flips=0.0) for _ in range(40)]
    found = headline(Mode.FORCED, quiet, named(40), quiet, named(40))
    assert found["flips_per_1000_positions"]["raw_interval"] == [0.0, pytest.approx(2.9957 * 40 / 800 * 1000, rel=1e-4)]
    assert found["top1_agreement_share"]["raw_interval"] == [pytest.approx(1 - 2.9957 / 20, rel=1e-4), 1.0]
    assert found["error_above_1_nats_share"]["no_interval"] == {"interval": "never_seen"}
    assert "raw_interval" not in found["mean_error_nats"]
    assert found["mean_error_nats"]["no_interval"] == dict.fromkeys(KEYS, "never_seen")
    assert found["median_error_nats"]["no_interval"] == dict.fromkeys(KEYS, "no_spread")
    assert found["correlation"]["raw"] == 1.0
    wild = headline(Mode.FORCED, [scored(rng, 1.0, flips=1.0) for _ in range(40)], named(40), quiet, named(40))
    assert wild["flips_per_1000_positions"]["raw_interval"] == [pytest.approx(1000 - 149.787, rel=1e-4), 1000.0]
    for number in (*found.values(), *wild.values()):
        for key in KEYS:
            assert key not in number or number[key][0] < number[key][1]


def test_few_or_unknown_conversations_give_no_interval():
    rng = random.Random(6)
    made = [scored(rng, 0.1) for _ in range(18)]
    few = headline(Mode.FORCED, made, named(18))["mean_error_nats"]
    assert set(few) == {"raw", "n", "conversations", "no_interval"}
    assert few["no_interval"] == dict.fromkeys(("raw_interval", "interval"), "few_conversations")
    unknown = headline(Mode.FORCED, made, None, made, None)["mean_error_nats"]
    assert set(unknown) == {"raw", "n", "floor", "floor_n", "excess", "no_interval"}
    assert unknown["no_interval"] == {"interval": "conversations_unknown"}


def test_what_was_not_measured_is_absent():
    assert headline(Mode.FREE, [], []) == {}
    incomparable = Comparison(mode=Mode.FORCED, incomparable="shadow_error")
    assert headline(Mode.FORCED, [incomparable], ["c"]) == {}
    rng = random.Random(7)
    values = scored(rng, 0.1, values_incomparable="logprob_mode")
    found = headline(Mode.FORCED, [values], ["c"], [scored(rng, 0.1)], ["c"])
    assert "flips_per_1000_positions" in found
    assert not {"mean_error_nats", "correlation", "k3_nats", "expected_flips_per_1000_positions"} & found.keys()
    assert "floor" not in headline(Mode.FORCED, [values], ["c"])["flips_per_1000_positions"]


def test_a_shift_by_one_collapses_the_correlation_while_the_mean_looks_fine():
    rng = random.Random(8)
    control = [scored(rng, 0.01) for _ in range(60)]
    shifted = [scored(rng, 0.0, shifted=True, flips=0.0) for _ in range(60)]
    found = headline(Mode.FORCED, shifted, named(60), control, named(60))
    low, high = found["mean_difference_nats"]["interval"]
    assert low < 0.0 < high
    assert found["correlation"]["raw"] < 0.3 < 0.99 < found["correlation"]["floor"]
    assert found["correlation"]["interval"][1] < -0.6
    assert found["error_above_1_nats_share"]["interval"][0] > 0.1


def test_an_arm_of_broken_values_gives_finite_numbers():
    p, q = (-1.0, -3e38, -2.0) * 20, (499.0, -1.0, -3e38) * 20
    choice = ChoiceComparison(0, 60, 60, 60, 60, identical=False, primary_logprobs=p, shadow_logprobs=q)
    made = [Comparison(mode=Mode.FORCED, choices=(choice,)) for _ in range(12)]
    found = headline(Mode.FORCED, made, [f"c{n}" for n in range(12)], made[1:], [f"c{n}" for n in range(11)])
    block = llama_block(made)
    numbers = [*found.values(), *block["perplexity"].values(), *block["token_probability"].values()]
    assert "k3_nats" in found
    for value in (value for number in numbers for key, value in number.items() if key != "no_interval"):
        for one in value if isinstance(value, list) else [value]:
            assert isfinite(one)


TRUTH = {"flips_per_1000_positions": 10.0, "mean_difference_nats": 0.02, "median_error_nats": 0.06745}


def once(seed):
    """Two arms of 60 conversations of unlike length whose difficulty they share; what the excess truly is, is known."""
    rng = random.Random(f"coverage{seed}")
    arms: tuple[dict[str, Addends], dict[str, Addends]] = ({}, {})
    for number in range(60):
        tokens, hard, bias = rng.randint(10, 50), rng.choice((0.5, 1.5)), rng.gauss(0.0, 0.05)
        for arm, rate, size, moved in ((arms[0], 0.03, 0.2, 0.02), (arms[1], 0.02, 0.1, 0.0)):
            made = arm[f"{seed}:{number}"] = Addends()
            made.sums.update(positions=tokens, values=tokens)
            made.sums["events"] = sum(rng.random() < rate * hard for _ in range(tokens))
            made.sums["difference"] = fixed(sum(rng.gauss(bias + moved, 0.1) for _ in range(tokens)))
            made.bins["error"] = array("H", bins_of([abs(rng.gauss(0.0, size)) for _ in range(tokens)]))
    return headline_of(Mode.FORCED, *arms)


def test_the_interval_of_the_excess_holds_the_truth_about_as_often_as_it_says(seeds):
    """Bounds that bad luck passes once in a hundred thousand runs; ``tests.bench.headline`` counts more days."""
    found = [once(f"{seed}/{day}") for seed in seeds for day in range(25)]
    days = len(found)
    for name, truth in TRUTH.items():
        edges = [one[name]["interval"] for one in found]
        held = sum(low <= truth <= high for low, high in edges)
        assert held >= 0.93 * days - 4.5 * (0.93 * 0.07 * days) ** 0.5, name
        spread = stdev(one[name]["excess"] for one in found)
        assert 0.5 < mean(high - low for low, high in edges) / (2 * 1.96 * spread) < 2.0, name
