"""Tie rules, repeats, batch mates and logit formats of arms whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Comparison, Pick, Source
from proxy.compare.tie_exposure import Seen
from proxy.compare.tie_policy import (
    ENOUGH_EVIDENCE,
    batch_mates,
    independent,
    log_evidence,
    mismatches,
    picked,
    policy,
    repeats,
    summarise_policy,
    wilson,
)

LENGTH = 48


def prompts(seed: int, count: int) -> list[tuple[int, int]]:
    return [(1000 + seed, number) for number in range(count)]


def seen(make, tau, engine_of: Callable[[int], object], asked: Sequence[tuple[int, int]], loads=None) -> Seen:
    """Every prompt answered twice by the engine of that number: as primary and as shadow, so that both arms' picks are known."""
    comparisons: list[Comparison] = []
    for number, prompt in enumerate(asked):
        reply = make.reply(engine_of(number).greedy(prompt, LENGTH))
        comparisons.append(compare_free(reply, reply, source=Source.REPLY, tau=tau, greedy=True))
    keys = [str(prompt) for prompt in asked]
    return Seen(comparisons, keys, [f"p{key}" for key in keys], loads or [0] * len(keys))


def drawn(seed: int, number: int) -> Callable[[list[int], tuple[int, ...]], int]:
    return lambda tied, prefix: random.Random(f"{seed}/{number}/{prefix}").choice(tied)


@pytest.mark.parametrize(("highest", "name"), [(False, "lowest"), (True, "highest")])
def test_a_rule_is_named_and_every_tie_is_counted(make, tau, seeds, highest, name):
    for seed in seeds:
        asked = prompts(seed, 60)
        arm = make.rounded(highest=highest)
        own = seen(make, tau, lambda _, arm=arm: arm, asked)
        found = summarise_policy(own, own, own)
        assert found["policy"]["primary"] == found["policy"]["shadow"]
        rule = found["policy"]["primary"]
        assert (rule["rule"], rule[name]["share"], rule["other"]["share"]) == (name, 1.0, 0.0)
        assert 36 < rule["independent"] <= rule["conversations"] <= 60
        tied = 0
        for prompt in asked:
            prefix = prompt
            for one in arm.greedy(prompt, LENGTH).tokens:
                values = arm.logprobs(prefix)
                tied += values.count(max(values)) > 1
                prefix = (*prefix, one.id)
        shown = found["exposure"]["primary"]
        assert (shown["ties"], shown["positions"], shown["conversations"]) == (tied, 60 * LENGTH, 60)
        assert shown["interval"][0] < shown["share"] < shown["interval"][1] < 2 * shown["share"]
        assert found["logits"]["primary"] | {"rows": 0} == {"says": "bf16", "step_nats": 0.125, "rows": 0}
        assert found["batch_mates"]["picks"]["says"] == "too_few"  # all ran alone


def test_a_rule_without_order_is_mixed_and_repeats_do_not_agree(make, tau, seeds):
    for seed in seeds:
        asked = prompts(seed, 40) * 3
        arms = [make.rounded(rule=drawn(seed, number)) for number in range(len(asked))]
        found = list(picked(seen(make, tau, arms.__getitem__, asked), "primary"))
        assert policy(found)["rule"] == "mixed"
        again = repeats(found)
        assert (again["prompts"], again["repeats"]) <= (40, len(found))
        assert again["repeats"] > 30
        # Two draws among two or three agree in half of the cases or less.
        assert abs(again["share"] - 0.5) < 4.5 * math.sqrt(0.25 / again["repeats"])
        assert again["interval"][1] < 1.0


def test_a_rule_that_always_does_the_same_does_so_again(make, tau):
    own = seen(make, tau, lambda _: make.rounded(), prompts(1, 20) * 2)
    again = repeats(list(picked(own, "shadow")))
    assert again["share"] == 1.0
    assert again["repeats"] == again["ties"] > 10
    assert repeats(list(picked(own._replace(prompts=[""] * 40), "shadow"))) == {"repeats": 0, "ties": 0}


def test_mismatches_of_one_tied_set_are_of_the_rule_alone(make, tau):
    def against(shadow):
        return [
            compare_free(
                make.reply(make.rounded().greedy(prompt, LENGTH)),
                make.reply(shadow.greedy(prompt, LENGTH)),
                source=Source.REPLY,
                tau=tau,
                greedy=True,
            )
            for prompt in prompts(4, 30)
        ]

    found = against(make.rounded(highest=True))
    parted = sum(one.outcome == "diverged" for one in found)
    assert parted > 20
    assert mismatches(found) == {"n": parted, "same_set": parted}

    # One more token is tied for the shadow, lifted to the top wherever something is tied there already.
    def lifted(prefix, logits):
        best = max(logits)
        if logits.count(best) < 2:
            return logits
        third = next(number for number, value in enumerate(logits) if value != best)
        return [best if number == third else value for number, value in enumerate(logits)]

    wider = make.engine(lambda prefix, logits: lifted(prefix, [make.bf16(x) for x in logits]), highest=True)
    assert mismatches(against(wider)) == {"n": parted, "same_set": 0}
    assert mismatches([]) == {"n": 0, "same_set": 0}


