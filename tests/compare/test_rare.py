"""What was seen seldom or never: intervals hold the truth as often as they say, stay inside their range, and are never wider than what was seen allows."""

import random
from math import log

import pytest
from scipy.stats import chi2

from proxy.compare import rare
from proxy.compare.addends import Addends
from proxy.compare.bins import UNIT, fixed
from proxy.compare.comparison import Mode
from proxy.compare.headline import REASONS, headline_of

CONVERSATIONS, TOKENS = 60, 40
FLIPS, ERROR, PARTED = "flips_per_1000_positions", "mean_error_nats", "divergences_per_1000_tokens"


@pytest.mark.parametrize("events", [1, 2, 3, 7, 19])
def test_a_count_has_the_interval_of_a_poisson_mean(events):
    low, high = rare.counted(events, 1.0)
    exact = chi2.ppf(0.025, 2 * events) / 2, chi2.ppf(0.975, 2 * events + 2) / 2
    assert exact[0] - 0.02 < low <= exact[0] + 1e-3
    assert high == pytest.approx(exact[1], rel=0.002)
    assert rare.counted(events * 4.0, 4.0) == (pytest.approx(4 * low), pytest.approx(4 * high))


def test_how_much_conversations_have_that_have_any():
    assert rare.size([]) == rare.size([0, 0]) == 0
    assert rare.size([1, 1, 0, 1]) == 1
    assert rare.size([8, 0, 0, 1]) == 8  # 65 / 9, and no less
    assert rare.size([-3 * UNIT, 3 * UNIT]) == 3 * UNIT


def flipped(rng, rate, burst):
    """Flips of one conversation: each position alone, or three on average wherever there is one."""
    if not burst:
        return sum(rng.random() < rate for _ in range(TOKENS))
    if rng.random() >= rate * TOKENS / 3:
        return 0
    found = 1
    while found < TOKENS and rng.random() < 2 / 3:
        found += 1
    return found


def arm(rng, rate, burst=False):
    made = {}
    for number in range(CONVERSATIONS):
        made[f"c{number}"] = one = Addends()
        events = flipped(rng, rate, burst)
        one.sums.update(positions=TOKENS, events=events)
        # A token's error is exponential, of 0.1 nat, at as many positions as flip.
        one.sums.update(values=TOKENS, error=fixed(sum(rng.expovariate(10) for _ in range(events))))
    return made


def days(seed, count, own, floor, burst):
    for day in range(count):
        rng = random.Random(f"{seed}/{day}/{own}/{floor}/{burst}")
        yield headline_of(Mode.FORCED, arm(rng, own, burst), arm(rng, floor, burst))


RATES = [
    (0.02, 0.0, False),
    (0.02, 0.0, True),
    (0.02, 0.0005, False),
    (0.02, 0.0005, True),
    (0.002, 0.002, False),
    (0.002, 0.002, True),
    (0.001, 0.0005, False),
    (0.3, 0.0, False),
]


