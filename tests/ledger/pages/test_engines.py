"""The engines side by side: each fact with its origin, what differs marked, what is not known said."""

from __future__ import annotations

from msgspec.structs import replace

from proxy.compare.layers import ORDER
from proxy.ledger.pages.engines import Known, read, view
from tests.ledger.filled import CANDIDATE, CONTROL, HARM, NOW


def cells(shown, field):
    return {one["arm"]: one for row in shown["rows"] if row["field"] == field for one in row["cells"]}


def test_what_differs_from_the_primary_is_marked(filled):
    shown = view(read(filled.config))
    assert [(one["name"], one["role"]) for one in shown["arms"]] == [
        ("primary", "primary"), (CANDIDATE, "candidate"), (CONTROL, "control"),
    ]  # fmt: skip
    assert [row["field"] for row in shown["rows"] if row["differs"]] == [
        "engine", "version", "kv_cache_dtype", "attention_backend", "gpu",
    ]  # fmt: skip
    version = cells(shown, "version")
    assert [version[arm]["differs"] for arm in ("primary", CANDIDATE, CONTROL)] == [False, True, False]
    assert shown["arms"][1]["differences"] == 5
    assert shown["arms"][1]["perhaps"] == 2
    assert shown["arms"][2]["differences"] == 0


def test_a_fact_that_nobody_knows_is_no_difference(filled):
    shown = view(read(filled.config))
    driver = cells(shown, "driver")[CANDIDATE]
    assert (driver["value"], driver["origin"], driver["differs"], driver["may_differ"]) == (
        None,
        "unknown",
        False,
        True,
    )
    assert "quantization" in shown["untold"]
    assert "quantization" not in [row["field"] for row in shown["rows"]]


def test_every_fact_says_how_it_is_known(filled):
    shown = view(read(filled.config))
    assert {field: cells(shown, field)["primary"]["origin"] for field in ("engine", "gpu", "logprob_mode")} == {
        "engine": "probed", "gpu": "declared", "logprob_mode": "inferred",
    }  # fmt: skip


def test_only_differences(filled):
    shown = view(read(filled.config), only_differences=True)
    assert all(row["differs"] for row in shown["rows"])
    assert len(shown["rows"]) == 5


def test_findings_stand_by_layer_with_a_remedy_for_the_engine_at_hand(filled):
    [tools, *rest] = [one for one in view(read(filled.config))["findings"] if one["shadow"] == CANDIDATE]
    assert tools["finding"] == "tool_call_name"
    assert "--tool-call-parser" in tools["remedy"]
    names = [tools["finding"], *(one["finding"] for one in rest)]
    assert names == sorted(names, key=ORDER.index)
    assert {one["finding"]: one["count"] for one in rest}["finish_reason"] > 0


def test_what_was_seen_of_a_finding_comes_from_the_newest_records(filled):
    evidence = {"arm": "shadow", "primary": "look", "shadow": HARM[1]}
    report = {"shadows": [{"name": CANDIDATE, "findings": [{"finding": "tool_call_name", "evidence": evidence}]}]}
    found = view(read(filled.config), recent=report)["findings"]
    [tools] = [one for one in found if one["finding"] == "tool_call_name"]
    assert tools["evidence"] == evidence
    assert "look" in tools["seen"]
    assert all(not one["seen"] for one in found if one is not tools)


def test_a_change_says_what_was_and_what_is(filled):
    [change] = view(read(filled.config))["changes"]
    assert change["arm"] == CANDIDATE
    assert change["confirmed"] < change["time"] < NOW
    assert change["fields"][0] == {"field": "version", "before": "0.5.22", "after": "0.5.23"}


def test_an_engine_that_was_not_probed_is_said_to_be_so():
    shown = view(Known([("primary", "primary"), ("new", "candidate")], {}, {}, [], None))
    assert [one["known"] for one in shown["arms"]] == [False, False]
    assert shown["rows"] == []
    assert shown["findings"] is None


def test_a_level_of_another_version_is_shown_as_it_is(filled):
    known = read(filled.config)
    states = known.states | {CANDIDATE: replace(known.states[CANDIDATE], level="later")}
    arm = view(replace(known, states=states))["arms"][1]
    assert (arm["level"], arm["modes"], arm["meaning"]) == ("later", [], "")


def test_the_page_shows_it(browse, site):
    async def look(page):
        await page.goto(f"{site}/engines")
        assert await page.locator("td.differs").count() == 5
        assert "prefix caching yes" in (await page.inner_text("main")).replace("\t", " ").replace("\n", " ")
        assert HARM[0] in await page.inner_text("main")
        await page.click("text=Show only what differs")
        await page.wait_for_url("**/engines?only=differences")
        assert await page.locator("table >> nth=0 >> tbody tr").count() == 5

    browse(look)
