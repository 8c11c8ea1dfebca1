import json

import pytest

from proxy.compare.comparison import (
    ChoiceComparison,
    Comparison,
    Flip,
    FlipClass,
    Mode,
    Pick,
    TauOrigin,
    Tie,
    TokenRef,
)
from proxy.compare.summary import (
    flip_positions,
    summarise_forced,
    summarise_free,
    summarise_latency,
    summarise_ties,
    value_pairs,
)


def choice(**more) -> ChoiceComparison:
    values = more.get("primary_logprobs", ())
    filled = {
        "index": 0,
        "primary_tokens": None,
        "shadow_tokens": None,
        "compared": len(values),
        "exposed": len(values),
        "identical": False,
        "shadow_logprobs": (None,) * len(values),
    }
    return ChoiceComparison(**(filled | more))


def flip(index: int, kind: FlipClass, **more) -> Flip:
    return Flip(index=index, primary=TokenRef(), shadow=TokenRef(), kind=kind, **more)


def free(*choices: ChoiceComparison, **more) -> Comparison:
    return Comparison(mode=Mode.FREE, choices=choices, **more)


def forced(*choices: ChoiceComparison, **more) -> Comparison:
    return Comparison(mode=Mode.FORCED, choices=choices, **more)


SAME = choice(identical=True, primary_logprobs=(-1.0, -2.0), shadow_logprobs=(-1.1, -2.0))
PARTED = choice(
    first=flip(2, FlipClass.GENUINE),
    exposed=3,
    primary_logprobs=(-1.0, -0.0005, None),
    shadow_logprobs=(-1.5, -0.1, -1.0),
)


def test_free_counts_requests_choices_and_reasons():
    summary = summarise_free(
        [
            free(SAME),
            free(SAME, PARTED),
            free(choice(by_text=True, first_text_difference=3)),
            free(choice(censored="max_tokens", exposed=5)),
            Comparison(mode=Mode.FREE, incomparable="sampled"),
            Comparison(mode=Mode.FREE, incomparable="sampled"),
            Comparison(mode=Mode.FREE, incomparable="token_count"),
        ]
    )
    assert summary["requests"] == 4
    assert summary["incomparable"] == {"sampled": 2, "token_count": 1}
    assert (summary["identical"], summary["censored"], summary["by_text"]) == (1, 1, 1)
    assert (summary["tokens_compared"], summary["exposed_tokens"]) == (7, 12)
    assert summary["divergences"] == {"exact_tie": 0, "near_tie": 0, "genuine": 1, "unknown": 1}
    assert summary["first_divergence"] == {"median": 2}
    assert summary["hazard_per_1000_tokens"] == {"raw": pytest.approx(1000 / 12)}
    assert summary["logprob_error_nats"]["max"] == 0.5
    assert summary["logprob_error_nats"]["count"] == 6
    assert summary["relative_error"]["left_out"] == 1
    assert summary["relative_error"]["max"] == 0.5
    assert summary["values_left_out"] == 1
    json.dumps(summary)


def test_what_was_not_measured_is_absent():
    empty = summarise_free([])
    assert empty == {
        "requests": 0,
        "incomparable": {},
        "identical": 0,
        "censored": 0,
        "measured": 0,
        "by_text": 0,
        "tokens_compared": 0,
        "exposed_tokens": 0,
        "divergences": {"exact_tie": 0, "near_tie": 0, "genuine": 0, "unknown": 0},
    }
    assert set(summarise_forced([])) == {"requests", "incomparable", "tokens_compared", "flips", "flip_positions"}
    assert "logprob_error_nats" not in summarise_free([free(SAME, values_incomparable="logprob_mode")])


def test_floor_and_excess_come_from_the_control():
    hazard = summarise_free([free(PARTED)], control=[free(SAME), free(PARTED)])["hazard_per_1000_tokens"]
    assert hazard == {
        "raw": pytest.approx(1000 / 3),
        "floor": pytest.approx(200.0),
        "excess": pytest.approx(1000 / 3 - 200.0),
    }


def test_intervals_are_of_the_arm_the_floor_and_the_excess():
    ours = [free(PARTED if number < 6 else SAME) for number in range(20)]
    quiet = [free(SAME)] * 20
    keys = [f"c{number}" for number in range(20)]
    hazard = summarise_free(ours, conversations=keys, control=quiet, control_conversations=keys)[
        "hazard_per_1000_tokens"
    ]
    assert hazard["floor"] == 0.0
    assert hazard["floor_interval"] == [0.0, pytest.approx(1000 * 2.9957 / 40, rel=1e-4)]
    assert hazard["raw_interval"][0] < hazard["raw"] < hazard["raw_interval"][1]
    assert hazard["interval"][0] < hazard["raw_interval"][0]
    alone = summarise_free(quiet, conversations=keys)["hazard_per_1000_tokens"]
    assert alone == {"raw": 0.0, "raw_interval": hazard["floor_interval"], "interval": hazard["floor_interval"]}
    text = free(choice(by_text=True, identical=True))
    assert summarise_free([*quiet, text], conversations=[*keys, "text"])["hazard_per_1000_tokens"] == alone


