"""Marking differences as known: what the form offers and asks, the page of rules, and the whole way in a real browser."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from msgspec.structs import replace

from proxy.ledger import known_file
from proxy.ledger.known import KnownError, Match, Rule, Rules
from proxy.ledger.pages.marking import asked, offer, view
from proxy.ledger.store import Store
from tests.browser import accessible
from tests.ledger.filled import CANDIDATE, HARM, HOSTILE, NOW, fill

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A replica of its own, for its rules are changed."""
    return fill(tmp_path_factory.mktemp("marked"), exchanges=16, admin_token=TOKEN)


def test_the_form_offers_what_the_record_has(filled):
    with Store.open_read_only(filled.config.records.url) as store:
        record = store.record(filled.records["genuine/free"])
        hostile = store.record(HOSTILE)
    assert record is not None
    assert hostile is not None
    shown = offer(record)
    assert shown["name"] == f"genuine-output_length-{CANDIDATE}"
    assert [one["column"] for one in shown["match"] if one["chosen"]] == ["class", "finding", "shadow", "model"]
    bare = replace(
        record, comparison=replace(record.comparison, findings=())
    )  # its class alone would hide every genuine one
    assert [one["column"] for one in offer(bare)["match"] if one["chosen"]] == ["id"]
    assert offer(bare)["name"] == f"genuine-{record.shadow}-{record.id[:8]}"
    assert "model" not in [one["column"] for one in offer(hostile)["match"]]  # it has control characters
    assert offer(replace(record, shadow=f"{'x' * 90} {HARM[0]}"))["name"].isascii()


def test_a_form_becomes_a_rule_or_is_refused():
    sent = {"name": " ties ", "class": "exact_tie", "id": "r1", "days": "7", "reason": "kernel"}
    assert asked(sent, NOW) == Rule("ties", Match(difference="exact_tie", record="r1"), NOW + 7 * 86_400, NOW, "kernel")
    for wrong, word in (
        ({"days": "91"}, "days"),
        ({"days": "x"}, "days"),
        ({"name": "a b"}, "name"),
        ({"class": "", "id": ""}, "match"),
    ):
        with pytest.raises(KnownError, match=word):
            asked(sent | wrong, NOW)


def test_rules_in_force_stand_first_and_those_that_end_next_on_top():
    rules = Rules(
        tuple(
            Rule(name, Match(mode="free"), NOW + end, NOW - 99)
            for name, end in (("late", 9), ("gone", -1), ("soon", 3))
        )
    )
    assert [(one["name"], one["in_force"]) for one in view(rules, NOW)["rules"]] == [
        ("soon", True),
        ("late", True),
        ("gone", False),
    ]


def test_the_api_hides_what_is_known_when_asked_to(admin_port, own, tmp_path):
    config = replace(own.config, state=str(tmp_path))
    rule = Rule("ties", Match(difference="exact_tie"), NOW + 60, NOW)
    known_file.save(config, Rules((rule, Rule("over", Match(difference="near_tie"), NOW - 1, NOW - 9))))
    with admin_port(config, clock=lambda: NOW) as address:

        def classes(query):
            with urllib.request.urlopen(f"{address}/api/v1/records?limit=500{query}", timeout=30) as answer:
                return {one["class"] for one in json.load(answer)["records"]}

        assert "exact_tie" in classes("")
        assert classes("") - classes("&known=hide") == {"exact_tie"}
        assert classes("&known=show") == classes("")
        for query, status in (("&known=maybe", "400"), ("&known=hide&known=show", "400")):
            with pytest.raises(urllib.error.HTTPError, match=status):
                classes(query)
        (tmp_path / "known.json").write_text("[")
        assert "exact_tie" in classes("")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            classes("&known=hide")


@pytest.mark.browser
def test_a_difference_is_marked_and_the_rule_taken_away(browse, admin_port, own):
    record = own.records["exact_tie/free"]

    async def look(page):
        await page.goto(f"{address}/login?next=/divergences/{record}")
        await page.fill("#token", TOKEN)
        await page.click("main button")
        await page.wait_for_url(f"**/divergences/{record}")
        await page.click("text=Make a rule for differences")
        await accessible(page)
        await page.fill("#k-reason", HARM[0])
        await page.click("main button:has-text('Mark as known')")
        await page.wait_for_url(f"{address}/known")
        assert HARM[0] in await page.inner_text("main")
        await accessible(page)
        await page.goto(f"{address}/divergences/{record}")
        assert "known: exact_tie" in await page.inner_text("main")
        await page.goto(f"{address}/divergences?class=exact_tie")
        assert await page.locator(f"a[href='/divergences/{record}']").count() == 0
        await page.select_option("#f-known", "show")
        await page.click("text=Apply")
        await page.wait_for_url("**known=show**")
        assert await page.locator(f"a[href='/divergences/{record}']").count() == 1
        assert "known: exact_tie" in await page.inner_text("#list")
        await page.goto(f"{address}/known")
        await page.click("text=Remove")
        await page.get_by_text("There is no rule.").wait_for()

    with admin_port(own.config, clock=lambda: NOW) as address:
        browse(look)


@pytest.mark.browser
def test_a_wrong_rule_is_told_and_without_the_token_nothing_changes(browse, admin_port, own):
    record = own.records["exact_tie/free"]

    async def look(page):
        await page.goto(f"{address}/divergences/{record}")
        await page.click("text=Make a rule for differences")
        assert "sign in" in await page.inner_text("#mark ~ details")
        await page.click("main button:has-text('Mark as known')")
        await page.wait_for_url("**/login?next=%2Fknown")
        await page.fill("#token", TOKEN)
        await page.click("main button")
        await page.get_by_text("There is no rule.").wait_for()
        await page.goto(f"{address}/divergences/{record}")
        await page.click("text=Make a rule for differences")
        await page.fill("#k-name", "not a name")
        await page.click("main button:has-text('Mark as known')")
        await page.get_by_text("name: give up to 63 letters").wait_for()

    with admin_port(own.config, clock=lambda: NOW) as address:
        browse(look, expected=("400 (Bad Request)",))