@pytest.mark.parametrize(("own", "floor", "burst"), RATES)
def test_intervals_hold_the_truth_and_are_never_absurd(seeds, own, floor, burst):
    """The floor is exactly 0 or small; flips come one by one or in bursts. Bad luck passes these bounds once in a hundred thousand runs."""
    count = max(40, 320 // len(seeds))
    found = [day for seed in seeds for day in days(seed, count, own, floor, burst)]
    # Sizes of bursts of errors, of which a day has one or two, are beyond anybody's knowledge: nine in ten is what these intervals hold then.
    for name, unit, share in ((FLIPS, 1000.0, 0.95), (ERROR, 0.1, 0.9 if burst else 0.95)):
        truths = {"raw_interval": own * unit, "floor_interval": floor * unit, "interval": (own - floor) * unit}
        for key, truth in truths.items():
            known = [day[name][key] for day in found if key in day[name]]
            if name == FLIPS and (floor or key != "interval"):
                assert len(known) >= 0.9 * len(found)
            held = sum(low - 1e-9 <= truth <= high for low, high in known)
            assert held >= share * len(known) - 4.3 * (share * (1 - share) * len(known)) ** 0.5, (name, key, len(known))
        for day in found:
            _is_sane(day[name])


def _is_sane(number):
    """An excess is no further off than both arms' own intervals are, each edge of which may fail half as often there."""
    for key in ("raw_interval", "floor_interval"):
        if key in number:
            low, high = number[key]
            assert 0.0 <= low < high <= 1000.0
    for key, reason in number.get("no_interval", {}).items():
        assert key not in number
        assert reason in REASONS
    if "interval" in number and "floor_interval" in number and "raw_interval" in number:
        low, high = number["interval"]
        assert low < number["excess"] < high
        assert low >= number["raw_interval"][0] - 1.24 * number["floor_interval"][1] - 1e-9
        assert high <= 1.24 * number["raw_interval"][1] + 1e-9


def drawn(parts, whole=TOKENS, **sums):
    return {f"c{number}": Addends() for number in range(len(parts))} | {
        f"c{number}": _with(positions=whole, events=part, **sums) for number, part in enumerate(parts)
    }


def _with(**sums):
    made = Addends()
    made.sums.update(sums)
    return made


def test_a_floor_of_0_is_taken_to_come_as_the_arms_own_flips_do():
    """Nine flips in nine of 33 conversations, none of the control's: the control may have had 3.7 of them unseen, and not 3.7 conversations full of them."""
    found = headline_of(Mode.FORCED, drawn([1] * 9 + [0] * 24, 12), drawn([0] * 33, 12))[FLIPS]
    assert found["floor_interval"] == [0.0, pytest.approx(1000 * log(20) / (33 * 12))]
    low, high = found["interval"]
    assert 0.0 < low < found["raw"] < high < 2 * found["raw"]
    sign = headline_of(Mode.FORCED, drawn([1] * 3 + [0] * 30, 12), drawn([0] * 33, 12))[FLIPS]
    assert sign["interval"][0] < 0.0  # three against none is a fair coin's work


def test_an_arm_without_any_is_less_than_a_floor_that_has_some():
    found = headline_of(Mode.FORCED, drawn([0] * 33, 12), drawn([1] * 9 + [0] * 24, 12))[FLIPS]
    assert found["excess"] < found["interval"][1] < 0.0


def test_what_neither_arm_has_has_no_excess_to_speak_of():
    found = headline_of(Mode.FORCED, drawn([0] * 33, 12), drawn([0] * 33, 12))[FLIPS]
    assert found["no_interval"] == {"interval": "never_seen"}
    assert found["raw_interval"] == [0.0, pytest.approx(1000 * log(20) / 33)]  # conversations may be full of it


def test_few_conversations_of_the_control_bound_nothing():
    found = headline_of(Mode.FORCED, drawn([1] * 9 + [0] * 24, 12), drawn([0] * 5, 12))[FLIPS]
    assert found["no_interval"] == {"interval": "few_conversations"}
    assert "raw_interval" in found


def test_one_conversation_full_of_flips_is_one_event():
    found = headline_of(Mode.FORCED, drawn([10] + [0] * 32, 12), drawn([0] * 33, 12))[FLIPS]
    low, high = found["raw_interval"]
    assert low < 0.02 * found["raw"]
    assert high > 4 * found["raw"]
    assert found["interval"][0] < 0.0


def test_a_share_stays_a_share_on_both_sides():
    for same in (1, 5, 10, 29, 32):
        parts = [0] * same + [1] * (33 - same)
        made = {key: _with(requests=1, not_identical=parts[number], streams=1, exposed=9, events=parts[number])
                for number, key in enumerate(f"c{number}" for number in range(33))}  # fmt: skip
        found = headline_of(Mode.FREE, made, made)
        low, high = found["identical_share"]["raw_interval"]
        assert 0.0 <= low < same / 33 < high <= 1.0
        assert 0.0 <= found[PARTED]["raw_interval"][0] < found[PARTED]["raw"] < found[PARTED]["raw_interval"][1]