def test_flips_are_of_the_positions_that_could_show_one():
    claimed = forced(choice(top1_agree=(True, None, False), flips=(flip(2, FlipClass.GENUINE),)))
    canonical = forced(choice(top1_agree=(None,) * 4, primary_logprobs=(-1.0,) * 4, shadow_logprobs=(-1.0,) * 4))
    summary = summarise_forced([claimed, canonical])
    assert (sum(summary["flips"].values()), summary["flip_positions"]) == (1, 2)
    assert summary["top1_agreement"] == 0.5
    assert flip_positions(canonical) == 0
    assert flip_positions(free(PARTED, SAME)) == 5
    assert flip_positions(Comparison(mode=Mode.FREE, incomparable="sampled")) == 0


def test_near_ties_are_shown_with_what_they_were_judged_by():
    def judged(tau: float | None, origin: TauOrigin | None) -> Comparison:
        return forced(choice(), tau=tau, tau_origin=origin)

    assumed, learned = judged(0.001, TauOrigin.ASSUMED), judged(0.25, TauOrigin.LEARNED)
    assert summarise_forced([assumed, assumed])["near_tie"] == {"tau_nats": 0.001, "origin": "assumed"}
    assert summarise_forced([assumed, learned, judged(0.125, TauOrigin.LEARNED)])["near_tie"] == {
        "tau_nats": 0.125,
        "origin": "learned",
        "range_nats": [0.001, 0.25],
    }
    assert summarise_free([free(SAME, tau=0.5, tau_origin=None)])["near_tie"] == {"tau_nats": 0.5, "origin": None}
    assert "near_tie" not in summarise_forced([judged(None, None)])


def test_forced_averages_over_tokens():
    one = forced(
        choice(
            primary_logprobs=(-1.0, -2.0, -3.0),
            shadow_logprobs=(-1.5, -2.0, None),
            top1_agree=(True, False, None),
            kl_lower_bounds=(0.1, 0.3, None),
            tv_lower_bounds=(0.2, 0.4, None),
            flips=(flip(1, FlipClass.NEAR_TIE),),
        ),
        k3_is_kl=True,
    )
    two = forced(choice(primary_logprobs=(-4.0, -1.0), shadow_logprobs=(-4.0, -1.0), top1_agree=(True, True)))
    summary = summarise_forced([one, two])
    assert (summary["requests"], summary["tokens_compared"], summary["values_left_out"]) == (2, 5, 1)
    assert summary["flips"]["near_tie"] == 1
    assert summary["top1_agreement"] == 0.75
    assert summary["k1"] == 0.125
    assert summary["mean_difference_nats"] == -0.125
    assert summary["k3"] == pytest.approx((2.718281828459045**-0.5 - 0.5) / 4)
    assert summary["k3_is_kl"] == 0.5
    assert summary["kl_lower_bound_nats"]["mean"] == pytest.approx(0.2)
    assert summary["tv_lower_bound"]["max"] == 0.4
    json.dumps(summary)


def test_ties_are_not_counted_twice_and_shadow_picks_are_free_modes():
    both = (Tie(0, "primary", 2, Pick.LOWEST), Tie(0, "shadow", 2, Pick.HIGHEST))
    mismatch = flip(0, FlipClass.EXACT_TIE, tie_break_mismatch=True)
    one = free(choice(first=mismatch, ties=both, gaps=(0.0,), shadow_gaps=(0.0,)))
    two = forced(choice(ties=(*both[:1], Tie(2, "primary", 3)), gaps=(0.0, 0.5, 0.0, None), shadow_gaps=(None,) * 4))
    assert summarise_ties([one], [two]) == {
        "mode": "forced",
        "exact": 2,
        "positions": 3,
        "primary_pick": {"lowest": 1, "highest": 0, "other": 0},
        "shadow_mode": "free",
        "shadow_exact": 1,
        "shadow_positions": 1,
        "shadow_pick": {"lowest": 0, "highest": 1, "other": 0},
        "tie_break_mismatches": 1,
    }


def test_latency_leaves_out_what_was_not_observed():
    summary = summarise_latency(([0.5, None, 1.5], [None]), ([0.1], [0.2, 0.4]))
    assert summary["time_to_first_token_seconds"]["primary"]["median"] == 1.0
    assert summary["time_to_first_token_seconds"]["shadow"] == {}
    assert summary["inter_token_seconds"]["shadow"]["mean"] == pytest.approx(0.3)


def test_value_pairs_are_those_that_may_be_set_against_each_other():
    assert list(value_pairs(free(PARTED))) == [(-1.0, -1.5), (-0.0005, -0.1)]
    assert list(value_pairs(free(PARTED, values_incomparable="logprob_mode"))) == []
    assert list(value_pairs(free(PARTED, incomparable="token_count"))) == []


def test_expected_flips_are_summed_over_the_comparisons_that_know_them():
    known = forced(choice(), expected_flips=0.25)
    assert summarise_forced([known, known, forced(choice())])["expected_flips"] == {"sum": 0.5, "requests": 2}
    assert "expected_flips" not in summarise_free([free(SAME)])
