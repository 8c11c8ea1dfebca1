"""The page of the verdict: the sums' numbers at once, all others of the newest records and said to be; the JSON is the same."""

from __future__ import annotations

import html
import json
import urllib.request

import pytest
from msgspec.structs import replace

from proxy.config import Shadow
from proxy.ledger import aside_child
from proxy.ledger.aside import Order
from proxy.ledger.pages.frame import environment
from proxy.ledger.pages.verdict import facts, read, view
from tests.ledger.filled import CANDIDATE, CONTROL, HARM, NOW, configuration
from tests.ledger.page_numbers import Numbers


@pytest.fixture(scope="module")
def recent(filled):
    """The report over the newest records."""
    return aside_child.recent(Order(filled.config, "report", NOW, newest=True))


def page(values) -> Numbers:
    """The page's own part, read."""
    base = {"places": [], "path": "/verdict", "version": "1", "now": NOW, "may_sign_in": False, "signed_in": False}
    return Numbers(environment().get_template("verdict.html").render({**base, **values}))


def test_numbers_are_those_of_the_report(filled, recent):
    found = read(filled.config)
    [one] = facts(found, recent)["candidates"]
    reported = next(shadow["verdict"] for shadow in recent.report["shadows"] if shadow["name"] == CANDIDATE)
    assert one["verdict"] == reported
    last = one["verdict"]["over_time"][-1]
    assert {key: reported[key] for key in ("log_e_fail", "log_e_pass", "conversations")}.items() <= last.items()
    shown = page(view(found, recent))
    assert shown.found["/verdict/log_e_fail"] == repr(reported["log_e_fail"])
    headline = next(one["modes"]["free"]["headline"] for one in recent.report["shadows"] if one["name"] == CANDIDATE)
    for name, numbers in headline.items():
        assert shown.found[f"/modes/free/headline/{name}/raw"] == repr(numbers["raw"])
    assert f"newest {recent.records} of {recent.of} records" in " ".join(shown.text.split())
    assert one["said"] in shown.text


def test_before_there_is_a_report_the_verdict_is_there(filled):
    shown = page(view(read(filled.config), None))
    assert "are being worked out" in shown.text
    assert "Conversations, each counted once" in shown.text
    assert "Floor and excess" not in shown.text


def test_a_candidate_of_which_nothing_is_known(tmp_path):
    config = configuration(tmp_path)
    shown = view(read(config), None)
    assert [one["to_do"] for one in shown["candidates"]] == [
        "Send traffic through the proxy; every conversation counts once."
    ]
    assert "No conversation has been counted" in page(shown).text
    assert "There is no candidate" in page(view(read(replace(config, shadows=())), None)).text


def test_several_candidates_without_a_control_and_with_harmful_names(filled, recent):
    names = (HARM[0], HARM[1])
    config = replace(filled.config, shadows=tuple(Shadow(name, "http://x") for name in names))
    shown = page(view(read(config), recent))
    assert all(str(given.get("src")).startswith("/static/") for tag, given in shown.tags if tag in ("img", "script"))
    assert "There is no control" in shown.text
    assert "<script>window.harmed" in shown.text
    assert CONTROL not in shown.text


def test_the_port_answers_page_and_json(site):
    with urllib.request.urlopen(f"{site}/verdict", timeout=30) as answer:
        text = answer.read().decode()
        assert "style-src 'self'" in answer.headers["Content-Security-Policy"]
    assert not any("style" in given for _, given in Numbers(text).tags)
    what_differs = f"/divergences?class=genuine&shadow={CANDIDATE}"
    assert f'href="{html.escape(what_differs)}"' in text
    with urllib.request.urlopen(f"{site}{what_differs}", timeout=30) as answer:
        assert "data-row" in answer.read().decode()
    with urllib.request.urlopen(f"{site}/api/v1/verdict", timeout=30) as answer:
        told = json.loads(answer.read())
    assert told["schema"] == "parhelion.verdict/1"
    assert [one["name"] for one in told["candidates"]] == [CANDIDATE]
