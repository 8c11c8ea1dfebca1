"""The report's part on ties and noise, from records to sentences."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from proxy.compare.comparison import ChoiceComparison, Comparison, FlipClass, Mode, Pick, Source, Tie
from proxy.config import Config, Shadow
from proxy.ledger.report import build_report
from proxy.ledger.tie_report import sentences

CONFIG = Config(shadows=(Shadow("floor", "http://d", role="control"), Shadow("other", "http://c")))
LENGTH = 25


def forced(shifts: list[float], pick: Pick = Pick.LOWEST) -> Comparison:
    """Gaps of 0 to 3 in steps of 1/8, the first of them an exact tie; the shadow flips where a shift outweighs the gap."""
    gaps = [(7 * number % 25) / 8 for number in range(LENGTH)]
    flips = [gap + shift < 0 for gap, shift in zip(gaps, shifts, strict=True)]
    choice = ChoiceComparison(
        index=0,
        primary_tokens=LENGTH,
        shadow_tokens=None,
        compared=LENGTH,
        exposed=LENGTH,
        identical=False,
        ids=tuple(range(LENGTH)),
        gaps=tuple(gaps),
        shadow_gaps=tuple(gaps),
        gap_shifts=tuple(shifts),
        top1_agree=tuple(not flip for flip in flips),
        ties=(Tie(0, "primary", 2, pick, (0, 9)),),
    )
    return Comparison(mode=Mode.FORCED, source=Source.REPLY, choices=(choice,))


@pytest.fixture
def report(store, make):
    """Forty conversations: the control flips once in four of them, the candidate in all; the primary says fp32 and has steps."""
    numbers = count()
    batch = []
    for conversation in range(40):
        for name, role, flipped in (("floor", "control", conversation % 4 == 0), ("other", "candidate", True)):
            shifts = [-0.3 if flipped and at == 18 else 0.01 * (-1) ** at for at in range(LENGTH)]
            record = make.record(next(numbers), forced(shifts), exchange=f"x{conversation}", shadow=name, role=role)
            batch.append(replace(record, conversation=f"c{conversation}", prompt=f"p{conversation % 20}"))
    store.settle([make.compared(one) for one in batch])
    store.put_footprint("p1", {"engine": "vllm", "dtype": "fp32"}, 0.0)
    return build_report(CONFIG, store, command="test", now=0.0)


def test_blocks_of_the_report(report):
    control, candidate = report["shadows"]
    ties = candidate["ties"]
    assert (ties["mode"], ties["exact"], ties["positions"]) == ("forced", 40 * 1, 40 * LENGTH)
    rule = ties["policy"]["primary"]
    assert (rule["rule"], rule["picks"], rule["conversations"], rule["independent"]) == ("lowest", 40, 40, 40.0)
    assert ties["policy"]["shadow"] == {"rule": "unknown", "picks": 0}
    again = ties["repeats"]["primary"]
    assert (again["repeats"], again["ties"], again["share"]) == (20, 20, 1.0)
    assert ties["logits"]["primary"]["footprint"] == {"logit_step": None, "dtype": "fp32"}
    assert (ties["logits"]["primary"]["says"], ties["logits"]["primary"]["agrees"]) == ("bf16", False)
    noise, own = (one["modes"]["forced"]["expected_flips"] for one in (control, candidate))
    assert (noise["observed"], own["observed"], own["n"], own["conversations"]) == (10, 40, 40 * LENGTH, 40)
    assert own["noise"] == {"n": 40 * LENGTH, "flips": 10, "conversations": 40}
    assert own["s_nats"] == pytest.approx(((10 * 0.09 + (40 * LENGTH - 10) * 1e-4) / (40 * LENGTH)) ** 0.5)
    assert own["interval"][0] > 0
    assert noise["tails"]["n"] == 40 * LENGTH
    assert "tails" not in own
    assert "expected_flips" not in candidate["modes"]["free"]


def test_sentences(report):
    said = sentences(report)
    assert said[0].startswith(
        "The primary picks the lowest id in 40 of 40 exact ties (95 %: 91 to 100 %, 40 conversations): its rule is the lowest id."
    )
    assert "It picked the same again in 100 % of 20 repeats of 20 ties (95 %: 84 to 100 %)." in said[0]
    assert "and steps of 0.125 nat say that the primary's logits are bf16; its footprint says fp32." in said[0]
    assert any(
        one.startswith("forced: floor flips 10 times in 1,000 positions where its own noise gives ") for one in said
    )
    (candidate,) = [one for one in said if one.startswith("forced: other flips 40 times in 1,000 positions")]
    assert ": more than noise like the control's makes, and more than its own does (20, at 0.0051 nat)." in candidate
    own = report["shadows"][1]["modes"]["forced"]["expected_flips"]
    own["own_noise"] |= {"interval": [-3.0, 2.0]}
    assert any(
        one.endswith("; its own accounts for them (20, at 0.0051 nat): no sign of another fault.")
        for one in sentences(report)
    )
    own["own_noise"] |= {"interval": [-3.0, -2.0]}
    assert any("is not normal, for then there would be more (20" in one for one in sentences(report))
    for edges, words in (
        ([-3.0, 3.0], "no sign of a fault beyond noise."),
        ([-9.0, -1.0], "less than noise like the control's makes."),
    ):
        own["interval"] = edges
        assert any(one.endswith(words) for one in sentences(report))
    del own["interval"]
    assert any(one.endswith("too few conversations to say more.") for one in sentences(report))


def test_words_for_other_rules(report):
    policy = report["shadows"][0]["ties"]["policy"]["primary"]
    policy |= {
        "rule": "highest",
        "highest": {"share": 1.0, "interval": [0.91, 1.0]},
        "lowest": {"share": 0.0, "interval": [0.0, 0.1]},
    }
    assert "its rule is the highest id, or the other of two: no tie was of three." in sentences(report)[0]
    policy |= {
        "rule": "mixed",
        "highest": {"share": 0.5, "interval": [0.3, 0.7]},
        "lowest": {"share": 0.5, "interval": [0.3, 0.7]},
    }
    assert "in 20 of 40 exact ties (95 %: 30 to 70 %, 40 conversations): it has no rule by id." in sentences(report)[0]
    mates = {"says": "depends", "log_e": 6.2, "alone": {"n": 20, "lowest": 20}, "with_others": {"n": 18, "lowest": 9}}
    report["shadows"][0]["ties"]["batch_mates"]["picks"] = mates
    assert (
        "That depends on what else runs: the lowest in 20 of 20 alone and in 9 of 18 with others (log evidence 6.2)."
        in sentences(report)[0]
    )


def test_another_primarys_control_is_no_measure(store, make):
    keys = {"conversation": "c", "prompt": "p"}
    records = [
        replace(make.record(number, forced([0.0] * LENGTH), exchange=f"x{number}"), **keys) for number in range(20)
    ]
    other = [
        replace(
            make.record(
                100 + number, make.free(FlipClass.GENUINE), shadow="floor", role="control", primary_footprint="p0"
            ),
            **keys,
        )
        for number in range(5)
    ]
    store.settle([make.compared(one) for one in other + records])
    report = build_report(CONFIG, store, command="test", now=0.0)
    assert "observed" not in report["shadows"][1]["modes"]["forced"].get("expected_flips", {})


def test_what_is_said_of_the_controls_noise(report):
    noise = report["shadows"][0]["modes"]["forced"]["expected_flips"]
    for says, edges, words in (
        ("normal", [-1.0, 1.0], ")."),
        ("heavier", [-1.0, 1.0], "). Its noise has heavier tails than the normal."),
        (
            "heavier",
            [-9.0, -1.0],
            "). Its noise has heavier tails than the normal; normal noise of that size would give 30.",
        ),
        ("normal", [-9.0, -1.0], "); normal noise of that size would give 30."),
    ):
        noise["tails"] = {"says": says}
        noise["normal"] = {"expected": 30.0, "interval": edges}
        assert any(one.startswith("forced: floor") and one.endswith(words) for one in sentences(report)), words


def test_a_silent_control_is_not_said_twice(report):
    noise = report["shadows"][0]["modes"]["forced"]["expected_flips"]
    noise |= {"observed": 1}
    assert any(one.startswith("forced: floor flips once in 1,000 positions") for one in sentences(report))
    noise |= {"observed": 0, "expected": 0.0}
    assert not any(one.startswith("forced: floor") for one in sentences(report))
