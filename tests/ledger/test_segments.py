"""Records of two pairs of stacks are never put together; what may be of either is in neither."""

from __future__ import annotations

import pytest

from proxy.compare.comparison import Comparison, FlipClass, Mode
from proxy.config import Config, Shadow
from proxy.ledger import engine_state
from proxy.ledger.engine_state import EngineState
from proxy.ledger.events import Event
from proxy.ledger.report import build_report
from proxy.ledger.segments import Pair, Segments

CONFIG = Config(shadows=(Shadow("candidate", "http://c"), Shadow("control", "http://d", role="control")))
BEGAN = 1_700_000_000.0


def change(arm="candidate", time=BEGAN + 10, confirmed=BEGAN + 5, **fields):
    detail = {"arm": arm, "was": "s1", "now": "s2", "confirmed": confirmed, "fields": fields or {"dtype": ["a", "b"]}}
    return Event(time, "footprint_changed", detail)


def ten_of_each(make, **fields):
    """Exchange ``n`` began ``n`` seconds after the beginning; the stack is another from the tenth on."""
    for number in range(20):
        kind = FlipClass.GENUINE if number >= 10 else None
        print_ = {"shadow_footprint": "s2" if number >= 10 else "s1"}
        yield make.record(number, make.free(kind), **(print_ | fields))


def test_the_latest_pair_is_the_headline_and_the_earlier_one_stands_beside_it(make):
    segments = Segments()
    for record in ten_of_each(make):
        segments.take(record)
    segments.take(make.record(90, Comparison(mode=Mode.FREE, incomparable="sampled"), shadow_footprint=""))
    assert segments.pair == Pair("p1", "s2")
    latest = segments.latest("free").comparisons
    assert [one.incomparable for one in latest] == [None] * 10 + ["sampled"]
    assert all(one.choices[0].first for one in latest[:10])
    ((pair, segment),) = segments.earlier()
    assert (pair, segment.first, segment.last) == (Pair("p1", "s1"), BEGAN, BEGAN + 9)
    assert not any(one.choices[0].first for one in segment.modes["free"].comparisons)


def test_a_stack_that_comes_back_is_the_same_pair_again(make):
    segments = Segments()
    for number, print_ in enumerate(["s1", "s2", "s1"]):
        segments.take(make.record(number, shadow_footprint=print_))
    assert segments.pair == Pair("p1", "s1")
    assert len(segments.latest("free").comparisons) == 2
    assert [pair for pair, _ in segments.earlier()] == [Pair("p1", "s2")]


def test_the_report_keeps_them_apart(store, make):
    for id_, dtype in (("p1", "fp32"), ("s1", "fp32"), ("s2", "bf16")):
        store.put_footprint(id_, {"engine": "vllm", "dtype": dtype}, BEGAN)
    store.settle([make.compared(one) for one in ten_of_each(make)])
    store.add_event(change(dtype=["fp32", "bf16"]))
    report = build_report(CONFIG, store, command="test", now=0.0)
    candidate, control = report["shadows"]
    assert candidate["footprint_ids"] == {"primary": "p1", "shadow": "s2"}
    free = candidate["modes"]["free"]
    assert (free["requests"], free["identical"], sum(free["divergences"].values())) == (10, 0, 10)
    (earlier,) = candidate["earlier"]
    before = earlier["modes"]["free"]
    assert (before["requests"], before["identical"], sum(before["divergences"].values())) == (5, 5, 0)
    assert candidate["left_out_between_stacks"] == 5  # begun after the last look that found the old stack
    assert earlier["changed_since"] == {
        "candidate": [{"field": "dtype", "before": "fp32", "after": "bf16", "sure": True}]
    }
    (finding,) = candidate["findings"]
    assert (finding["finding"], finding["count"], finding["layer"]) == ("footprint_changed", 1, "stack")
    assert finding["evidence"] == {"arm": "candidate", "dtype": "fp32 → bf16"}
    assert control["findings"] == []
    assert control["earlier"] == []


def test_a_change_of_the_primary_is_a_finding_of_every_shadow(store, make):
    for shadow in ("candidate", "control"):
        for record in ten_of_each(make, shadow=shadow, role=shadow, shadow_footprint="s1"):
            number = int(record.id, 16)
            print_ = "p2" if number >= 10 else "p1"
            store.settle([make.compared(make.record(number + 100 * len(shadow), record.comparison, shadow=shadow,
                                                    role=shadow, primary_footprint=print_, time=record.time))])  # fmt: skip
    store.add_event(change("primary", dtype=[None, "bf16"]))
    report = build_report(CONFIG, store, command="test", now=0.0)
    for shadow in report["shadows"]:
        assert [one["finding"] for one in shadow["findings"]] == ["footprint_changed"]
        assert shadow["findings"][0]["evidence"]["dtype"] == "unknown → bf16"
        assert len(shadow["earlier"]) == 1
    (shown,) = report["changes"]
    assert shown["fields"] == {"dtype": {"before": None, "after": "bf16"}}
    assert shown["last_confirmed"] < shown["time"]


def test_a_control_beside_another_primary_is_no_floor(store, make):
    records = [
        make.record(number, make.free(FlipClass.GENUINE), shadow="control", role="control") for number in range(4)
    ]
    records += [make.record(number + 10, make.free(), primary_footprint="p2") for number in range(4)]
    store.settle([make.compared(one) for one in records])
    candidate, _ = build_report(CONFIG, store, command="test", now=0.0)["shadows"]
    assert "floor" not in candidate["modes"]["free"]["hazard_per_1000_tokens"]


@pytest.mark.parametrize("level", ["full", "no_ids", "text"])
def test_the_report_says_how_much_of_an_engine_is_compared(store, make, level):
    known = {"candidate": EngineState("http://c", "s1", level, BEGAN)}
    store.settle([make.compared(make.record(1))], state={engine_state.KEY: engine_state.encode(known)})
    report = build_report(CONFIG, store, command="test", now=0.0)
    assert report["shadows"][0]["capability"]["level"] == level
    assert report["shadows"][0]["capability"]["modes"] == (["free", "forced"] if level == "full" else ["free"])
    assert "capability" not in report["shadows"][1]


def test_what_cannot_be_read_is_nothing_known():
    assert engine_state.decode(None) == engine_state.decode(b"\xff") == engine_state.decode(b'{"a": 1}') == {}
    known = {"primary": EngineState("http://p", "f", "full", 1.5)}
    assert engine_state.decode(engine_state.encode(known)) == known
