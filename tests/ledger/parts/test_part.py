"""What parts are made of: numbers with their place, dashes for what is not known, the sentence of what to do."""

from __future__ import annotations

import math

import pytest

from proxy.ledger.parts import judged, measured, replies, stacks
from proxy.ledger.parts.part import At, data, form_of, interval
from tests.ledger.page_numbers import at

REPORT = {"a/b": [{"c~d": 0.1, "e": None, "f": math.nan, "g": "\x1b<b>", "h": [1.0, None]}], "n": 12345}


def test_a_number_says_where_it_stands():
    found = At(REPORT)["a/b"][0]["c~d"]
    assert found.pointer == "/a~1b/0/c~0d"
    assert at(REPORT, found.pointer) == 0.1
    assert data(found) == '<data value="0.1" data-of="/a~1b/0/c~0d">0.1</data>'


def test_what_is_not_known_is_a_dash_all_the_way_down():
    one = At(REPORT)["a/b"][0]
    for missing in (one["e"], one["f"], one["e"]["x"][3]["y"], At(REPORT)["a/b"][7], At(REPORT)["n"]["x"]):
        assert data(missing) == "–"
    assert interval(one["e"]) == "–"
    assert interval(one["h"]) == '<data value="1.0" data-of="/a~1b/0/h/0">1</data> to –'
    assert list(one["nothing"]) == []
    assert one["nothing"].names() == []


def test_a_text_is_made_visible():
    assert data(At(REPORT)["a/b"][0]["g"]) == '<data value="␛&lt;b&gt;" data-of="/a~1b/0/g">␛&lt;b&gt;</data>'


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("identical_share", 0.25, "25 %"), ("correlation", 0.999987, "0.99999"), ("correlation", 0.5, "0.5"), ("k3_nats", 0.00125, "0.00125")],
)  # fmt: skip
def test_a_number_is_written_as_what_it_is(name, value, shown):
    assert form_of(name)(value) == shown


def shadow(state: str, **fields: object) -> dict[str, object]:
    verdict = {
        "state": state,
        "alpha": 0.01,
        "log_e_pass": 0.0,
        "conversations": 9,
        "conversations_needed": None,
        "tally": {"missing": 0},
    }
    return {"name": "c", "findings": [], "verdict": verdict | fields}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (shadow("PASS"), "You can migrate"),
        (shadow("FAIL"), "Look at the worst examples"),
        (shadow("FAIL") | {"findings": [{"severity": "explains"}]}, "Begin with the findings"),
        (shadow("KEEP WATCHING", conversations=0), "Send traffic"),
        (shadow("KEEP WATCHING", log_e_pass=5.0, tally={"missing": 7}), "why results are missing"),
        (shadow("KEEP WATCHING", conversations_needed=1200), "About 1,200 more conversations"),
        (shadow("KEEP WATCHING"), "Nobody can say yet"),
    ],
)
def test_what_to_do_follows_from_the_verdict(given, said):
    assert said in judged.to_do(given)


@pytest.mark.parametrize(
    "part",
    [measured.floor_and_excess, stacks.findings, replies.outputs, replies.lengths, replies.latency, lambda one: measured.values(one, None)],
)  # fmt: skip
def test_every_part_says_that_there_is_nothing(part):
    found = part(At({"name": "c", "role": "candidate", "modes": {}, "findings": [], "latency": {}}))
    assert (found.said, found.charts, found.tables) == ((), (), ())
    assert found.empty


def arm(**free: object) -> dict[str, object]:
    error = {"median": 0.01, "p90": 0.1, "p99": 0.2, "max": 0.3, "mean": 0.02, "count": 9}
    block = {
        "requests": 3,
        "divergences": {"genuine": 1, "near_tie": 0, "exact_tie": 0, "unknown": 0},
        "logprob_error_nats": error,
    }
    return {"name": "c", "role": "candidate", "modes": {"free": block | free}}  # fmt: skip


def test_a_row_of_all_numbers_says_what_it_is_of_and_is_left_out_where_no_arm_has_it():
    [table] = measured.everything({"shadows": [arm()]})
    cells = {row[0]: row[1] for row in table.rows}
    assert len(cells) == len(table.rows)
    assert (cells["divergences: genuine"], cells["logprob error: p99"], cells["logprob error: max"]) == (
        "1",
        "0.2",
        "0.3",
    )
    assert not any(one.startswith(("tools", "embeddings", "rerank")) for one in cells)
    assert "–" not in cells.values()


def test_many_numbers_without_an_interval_are_counted_and_few_are_named():
    lacking = {"raw": 1.0, "n": 4, "no_interval": {"interval": "few_conversations"}}
    blocks = {f"k{number}_nats": lacking for number in range(7)}
    for names, said in ((7, "7 of the 7 numbers (a dash in the table)."), (2, "k0 nats, k1 nats.")):
        shown = dict(list(blocks.items())[:names])
        part = measured.floor_and_excess(At({"modes": {"free": {"headline": shown}}}))
        assert [str(line) for line in part.said] == [
            f"free: no interval of the excess, for fewer than 10 conversations: {said}"
        ]


def test_what_to_do_says_nothing_of_what_its_page_has_not():
    assert judged.to_do(shadow("FAIL")) == (
        "Do not migrate yet. Look at the worst examples, and at what differs between the stacks. A changed stack is judged anew, by itself."
    )


def test_the_primary_alone_having_times_is_explained():
    times = {"median": 0.1, "p90": 0.2, "p99": 0.3, "max": 0.4, "mean": 0.1, "count": 4}
    alone = {"latency": {"time_to_first_token_seconds": {"primary": times}}}
    both = {"latency": {"time_to_first_token_seconds": {"primary": times, "shadow": times}}}
    assert "not asked to stream" in str(replies.latency(At(alone)).said[0])
    assert replies.latency(At(both)).said == ()
