"""Lists: what is found is what a look at every record finds, page by page, in both directions, by indexes alone."""

from __future__ import annotations

import random
import sqlite3

import pytest
from msgspec.structs import replace

from proxy.compare.comparison import FlipClass, Mode
from proxy.ledger.listing import brief, shown
from proxy.ledger.query import Filter, gravest
from proxy.ledger.record import Record
from proxy.ledger.search import search
from proxy.ledger.store import Store

T = 1_700_000_000.0
FINDINGS = ("stop_handling", "bos_twice", "usage_tokens")


def varied(make, number: int, random: random.Random, models: int = 4) -> Record:
    kind = random.choice([None, None, None, *FlipClass])
    comparison = make.free() if kind is None else make.free(kind)
    if random.random() < 0.1:
        comparison = replace(make.free(), incomparable="sampled", choices=())
    findings = tuple(one for one in FINDINGS if random.random() < 0.1)
    return make.record(
        number,
        replace(comparison, mode=random.choice(list(Mode)), findings=findings),
        time=T + number * 60 + random.random() * 7200,  # settled late, and not in order
        shadow=random.choice(["candidate", "control"]),
        model=f"m{random.randrange(models)}",
        endpoint=random.choice(["chat_completions", "completions"]),
        exchange=f"x{number // 4}",
    )


@pytest.fixture(scope="module", params=[4, 90])
def many(request, make, tmp_path_factory):
    """A store, and what is in it in the order of its settling. With 90 models most are ``other``."""
    source = random.Random(request.param)
    records = [varied(make, number, source, request.param) for number in range(400)]
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('many')}/store.db") as store:
        for at in range(0, len(records), 100):
            store.settle([make.compared(one) for one in records[at : at + 100]])
        yield store, records


def fits(record: Record, wanted: Filter) -> bool:
    comparison = record.comparison
    kind = gravest(comparison)
    asked = {
        "shadow": record.shadow,
        "mode": comparison.mode.value,
        "model": record.model,
        "endpoint": record.endpoint,
        "outcome": comparison.outcome,
        "difference": kind.value if kind else "",
        "exchange": record.exchange,
    }
    return (
        all(getattr(wanted, name) in (None, value) for name, value in asked.items())
        and (wanted.finding is None or wanted.finding in comparison.findings)
        and (wanted.since is None or record.time >= wanted.since)
        and (wanted.until is None or record.time < wanted.until)
        and (not wanted.differing or kind is not None or comparison.outcome == "diverged")
    )


def hides(one: dict[str, str], record: Record) -> bool:
    kind = gravest(record.comparison)
    own = {
        "id": record.id, "shadow": record.shadow, "mode": record.comparison.mode.value, "model": record.model,
        "endpoint": record.endpoint, "outcome": record.comparison.outcome, "class": kind.value if kind else "",
    }  # fmt: skip
    return all(
        value in record.comparison.findings if name == "finding" else own[name] == value for name, value in one.items()
    )


ASKED = [
    {},
    {"shadow": "control"},
    {"difference": "genuine", "model": "m1"},
    {"finding": "bos_twice"},
    {"finding": "bos_twice", "mode": "forced", "shadow": "candidate"},
    {"outcome": "incomparable", "endpoint": "completions"},
    {"differing": True},
    {"model": "m3"},
    {"model": "m80"},
    {"model": "never", "shadow": "control"},
    {"since": T + 20_000.0},
    {"until": T + 9_000.0, "differing": True},
    {"since": T + 20_000.5, "until": T + 24_000.0, "mode": "free"},
    {"since": T + 1e9},
    {"exchange": "x17"},
    {"exchange": "x18", "mode": "free", "finding": "bos_twice"},
    {"exchange": "x19", "since": T + 2_000.0, "difference": "genuine"},
]  # fmt: skip
HIDDEN = [
    [],
    [{"class": "near_tie"}],
    [{"finding": "stop_handling", "shadow": "candidate"}, {"class": "genuine", "model": "m1"}, {"id": "00000010"}],
]  # fmt: skip


@pytest.mark.parametrize(("looks", "newest_first"), [(40, True), (20_000, True), (20_000, False)])
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("asked", ASKED)
def test_pages_together_are_what_every_record_says(many, asked, hidden, newest_first, looks):
    store, records = many
    wanted = Filter(**asked, newest_first=newest_first, limit=37)
    expected = [one.id for one in records if fits(one, wanted) and not any(hides(rule, one) for rule in hidden)]
    if newest_first:
        expected.reverse()
    seen: list[str] = []
    for _ in range(400):
        page = search(store.read, wanted, hidden, looks=looks)
        assert len(page.rows) <= 37
        assert page.searched_to is None or len(page.rows) < 37 or looks == 40
        seen += [row.summary.id for row in page.rows]
        if page.next is None:
            break
        wanted = replace(wanted, after=page.next)
    assert seen == expected


def test_a_row_says_what_its_record_says(many):
    store, records = many
    page = search(store.read, Filter(limit=900))
    assert [shown(row) for row in page.rows] == [brief(one) for one in records]


def test_a_row_without_its_summary_is_read_off_its_record(store, make):
    store.settle([make.compared(make.record(number, make.free(FlipClass.GENUINE))) for number in range(3)])
    whole = [shown(row) for row in search(store.read, Filter()).rows]
    store._connection.execute("UPDATE listed SET summary = NULL WHERE seq < 3")
    assert [shown(row) for row in search(store.read, Filter()).rows] == whole


@pytest.mark.parametrize("damaged", [b"\xc1", b"", b"\x90", "text", 7])
def test_a_damaged_row_costs_no_list(store, make, damaged):
    record = varied(make, 1, random.Random(2))
    store.settle([make.compared(record)])
    before = search(store.read, Filter()).rows
    with sqlite3.connect(store.path) as beside:
        beside.execute("UPDATE listed SET summary = ?", (damaged,))
    assert search(store.read, Filter()).rows == before


def test_what_is_gone_cannot_be_gone_on_from(many):
    store, _ = many
    with pytest.raises(KeyError):
        search(store.read, Filter(after="gone"))


def test_only_the_newest_are_searched_where_that_is_asked(many):
    store, records = many
    found = search(store.read, Filter(newest=50, limit=100))
    assert [row.summary.id for row in found.rows] == [one.id for one in records[-50:]]
    assert [one.id for one in store.records(Filter(newest=50))] == [one.id for one in records[-50:]]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_no_list_scans_a_table_of_records(many, asked, hidden):
    store, _ = many
    plans: list[str] = []

    def explained(statement: str, values):
        if "FROM kinds" not in statement:
            plans.extend(row[3] for row in store.read(f"EXPLAIN QUERY PLAN {statement}", values))
        return store.read(statement, values)

    search(explained, Filter(**asked, newest_first=True, limit=20), hidden)
    scans = [plan for plan in plans if plan.startswith("SCAN") and not plan.startswith("SCAN CONSTANT")]
    assert scans == [], scans
    assert not any("TEMP B-TREE FOR ORDER BY" in plan for plan in plans)
