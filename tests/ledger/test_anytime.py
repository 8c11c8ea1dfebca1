"""Intervals at any time in the report: one value a conversation, at the configured level, absent where nothing is known."""

from __future__ import annotations

import msgspec
import pytest

from proxy.compare.betting import Outcomes, interval
from proxy.compare.comparison import FlipClass
from proxy.config import Config, Shadow, Verdict
from proxy.ledger import cells
from proxy.ledger.anytime import of_mode
from proxy.ledger.record import Timing
from proxy.ledger.report import build_report
from proxy.ledger.segments import Gathered

CONFIG = Config(shadows=(Shadow("candidate", "http://c"),), verdict=Verdict(alpha=0.05))


def with_lists(comparison, *variations):
    choices = tuple(msgspec.structs.replace(choice, tv_lower_bounds=variations) for choice in comparison.choices)
    return msgspec.structs.replace(comparison, choices=choices)


def reported(store, records):
    store.settle(records)
    (shadow,) = build_report(CONFIG, store, command="test", now=0.0)["shadows"]
    return shadow


def test_each_conversation_is_one_value(store, make):
    batch = []
    for number in range(40):
        flips = (FlipClass.GENUINE,) if number % 4 == 0 else (FlipClass.NEAR_TIE,)
        forced = with_lists(make.forced(*flips), 0.5, None, 0.25 if number % 2 else 0.75)
        shared = {"conversation": f"c{number}", "exchange": f"x{number}"}
        batch.append(make.record(number, forced, **shared))
        again = make.forced(FlipClass.GENUINE)  # a later exchange of the same conversation
        batch.append(make.record(100 + number, again, conversation=f"c{number}", exchange=f"y{number}"))
    batch.append(make.record(300, make.forced(FlipClass.GENUINE), conversation="", exchange="z"))
    found = reported(store, [make.compared(one) for one in batch])["modes"]["forced"]["anytime"]
    assert found["alpha"] == 0.05
    assert found["genuine_share"]["conversations"] == 40
    assert found["genuine_share"]["interval"] == pytest.approx(interval(Outcomes(10, 0, 30), 0.05))
    low, high = found["tv_mean"]["interval"]
    assert low < 0.5 < high  # means of 0.375 and 0.625, as often
    assert high - low < 0.2  # ... and near each other
    lowest, highest = found["p99_abs_d"]["interval"]
    assert lowest is not None
    assert highest is None  # forty conversations do not show where one token in a hundred ends


def test_the_time_to_the_first_token_has_its_own(store, make):
    batch = []
    for number in range(60):
        fields = {
            "primary_timing": Timing(first_token=0.09 + number / 1e4, end=1.0),
            "shadow_timing": Timing(first_token=0.4 + number / 1e4, end=1.0),
        }
        batch.append(make.record(number, make.free(), conversation=f"c{number}", exchange=f"x{number}", **fields))
    found = reported(store, [make.compared(one) for one in batch])["latency"]["anytime"]
    pace = found["time_to_first_token_seconds"]
    assert pace["primary"]["p50"] == {"interval": [0.0625, 0.125], "conversations": 60}
    assert pace["shadow"]["p50"] == {"interval": [0.375, 0.5], "conversations": 60}
    assert pace["shadow"]["p99"]["interval"] == [0.375, None]


def test_what_was_not_measured_is_absent(store, make):
    shadow = reported(store, [make.compared(make.record(1, make.free(), conversation="", exchange="x"))])
    assert "anytime" not in shadow["modes"]["free"]
    assert "anytime" not in shadow["latency"]


def test_broken_values_break_no_report(store, make):
    broken = with_lists(make.forced(), float("nan"), 1.5, -0.5)
    (choice,) = broken.choices
    choice = msgspec.structs.replace(choice, primary_logprobs=(-1e308, 1e308), shadow_logprobs=(1e308, -1e308))
    batch = [
        make.record(n, msgspec.structs.replace(broken, choices=(choice,)), conversation=f"c{n}", exchange=f"x{n}")
        for n in range(30)
    ]
    gathered = Gathered()
    for one in batch:
        gathered.take(one)
    found = of_mode(gathered, 0.05)
    assert found["tv_mean"]["interval"][1] == 1.0
    assert found["p99_abs_d"] == {"interval": [48.0, None], "conversations": 30}


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ([0.0, 0.0123], "0 to 0.0123 (n 400)"),
        ([None, 0.1], "at most 0.1 (n 400)"),
        ([0.2, None], "at least 0.2 (n 400)"),
    ],
)
def test_how_it_is_shown(ends, shown):
    numbers = {"anytime": {"alpha": 0.01, "tv_mean": {"interval": ends, "conversations": 400}}}
    assert cells.anytime("tv_mean")(numbers) == shown
    assert cells.anytime("p99_abs_d")(numbers) == cells.ABSENT
