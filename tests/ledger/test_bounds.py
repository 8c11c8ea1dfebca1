"""Long names and texts from outside do not fill the disk, and stay apart."""

from __future__ import annotations

from msgspec.structs import replace

from proxy.compare.comparison import Comparison, FlipClass, Mode, TokenRef
from proxy.ledger.bounds import MODEL, TEXT, VALUE, bounded, bounded_values, short
from proxy.ledger.events import Event
from proxy.ledger.query import Filter


def test_a_short_text_is_itself_and_a_long_one_is_marked():
    assert short("m" * 256, 256) == "m" * 256
    cut = short("m" * 1_000_000, 256)
    assert len(cut) == 256
    assert cut.startswith("m" * 200)
    assert "… (1000000 characters, " in cut
    assert short(cut, 256) == cut
    assert short("m" * 1_000_000 + "n", 256) != short("m" * 1_000_000 + "o", 256)
    assert len(short("\ud800" * 300, 256)) == 256


def test_every_open_text_of_a_record_is_cut(make):
    comparison = make.free(FlipClass.NEAR_TIE)
    [choice] = comparison.choices
    long = replace(choice.first, primary=TokenRef(text="t" * 5000), shadow=TokenRef(text="u"))
    choice = replace(choice, first=long, flips=(long,))
    one = make.record(1, replace(comparison, choices=(choice,), detail="d" * 5000), model="m" * 5000)
    cut = bounded(one)
    assert (len(cut.model), len(cut.comparison.detail)) == (MODEL, TEXT)
    for flip in (cut.comparison.choices[0].first, *cut.comparison.choices[0].flips):
        assert (len(flip.primary.text), flip.shadow.text) == (TEXT, "u")
    assert cut.content == one.content
    assert cut.comparison.choices[0].ids == one.comparison.choices[0].ids
    assert bounded(cut) == cut
    usual = make.record(2, make.forced(FlipClass.GENUINE))
    assert bounded(usual) is usual


def test_values_are_cut_wherever_they_are():
    assert bounded_values({"a": ["x" * 10_000, 1, None, {"b" * 5000: True}]}) == {
        "a": [short("x" * 10_000, VALUE), 1, None, {short("b" * 5000, TEXT): True}]
    }


def test_a_thousand_records_of_a_long_model_take_little_room_and_are_found_by_it(store, make):
    model = "m" * 1_000_000
    lost = Comparison(mode=Mode.FREE, incomparable="primary_error", detail="d" * 100_000)
    store.settle([make.compared(make.record(number, lost, model=model)) for number in range(100)])
    store.put_footprint("f", {"model": model}, 1.0)
    store.add_event(Event(1.0, "engine_known", {"model": model}))
    assert store.used_bytes() < 1 << 20
    assert len(list(store.records(Filter(model=model)))) == 100
    kept = next(store.records()).model
    assert len(list(store.records(Filter(model=kept)))) == 100
    assert len(store.footprint("f")["model"]) == VALUE
