"""The HTML report: every number is the JSON report's, foreign text is inert, every section has its empty state; a real browser reads it."""

from __future__ import annotations

import json
import re
import stat
from typing import Any

import pytest

from proxy.config import Config
from proxy.ledger.examples import MOST, shared, worst
from proxy.ledger.export import export_jsonl
from proxy.ledger.html_report import render_html, write_html
from proxy.ledger.report import build_report
from proxy.ledger.sources import open_ledgers
from proxy.ledger.store import Store
from tests.browser import accessible, fits
from tests.ledger import agreement
from tests.ledger.filled import CANDIDATE, HARM, NOW
from tests.ledger.filled import fill as _fill
from tests.ledger.page_numbers import Numbers, same_as


def leaves(value: Any, way: str) -> list[str]:
    if isinstance(value, dict):
        return [one for key in value for one in leaves(value[key], f"{way}/{key}")]
    if isinstance(value, list):
        return [one for key, each in enumerate(value) for one in leaves(each, f"{way}/{key}")]
    return [way] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The report of a replica in which much has happened, and its HTML."""
    filled = _fill(tmp_path_factory.mktemp("report"))
    with open_ledgers(filled.config) as found:
        report = build_report(filled.config, found.store, found.terms, command="report", now=NOW)
        examples = worst(found.store, [CANDIDATE], texts=True)
    report = json.loads(json.dumps(report))
    return report, render_html(report, examples, content="text"), examples


def test_every_number_is_the_reports(made):
    report, text, _ = made
    assert same_as(report, text) > 300


def test_what_an_independent_script_makes_of_the_export_is_the_same(made, tmp_path):
    filled = _fill(tmp_path)
    with Store.open_read_only(filled.config.records.url) as store:
        export_jsonl(store.records(), tmp_path / "export.jsonl")
    assert agreement.check_headlines(made[0], tmp_path / "export.jsonl") > 150


def test_headline_numbers_verdict_and_counts_are_all_there(made):
    report, text, _ = made
    numbers = Numbers(text).found
    wanted = leaves(report["requests"], "/requests") + leaves(
        report["primary"]["tokens_source"], "/primary/tokens_source"
    )
    for place, shadow in enumerate(report["shadows"]):
        way = f"/shadows/{place}"
        for mode, block in shadow["modes"].items():
            wanted += leaves(
                {key: block[key] for key in ("compared", "in_flight", "shed", "incomparable")}, f"{way}/modes/{mode}"
            )
            if shadow["role"] == "candidate":
                headline = {
                    name: {
                        key: value
                        for key, value in one.items()
                        if key not in ("floor_conversations", "is_kl", "left_out")
                    }
                    for name, one in block["headline"].items()
                }
                wanted += leaves(headline, f"{way}/modes/{mode}/headline")
        if "verdict" in shadow:
            shown = {
                key: value
                for key, value in shadow["verdict"].items()
                if key not in ("alpha", "margin", "over_time", "earlier")
            }
            wanted += leaves(shown, f"{way}/verdict")
            wanted += [f"{way}/findings/{number}/count" for number in range(len(shadow["findings"]))]
    assert len(wanted) > 250
    assert sorted(set(wanted) - numbers.keys()) == []


def test_what_is_of_earlier_stacks_is_said_and_in_no_number(made):
    report, text, _ = made
    place, shadow = next((number, one) for number, one in enumerate(report["shadows"]) if one["earlier"])
    numbers = Numbers(text)
    assert "of another pair of stacks and in none of the numbers here" in numbers.text
    for mode, block in shadow["earlier"][0]["modes"].items():
        assert numbers.found[f"/shadows/{place}/earlier/0/modes/{mode}/requests"] == repr(block["requests"])


def test_the_verdict_comes_first_and_in_words(made):
    report, text, _ = made
    said = Numbers(text).text
    verdict = next(one["verdict"] for one in report["shadows"] if "verdict" in one)
    assert f"{CANDIDATE}: {verdict['state']}" in said
    assert said.index(verdict["state"]) < said.index("What to do") < said.index("Floor and excess")
    assert f"after {verdict['conversations']} conversations" in said


def test_nothing_in_it_runs_or_asks(made):
    _, text, examples = made
    assert any(one.record.startswith("hostile") for one in examples)
    parsed = Numbers(text)
    assert {tag for tag, _ in parsed.tags} & {
        "script",
        "img",
        "iframe",
        "link",
        "object",
        "form",
        "base",
        "image",
        "use",
    } == set()
    for _, attributes in parsed.tags:
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
        assert not (attributes.get("href") or "#").startswith(("javascript", "http", "//"))
    policy = next(one["content"] for _, one in parsed.tags if one.get("http-equiv") == "Content-Security-Policy")
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\u200b]", text)


def test_what_would_harm_is_shown_as_text(made):
    report, _, examples = made
    hostile = json.loads(json.dumps(report).replace(CANDIDATE, "HARM"))
    for one in hostile["shadows"]:
        one["name"] = HARM[0] + HARM[1] if one["name"] == "HARM" else one["name"]
    hostile["models"] = {HARM[2]: 4}
    parsed = Numbers(render_html(hostile, examples))
    assert "<script>window.harmed" in parsed.text
    assert {tag for tag, _ in parsed.tags} & {"script", "img", "svg/onload"} == set()
    assert "\x1b" not in parsed.text
    assert "\u202e" not in parsed.text


def test_of_nothing_every_section_says_so(tmp_path):
    config = Config(state=str(tmp_path))
    text = render_html(json.loads(json.dumps(build_report(config, None, command="report", now=NOW))))
    said = Numbers(text).text
    assert "There is no candidate to judge" in said
    assert "Nothing has been compared yet" in said


def test_of_a_candidate_that_was_never_compared_too(made, tmp_path):
    _report, _, _ = made
    config = Config(state=str(tmp_path), shadows=_fill(tmp_path, exchanges=0, hostile=False).config.shadows)
    text = render_html(json.loads(json.dumps(build_report(config, None, command="report", now=NOW))))
    said = Numbers(text).text
    for empty in (
        "No conversation has been counted",
        "Nothing has been compared yet",
        "No reply could be followed",
        "The engines have not been probed yet",
        "There is no example",
        "Nothing was streamed",
    ):
        assert empty in said, empty


def test_several_candidates_have_a_summary_and_a_part_each(made):
    report, _, examples = made
    second = {**next(one for one in report["shadows"] if one["role"] == "candidate"), "name": "another"}
    text = render_html({**report, "shadows": [*report["shadows"], second]}, examples)
    parsed = Numbers(text)
    assert "All candidates" in parsed.text
    assert [one["id"] for _, one in parsed.tags if str(one.get("id", "")).startswith("candidate-")] == [
        "candidate-1",
        "candidate-2",
    ]


def test_examples_are_the_gravest_one_an_exchange(made):
    _, _, examples = made
    assert 0 < len(examples) <= MOST
    gaps = [one.flip.gap for one in examples]
    assert gaps == sorted(gaps, reverse=True)
    assert len({one.exchange for one in examples}) == len(examples)
    assert all(one.flip.kind == "genuine" for one in examples)
    free = next(one for one in examples if one.mode == "free" and not one.record.startswith("hostile"))
    assert free.text is not None
    assert free.text.primary.startswith("bent")
    assert free.text.shadow.startswith("turned")


def test_without_texts_there_is_none_and_it_is_said_what_would_show_them(made, tmp_path):
    report, _, _ = made
    filled = _fill(tmp_path)
    with Store.open_read_only(filled.config.records.url) as store:
        examples = worst(store, [CANDIDATE], texts=False)
    assert all(one.text is None for one in examples)
    assert "records.content: hash" in Numbers(render_html(report, examples, content="hash")).text


def test_texts_share_what_they_share():
    assert shared("abcde", "abXde") == 2
    assert shared("", "a") == 0
    assert shared("same", "same") == 4


def test_the_file_is_its_owners_and_whole(tmp_path):
    file = tmp_path / "report.html"
    write_html(file, "<p>one</p>")
    write_html(file, "<p>\ud800two</p>")
    assert file.read_text() == "<p>\\ud800two</p>"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(OSError, match="No such file"):
        write_html(tmp_path / "none" / "report.html", "")


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_reads_it_alone(made, browse, tmp_path, scheme):
    file = tmp_path / "report.html"
    write_html(file, made[1])

    async def steps(page):
        asked = []
        page.on("request", lambda one: asked.append(one.url))
        await page.goto(file.as_uri())
        await accessible(page)
        assert asked == [file.as_uri()]
        ink = await page.evaluate("getComputedStyle(document.body).color")
        back = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, back)]
        assert (light[0] > light[1]) == (scheme == "dark")
        assert len(await page.pdf()) > 10_000

    browse(steps, color_scheme=scheme)


@pytest.mark.browser
def test_a_phone_shows_all_of_it(made, browse, tmp_path):
    file = tmp_path / "report.html"
    write_html(file, made[1])

    async def steps(page):
        await page.goto(file.as_uri())
        await fits(page)

    browse(steps, phone=True)
