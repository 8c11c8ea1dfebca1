"""The list of divergences: what the address asks for, paging both ways, keys, and what is said where there is nothing."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections import Counter

import pytest
from msgspec.structs import replace

from proxy.ledger import known
from proxy.ledger.facets import facets
from proxy.ledger.listing import QueryError, brief
from proxy.ledger.pages.divergences import ROWS, address, asked, found, read, view
from proxy.ledger.query import gravest
from proxy.ledger.store import Store
from tests.browser import EVERYTHING, accessible
from tests.ledger.filled import CANDIDATE, CONTROL, HOSTILE, NOW, fill


def test_what_is_empty_was_not_asked_for():
    sought = asked([("show", ""), ("class", "genuine"), ("model", " "), ("since", "")])
    assert sought.filter.difference == "genuine"
    assert sought.filter.differing
    assert sought.filter.model is None
    assert sought.fields == {"class": "genuine"}
    assert address(sought.fields, after="a&b") == "/divergences?class=genuine&after=a%26b"


@pytest.mark.parametrize(
    "query", [[("show", "some")], [("since", "soon")], [("colour", "red")], [("after", "a"), ("before", "b")]]
)
def test_what_is_not_understood_is_refused(query):
    with pytest.raises(QueryError):
        asked(query)


def test_pages_go_on_in_both_directions_and_leave_nothing_out(filled):
    with Store.open_read_only(filled.config.records.url) as store:
        every = [one.id for one in store.records() if one.comparison.outcome != "incomparable"][::-1]
        query, seen, pages = [("show", "all")], [], []
        while True:
            page = found(store.read, asked(query))
            pages.append([one["id"] for one in page.rows])
            seen += pages[-1]
            if not page.older:
                break
            query = [("show", "all"), ("after", seen[-1])]
        assert len(pages) > 3
        assert page.newer
        assert [one for one in seen if one in set(every)] == every
        for at in range(len(pages) - 1, 0, -1):
            back = found(store.read, asked([("show", "all"), ("before", pages[at][0])]))
            assert [one["id"] for one in back.rows] == pages[at - 1]
            assert (back.newer is not None) == (at > 1)
            assert back.older


def test_few_newer_ones_are_the_beginning(filled):
    with Store.open_read_only(filled.config.records.url) as store:
        whole = found(store.read, asked([("show", "all")]))
        part = found(store.read, asked([("show", "all"), ("before", whole.rows[3]["id"])]))
        assert part.rows == whole.rows
        assert not part.newer
        assert len(whole.rows) == ROWS
        assert found(store.read, asked([("after", "gone")])).gone


def test_the_rows_are_those_of_the_api(filled):
    with Store.open_read_only(filled.config.records.url) as store:
        sought = asked([("class", "genuine"), ("shadow", CANDIDATE)])
        page = found(store.read, sought)
        shown = view(sought, page, filled.config)
        assert shown["rows"]
        for row in shown["rows"]:
            record = store.record(row["id"])
            assert record is not None
            assert row == brief(record) | {"href": f"/divergences/{record.id}", "known": []}
        assert shown["api"] == f"/api/v1/records?class=genuine&shadow={CANDIDATE}&differing=yes"


RULE = known.Rule("ties", known.Match(difference="near_tie", shadow=CANDIDATE), NOW + 60, NOW)


def test_known_differences_are_hidden_shown_or_alone(filled):
    with Store.open_read_only(filled.config.records.url) as store:

        def kinds(*query):
            page = found(store.read, asked(list(query)), [RULE])
            return {(one["class"], one["shadow"]) for one in page.rows}

        assert ("near_tie", CANDIDATE) in kinds(("known", "show"))
        assert ("near_tie", CANDIDATE) not in kinds()
        assert ("near_tie", CONTROL) in kinds()
        assert kinds(("known", "ties")) == {("near_tie", CANDIDATE)}
        assert kinds(("known", "ties"), ("class", "genuine")) == set()
        one = filled.records["genuine/free"]
        alone = known.Rule("alone", known.Match(record=one), NOW + 60, NOW)
        assert [row["id"] for row in found(store.read, asked([("known", "alone")]), [alone]).rows] == [one]
        with pytest.raises(QueryError, match="ties"):
            kinds(("known", "others"))
        page = found(store.read, asked([("known", "show")]))
        shown = view(asked([]), replace(page, rules=(RULE,)), filled.config)
        assert {bool(row["known"]) for row in shown["rows"] if row["class"] == "near_tie"} == {True, False}


def test_counts_of_the_form_are_those_of_the_records(filled):
    with Store.open_read_only(filled.config.records.url) as store:
        records = list(store.records())
        counts = facets(store.read, asked([("shadow", CANDIDATE)]).filter)
        differing = [one for one in records if gravest(one.comparison) is not None]
        mine = [one for one in differing if one.shadow == CANDIDATE]
        assert counts["difference"] == Counter(gravest(one.comparison).value for one in mine)
        assert counts["mode"] == Counter(one.comparison.mode.value for one in mine)
        assert counts["shadow"] == Counter(one.shadow for one in differing)
        assert facets(store.read, asked([("finding", "output_length")]).filter) == {}
        late = facets(store.read, asked([("since", str(NOW - 3600))]).filter)
        assert 0 < sum(late["mode"].values()) < len(differing)


def test_records_that_are_all_gone_are_not_counted(tmp_path):
    url = fill(tmp_path, exchanges=4).config.records.url
    with Store.open(url) as store:
        assert facets(store.read, asked([]).filter)["mode"]
        store.purge(NOW + 10, 0, 1 << 30)
        assert not store.read("SELECT 1 FROM records")
        assert facets(store.read, asked([]).filter) == {}


def test_rules_that_cannot_be_read_are_said_and_hide_nothing(filled, tmp_path):
    config = replace(filled.config, state=str(tmp_path))
    (tmp_path / "known.json").write_text("{")
    page = read(config, asked([]), NOW)
    assert page.rows
    assert "known.json does not say what is known" in page.trouble


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "phone"), [("light", False), ("dark", True)])
def test_the_page_is_accessible(browse, site, scheme, phone):
    rules = EVERYTHING if scheme == "light" else ("color-contrast",)

    async def look(page):
        for query in ("", "?model=none", "?show=incomparable", "?after=gone"):
            await page.goto(f"{site}/divergences{query}")
            await accessible(page, rules)

    browse(look, phone=phone, color_scheme=scheme)


@pytest.mark.browser
def test_filter_and_keys(browse, site):
    async def look(page):
        await page.goto(f"{site}/divergences")
        assert await page.locator("main a[href='/known']").is_visible()
        await page.select_option("#f-class", "near_tie")
        await page.click("text=Apply")
        await page.wait_for_url("**class=near_tie**")  # and until it has been loaded
        assert (
            await page.locator("tr[data-row] .kind").all_inner_texts()
            == ["near tie"] * await page.locator("tr[data-row]").count()
        )
        links = page.locator("tr[data-row] th a")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        assert await page.evaluate("document.activeElement.getAttribute('href')") == await links.nth(1).get_attribute(
            "href"
        )
        await page.keyboard.press("k")
        target = await links.nth(0).get_attribute("href")
        await page.focus("#f-model")
        await page.keyboard.type("jk")
        assert await page.input_value("#f-model") == "jk"
        await links.nth(0).focus()
        assert await page.evaluate("document.activeElement.getAttribute('href')") == target

    browse(look)


@pytest.mark.browser
def test_texts_of_models_are_inert_in_the_list(browse, site):
    async def look(page):
        await page.goto(f"{site}/divergences")
        assert await page.locator(f"a[href='/divergences/{HOSTILE}']").count() == 1
        assert "‹U+202E›" in await page.inner_text("main")
        assert await page.locator("main script, main img, main svg").count() == 0

    browse(look)


def test_a_page_stays_small_whatever_tokens_are(site):
    with urllib.request.urlopen(f"{site}/divergences") as answer:
        assert len(answer.read()) < 300_000
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"{site}/divergences?colour=red")