def test_a_tie_is_the_same_only_after_the_same_output(make, tau):
    """The first tie decides what the second follows on: where that one goes the other way the second is no repeat."""
    arms = [make.rounded(), make.rounded(highest=True)]
    found = list(picked(seen(make, tau, arms.__getitem__, [(1, 2)] * 2), "primary"))
    assert len({one.again for one in found}) == len(found) - 1
    assert repeats(found)["share"] == 0.0


def test_picks_that_hang_on_batch_mates_are_found_where_there_is_enough(make, tau, seeds):
    for seed in seeds:
        asked = prompts(seed, 120)
        loads = [3 * (number % 2) for number in range(120)]
        arms = [
            make.rounded(rule=drawn(seed, number)) if loads[number] else make.rounded() for number in range(len(asked))
        ]
        found = list(picked(seen(make, tau, arms.__getitem__, asked, loads), "primary"))
        block = batch_mates(found)["picks"]
        assert block["says"] == "depends"
        assert block["alone"]["lowest"] == block["alone"]["n"]
        assert block["log_e"] > ENOUGH_EVIDENCE
        few = batch_mates([one for one in found if one.conversation in {str(prompt) for prompt in asked[:6]}])
        assert few["picks"]["says"] == "too_few"
        steady = seen(make, tau, lambda _: make.rounded(), asked, loads)
        assert batch_mates(list(picked(steady, "primary")))["picks"]["says"] == "no_sign"


def test_repeats_that_agree_only_alone_are_found(make, tau):
    asked = prompts(5, 80) * 2
    loads = [2 * (number % 2) for number in range(80)] * 2
    arms = [make.rounded(rule=drawn(5, number)) if loads[number] else make.rounded() for number in range(len(asked))]
    block = batch_mates(list(picked(seen(make, tau, arms.__getitem__, asked, loads), "primary")))["repeats"]
    assert (block["says"], block["alone"]["agreed"]) == ("depends", block["alone"]["n"])


def test_evidence_is_the_product_of_one_prediction_after_the_other():
    def predicted(hits: int, misses: int) -> float:
        found = 0.0
        for k in range(hits):
            found += math.log((k + 0.5) / (k + 1))
        for k in range(misses):
            found += math.log((k + 0.5) / (hits + k + 1))
        return found

    common = 30 * math.log(0.75) + 10 * math.log(0.25)
    assert log_evidence((20, 0), (10, 10)) == pytest.approx(predicted(20, 0) + predicted(10, 10) - common)
    assert log_evidence((0, 0), (0, 0)) == log_evidence((5, 0), (0, 0)) - log_evidence((5, 0), (0, 0)) == 0.0


def test_evidence_is_never_more_than_its_bound_lets_it_be(seeds):
    """Looked at after every outcome, 100 to 1 comes up in no more than one run in a hundred where nothing depends."""
    alarms, runs = 0, 150
    for seed in seeds:
        rng = random.Random(seed)
        for _ in range(runs):
            rate, counted = rng.random(), [[0, 0], [0, 0]]
            for _ in range(60):
                counted[rng.random() < 0.5][rng.random() < rate] += 1
                if log_evidence(tuple(counted[0]), tuple(counted[1])) >= ENOUGH_EVIDENCE:
                    alarms += 1
                    break
    assert alarms <= 0.01 * runs * len(seeds) + 4.5 * math.sqrt(0.01 * runs * len(seeds)) + 2


def test_intervals_are_wilsons():
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)  # Newcombe 1998, table I
    assert wilson(1.0, 36) == pytest.approx((0.9036, 1.0), abs=5e-5)
    assert wilson(0.0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1.0, 0) == (0.0, 1.0)


def test_ties_of_one_conversation_count_as_one(make, tau):
    one = next(picked(seen(make, tau, lambda _: make.rounded(), prompts(1, 5)), "primary"))
    assert independent([1] * 40) == 40
    assert independent([10, 10]) == 2
    assert independent([8, 1, 1]) == pytest.approx(100 / 66)
    assert policy([one] * 100)["rule"] == "unknown"
    apart = [one._replace(conversation=str(number)) for number in range(36)]
    assert policy(apart)["rule"] == "lowest"
    assert policy(apart[:30])["rule"] == "unknown"
    assert policy([*apart[:18], *(other._replace(pick=Pick.HIGHEST) for other in apart[18:])])["rule"] == "mixed"
    unknown = policy([one._replace(conversation="")] * 100)
    assert (unknown["rule"], unknown["lowest"]) == ("unknown", {"share": 1.0})
    assert policy([]) == {"rule": "unknown", "picks": 0}
