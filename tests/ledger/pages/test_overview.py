"""The first page: three questions, each answered in words from numbers that are there, and what to do where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from proxy.config import Config, Records, Shadow
from proxy.counters import Counters, Slot
from proxy.ledger.events import Event
from proxy.ledger.hours import replies
from proxy.ledger.known import Match, Rules, checked
from proxy.ledger.known_file import save
from proxy.ledger.mirror_api import position
from proxy.ledger.pages import happenings, hourly
from proxy.ledger.pages.overview import view
from proxy.ledger.pages.quantiles import Spread, quantile, spread
from proxy.ledger.pages.reading import Seen, read
from proxy.ledger.recent import Recent
from proxy.ledger.store import Store
from proxy.switch import ON
from tests.ledger.filled import CANDIDATE, CONTROL, HOSTILE, NOW, configuration


@pytest.fixture(scope="module")
def seen(filled) -> Seen:
    return read(filled.config, NOW)


def test_the_primary_is_untouched_and_by_how_much(seen):
    shown = view(seen, None)["primary"]
    assert (shown["word"], shown["tone"]) == ("Yes", "good")
    assert shown["said"].startswith("1,200 requests answered")
    assert {one["name"]: one["n"] for one in shown["classes"]} == {"2xx": 1187, "3xx": 0, "4xx": 0, "5xx": 13}
    assert "13 ended in a server error (1.08 %)" in shown["said"]
    assert shown["overhead"].n == 1200
    assert [one["arm"] for one in shown["first_token"]] == ["primary", CANDIDATE, CONTROL]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"overhead": Spread(50, 0.01, 0.01, 0.02, 0.5)}, "more than it should"),
        ({"overhead": Spread(50, 1.0, None, None, 0.5)}, "1,200 requests"),
        ({"single": {"unreachable": 12, "disconnects": 0, "open_streams": 0, "waiting_bytes": 0}}, "reached 12 times"),
    ],
)
def test_a_primary_that_is_slowed_or_cut_off_is_said(seen, change, word):
    shown = view(replace(seen, **change), None)["primary"]
    assert shown["word"] == "Look here"
    assert word in shown["said"]


def test_each_candidate_has_its_verdict_in_a_sentence(seen):
    shown = view(seen, None)["agreement"]
    [one] = shown["candidates"]
    assert one["name"] == CANDIDATE
    assert one["state"] == "KEEP WATCHING"
    assert one["said"].startswith("KEEP WATCHING after 29 conversations")
    assert one["rates"] is None
    assert shown["controls"] == [CONTROL]


@pytest.mark.parametrize(
    ("states", "word"),
    [(["PASS"], "Yes"), (["FAIL"], "No"), (["PASS", "FAIL"], "Not all"), (["KEEP WATCHING", "PASS"], "Not known yet")],
)
def test_the_candidates_together_make_the_answer(seen, states, word):
    [verdict] = seen.stored.verdicts.values()
    verdicts = {f"c{number}": verdict | {"state": state} for number, state in enumerate(states)}
    shown = view(replace(seen, stored=replace(seen.stored, verdicts=verdicts)), None)["agreement"]
    assert shown["word"] == word


def test_rates_come_from_the_report_of_the_newest_records(seen):
    hazard = {"raw": 3.0, "floor": 1.0, "excess": 2.0, "interval": [0.5, 3.5]}
    free = {"hazard_per_1000_tokens": hazard, "exposed_tokens": 900, "requests": 40, "divergences": {"genuine": 2}}
    report = Recent({"shadows": [{"name": CANDIDATE, "modes": {"free": free}}]}, NOW, 40, 400)
    assert view(seen, None, report)["newest"] == {"as_of": NOW, "records": 40, "of": 400}
    rates = view(seen, None, report)["agreement"]["candidates"][0]["rates"]
    assert (rates["raw"], rates["floor"], rates["excess"], rates["interval"]) == (3.0, 1.0, 2.0, [0.5, 3.5])
    assert (rates["exposed"], rates["requests"]) == (900, 40)
    for nothing in ({}, {"raw": None}):
        free["hazard_per_1000_tokens"] = nothing
        assert view(seen, None, report)["agreement"]["candidates"][0]["rates"] is None


def test_the_newest_genuine_differences_lead_to_their_records(seen):
    gravest = seen.stored.gravest
    assert gravest[1]["id"] == HOSTILE
    assert len(gravest) == 6
    assert [one["time"] for one in gravest] == sorted((one["time"] for one in gravest), reverse=True)
    assert {one["class"] for one in gravest} == {"genuine"}
    assert gravest[2]["tokens"] == (" bent", " turned")


def test_what_is_known_is_not_among_the_newest_differences(filled, tmp_path):
    config = replace(filled.config, state=str(tmp_path))
    (tmp_path / "counters").mkdir()
    match = Match(shadow=CANDIDATE, mode="free")
    rule = checked("seen", match, "1d", "looked at", NOW)
    save(config, Rules().having(rule, NOW))
    assert {one["mode"] for one in read(config, NOW).stored.gravest if one["shadow"] == CANDIDATE} == {"forced"}
    (tmp_path / "known.json").write_text("rubbish")
    assert len(read(config, NOW).stored.gravest) == 6


def test_the_terms_of_the_law_add_up(seen):
    mirror = view(seen, None)["mirror"]
    assert mirror["received"] == mirror["not_sampled"] + mirror["sampled"] + mirror["undecided"] == 1200
    for one in mirror["arms"]:
        assert mirror["sampled"] == one["compared"] + one["incomparable_n"] + one["shed_n"] + one["in_flight"]
        assert one["in_flight"] >= 0
    assert mirror["arms"][0]["incomparable"] == [("timeout", 6)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda seen: replace(seen, judge=None), "The judge has said nothing yet"),
        (lambda seen: replace(seen, judge=replace(seen.judge, age=90.0)), "said nothing for 90 s"),
        (lambda seen: replace(seen, judge=replace(seen.judge, circuits=(CANDIDATE,))), f"{CANDIDATE} is left alone"),
        (lambda seen: replace(seen, stored=None, store_error="it is locked", store_reason="locked"), "it is locked"),
    ],
)
def test_what_is_in_the_way_is_said(seen, change, said):
    mirror = view(change(seen), None)["mirror"]
    assert mirror["word"] == "Look here"
    assert any(said in one for one in mirror["trouble"])


def test_events_are_sentences(seen):
    events = view(seen, None)["events"]
    assert [one["kind"] for one in events] == ["store_lost", "drift", "footprint_changed"]
    assert "version 0.5.22 → 0.5.23" in events[2]["said"]


def test_a_change_that_only_probes_show_is_a_sentence():
    detail = {"arm": "primary", "shift_nats": 0.0126, "flips": 3, "probes": 32}
    (one,) = happenings.view([Event(1.0, "probe_changed", detail)])
    assert one["said"] == (
        "primary answers its near-tie probes otherwise than before, on the same footprint: gaps moved by 0.0126 nat, 3 of 32 first tokens are others"
    )
    assert one["tone"] == "warn"
    (less,) = happenings.view([Event(1.0, "probe_changed", {"arm": "primary"})])
    assert less["said"] == "primary answers its near-tie probes otherwise than before"


def test_live_brings_what_is_new_and_leaves_alone_who_is_at_work(browse, admin_port, tmp_path):
    config = bare(tmp_path, Shadow("candidate", "http://c"))
    counters = Counters.create(Path(config.state) / "counters" / "i.bin")

    async def look(page):
        await page.clock.install()
        await page.goto(address)
        answered = page.locator("#q-primary ~ dl dd").first
        assert await answered.inner_text() == "0"
        counters.finished(0, 200, 0.1)
        await page.clock.run_for(11_000)
        assert await answered.inner_text() == "0"  # nobody has asked for it
        await page.click("#live")
        await expect(answered).to_have_text("1")
        assert await page.get_attribute("#live", "aria-pressed") == "true"
        await page.evaluate("document.getElementById('main').focus()")
        counters.finished(0, 200, 0.1)
        await page.clock.run_for(11_000)
        assert await answered.inner_text() == "1"
        await page.evaluate("document.activeElement.blur()")
        await page.clock.run_for(6_000)
        await expect(answered).to_have_text("2")

    try:
        with admin_port(config, clock=lambda: NOW) as address:
            browse(look)
    finally:
        counters.close()


def bare(folder: Path, *shadows: Shadow) -> Config:
    config = configuration(folder, shadows=shadows)
    return replace(config, records=Records(url=f"sqlite:///{folder}/store.db"))


@pytest.mark.parametrize("state", ["no shadow", "no store", "nothing recorded", "damaged"])
def test_an_empty_replica_says_what_to_do(browse, admin_port, tmp_path, state):
    config = bare(tmp_path, *([] if state == "no shadow" else [Shadow("candidate", "http://c")]))
    if state in ("nothing recorded", "no shadow"):
        Store.open(config.records.url).close()
    if state == "damaged":
        (tmp_path / "store.db").write_bytes(b"rubbish" * 1000)
    said = {
        "no shadow": "No shadow is configured", "no store": "There is no record store yet",
        "nothing recorded": "Nothing has been recorded yet", "damaged": "its content is damaged",
    }  # fmt: skip

    async def look(page):
        for path in ("/", "/engines", "/verdict"):
            answer = await page.goto(address + path)
            assert answer.status == 200
        await page.goto(address)
        assert said[state] in await page.inner_text("main")

    with admin_port(config, clock=lambda: NOW) as address:
        browse(look)


def test_counters_show_before_there_is_a_store(tmp_path):
    config = bare(tmp_path, Shadow("candidate", "http://c"))
    counters = Counters.create(Path(config.state) / "counters" / "i.bin")
    counters.add(Slot.RECEIVED, 3)
    counters.add(Slot.NOT_SAMPLED, 3)
    counters.finished(0, 200, 0.1)
    counters.close()
    shown = view(read(config, NOW), position(config, ON))
    assert shown["primary"]["answered"] == 1
    assert shown["mirror"]["received"] == 3
    assert shown["mirror"]["arms"] == []
    assert shown["mirror"]["store_bytes"] is None
    assert shown["switch"]["shadows"] == {"candidate": True}


@pytest.mark.parametrize(
    ("counts", "q", "value"),
    [
        ((4, 0, 0), 0.5, 0.5), ((0, 4, 0), 0.5, 1.5), ((1, 1, 0), 0.99, 1.98), ((1, 0, 9), 0.5, None), ((0, 0, 0), 0.5, None),
        ((0, 0, 5), 0.01, None), ((5, 5, 0), 0.5, 1.0),
    ],
)  # fmt: skip
def test_a_quantile_lies_on_a_straight_line_inside_its_bucket(counts, q, value):
    found = quantile((1.0, 2.0), counts, q)
    assert found == (None if value is None else pytest.approx(value))


def test_of_nothing_there_is_no_spread():
    assert spread((1.0,), (0, 0), 0.0) == Spread(0)
    assert spread((1.0,), (0, 3), 9.0) == Spread(3, 3.0, None, None, 1.0)


def test_the_last_hours_as_bars(seen):
    made = seen.stored.hours
    assert len(made) == 48
    assert made[-1].start == NOW // 3600 * 3600
    shown = hourly.view(made)
    assert shown["compared"] == sum(one.compared for one in made) == 112
    assert shown["genuine"] == sum(one.genuine for one in shown["rows"])
    assert shown["picture"].count('class="genuine"') == sum(one.genuine > 0 for one in made)
    assert shown["genuine"] <= shown["differing"] <= shown["compared"]


def test_hours_without_anything_have_no_picture():
    assert hourly.view(hourly.bars([], NOW)) is None


def test_hours_before_and_after_are_left_out(seen):
    now = int(NOW // 3600) * 3600
    made = hourly.bars(
        [(now, 10, 5, 2), (now + 3600, 9, 9, 9), (now - 48 * 3600, 9, 9, 9), (now - 47 * 3600, 1, 0, 0)], NOW
    )
    assert (made[0], made[-1]) == (hourly.Bar(now - 47 * 3600, 1, 0, 0), hourly.Bar(now, 10, 5, 2))
    assert sum(one.compared for one in made) == 11


def test_hours_are_of_replies_that_could_be_compared(filled):
    """Counted a second time from all records."""
    counted: dict[int, list[int]] = {}
    with Store.open_read_only(filled.config.records.url) as store:
        for one in store.records():
            if one.comparison.mode.value == "free" and one.comparison.incomparable is None:
                own = counted.setdefault(int(one.time // 3600) * 3600, [0, 0, 0])
                parted = one.comparison.outcome == "diverged"
                genuine = any(choice.first and choice.first.kind == "genuine" for choice in one.comparison.choices)
                own[:] = [own[0] + 1, own[1] + parted, own[2] + genuine]
        assert {start: [*rest] for start, *rest in replies(store.read)} == counted
