"""The page of one comparison: its sentence, what stands where nothing is kept, the panel with and without a script, keys, hostile texts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from msgspec.structs import replace

from proxy.compare.comparison import Comparison, Mode, RankingComparison, VectorComparison
from proxy.ledger.examples import shared
from proxy.ledger.listing import QueryError
from proxy.ledger.pages.comparison import Place, place, read, view
from proxy.ledger.pages.frame import environment
from proxy.ledger.pages.saying import REASONS, sentence
from proxy.ledger.pages.visible import visible
from proxy.ledger.record import Content
from tests.browser import accessible, tab_order
from tests.ledger.filled import HARM, HOSTILE, NOW

GREAT = 400_000  # bytes of a page, whatever is in it


def configured(filled):
    """The replica with a primary, so that there is somebody to ask again."""
    return replace(filled.config, primary=replace(filled.config.primary, url="http://vllm:8000"))


def body(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


def seen(filled, what):
    found = read(filled.config, filled.records[what], NOW)
    assert found is not None
    return found


def test_the_sentence_comes_first(filled):
    near, scored = seen(filled, "near_tie/free"), seen(filled, "genuine/forced")
    index = near.record.comparison.choices[0].first.index
    assert sentence(near.record) == (
        f"Greedy replies part at token {index}: primary says “ bent” (gap 0.031 nats to the other), sglang-h200 “ turned”: near tie."
    )
    assert "would have picked another token at 2 of 54 positions; the gravest is at token" in sentence(scored.record)
    assert sentence(seen(filled, "identical/free").record) == "Both replies are the same in all 54 tokens."
    assert sentence(seen(filled, "timeout/free").record) == "Not compared: the shadow did not answer in time."


def test_every_reason_of_the_readme_has_words():
    readme = Path("proxy/judge/README.md").read_text(encoding="utf-8")
    table = readme.split("| incomparable | because |")[1].split("\n\n")[0]
    named = {
        word
        for line in table.splitlines()[2:]
        for word in line.split("|")[1].replace("`", "").replace(",", " ").split()
    }
    assert len(named) > 30
    assert named - set(REASONS) == set()


def test_the_address_is_read_or_refused():
    assert place([("choice", "1"), ("from", "64"), ("token", "70")]) == Place(1, 64, 70)
    assert place([("token", "")]) == Place()
    for query in ([("token", "-1")], [("from", "x")], [("token", "1" * 9)], [("colour", "1")]):
        with pytest.raises(QueryError):
            place(query)


def test_the_first_difference_has_its_panel_open(filled):
    found = seen(filled, "genuine/free")
    shown = view(found, Place(), filled.config)
    at = found.record.comparison.choices[0].first.index
    assert shown["panel"]["index"] == at
    assert shown["outputs"]["inside"]
    assert {one["name"] for one in shown["findings"]} == {"output_length", "finish_reason"}
    assert len(shown["siblings"]) == 3
    assert view(found, Place(token=3), filled.config)["panel"]["index"] == 3


def test_numbers_stand_where_there_are_no_tokens(filled, site):
    found = seen(filled, "identical/free")
    vectors = Comparison(mode=Mode.FREE, vectors=(VectorComparison(0, 384, 0.0021, 0.014, (1.0, 1.0)),))
    ranking = Comparison(mode=Mode.FREE, ranking=RankingComparison("rerank", 7, (0.5, 0.1), 2, 3, 21))
    by_text = replace(
        found.record.comparison.choices[0], by_text=True, identical=False, ids=(), compared=0, first_text_difference=4
    )
    for comparison, text in (
        (vectors, "the largest cosine distance is 0.0021"),
        (ranking, "puts 7 scored items into another order"),
        (replace(found.record.comparison, choices=(by_text,)), "The texts part at character 4"),
    ):
        shown = view(
            replace(found, record=replace(found.record, comparison=comparison), detail=None), Place(), filled.config
        )
        assert text in shown["sentence"]
        page = environment().get_template("comparison.html").render(shown | BASE)
        assert ("Both texts" in page) == (comparison is not vectors and comparison is not ranking)
        assert "Traceback" not in page


def test_without_texts_the_page_says_which_setting_would_keep_them(filled):
    found = seen(filled, "near_tie/free")
    bare = replace(found, record=replace(found.record, content=None), detail=None)
    page = environment().get_template("comparison.html").render(view(bare, Place(), filled.config) | BASE)
    assert "records.content: none" in page
    assert "#1017" in page  # the second token's id
    hashed = replace(found.record.content, request="ab" * 32, primary=("cd" * 32,), shadow=("ef" * 32,))
    bare = replace(bare, record=replace(found.record, content=hashed))
    shown = view(bare, Place(), filled.config)
    assert (shown["content"], shown["asking"], shown["texts"]) == ("hash", None, None)


BASE = {
    "places": [], "path": "/divergences/x", "version": "0", "now": NOW, "may_sign_in": False, "signed_in": False, "standalone": False,
}  # fmt: skip


def test_the_commands_are_shown_as_they_are(filled):
    for what in ("near_tie/free", "genuine/forced"):
        found = seen(filled, what)
        shown = view(found, Place(), configured(filled))
        script = shown["repeat"]["shell"]
        assert script is not None
        assert "curl" in script
        assert visible(script) == script  # what is copied from the page is what bash gets
    assert (
        "what was sent is not kept"
        in view(seen(filled, "identical/free"), Place(), configured(filled))["repeat"]["why"]
    )


def test_common_is_the_longest_beginning():
    assert [shared(*pair) for pair in (("", "a"), ("ab", "ab"), ("abc", "abd"), ("xb", "yb"))] == [0, 2, 2, 0]


def test_a_choice_that_is_not_there_shows_no_text_of_another(filled):
    found = seen(filled, "genuine/free")
    told = replace(
        found, detail=None, record=replace(found.record, content=Content("{}", ("one said",), ("two said",)))
    )
    assert view(told, Place(), filled.config)["texts"]["arms"][0]["length"] == len("one said")
    assert view(told, Place(choice=99), filled.config)["texts"] is None


def test_what_is_not_there_is_not_found(site):
    for path, status in (("/divergences/nothing", "404"), (f"/divergences/{HOSTILE}?token=x", "400")):
        with pytest.raises(urllib.error.HTTPError, match=status):
            body(site + path)


@pytest.mark.parametrize("record", [HOSTILE, "hostile1free"])
def test_a_page_is_bounded_and_nothing_leaves_its_element(site, record):
    for address in (f"/divergences/{record}", f"/divergences/{record}?part=panel", f"/divergences/{record}?token=0"):
        page = body(site + address)
        assert len(page) < GREAT
        assert "<script>window" not in page
        assert "<img src=x" not in page
        assert "<svg/onload" not in page
        assert not set(page) & {"\x1b", "\x00", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028"}


def test_the_panel_alone_is_a_part_of_the_page(site, filled):
    address = f"{site}/divergences/{filled.records['near_tie/free']}"
    part, page = body(f"{address}?part=panel"), body(address)
    assert 'id="panel"' in part
    assert part.strip() in page
    assert "<html" not in part


@pytest.mark.browser
@pytest.mark.parametrize(
    ("scheme", "phone", "records"),
    [
        ("light", False, ("near_tie/free", HOSTILE)),
        ("dark", False, ("genuine/forced", "exact_tie/free")),
        ("light", True, ("near_tie/free", "timeout/free")),
    ],
)
def test_the_page_is_accessible(browse, site, filled, scheme, phone, records):
    async def look(page):
        for what in records:
            await page.goto(f"{site}/divergences/{filled.records.get(what, what)}")
            await accessible(page)

    browse(look, phone=phone, color_scheme=scheme)


@pytest.mark.browser
@pytest.mark.parametrize("phone", [False, True])
def test_what_each_engine_believed_is_seen_at_once(browse, site, filled, phone):
    async def look(page):
        await page.goto(f"{site}/divergences/{filled.records['genuine/free']}")
        for table in await page.locator("#panel .wide").all():
            assert await table.evaluate("one => one.scrollWidth <= one.clientWidth"), "a table's last column is cut"
        for arm in ("primary", "shadow"):
            name = (
                await page.locator(f"#strands .arm.{arm}")
                .nth(1)
                .evaluate("one => getComputedStyle(one, '::before').content")
            )
            assert name == (
                f'"{arm.capitalize()}"' if phone else "none"
            )  # on a phone there is no head above the columns
        if not phone:
            await page.locator("#tokens").scroll_into_view_if_needed()
            await page.evaluate("document.getElementById('tokens').scrollIntoView()")
            both = page.locator("#panel h4")
            assert await both.count() == 2
            assert (await both.nth(1).bounding_box())["y"] < 900

    browse(look, phone=phone)


@pytest.mark.browser
def test_hostile_texts_do_nothing(browse, site):
    async def look(page):
        for record in (HOSTILE, "hostile1free"):
            await page.goto(f"{site}/divergences/{record}")
            await page.hover("#t0")
            await page.focus("#t4")
            await page.wait_for_selector("#panel")
            assert await page.locator("main script, main img, main iframe, main [onerror], main [onload]").count() == 0
            assert await page.locator("main [href^='javascript:']").count() == 0
            shown = await page.inner_text("main")
            assert "<script>window.harmed = 1</script>" in shown
            assert "{{ 7 * 7 }} {% raw %}" in shown  # as it was said, not what a template makes of it

    browse(look)


async def heading(page, text):
    """Wait for the panel's heading; the policy keeps Playwright from waiting for a function."""
    await page.locator("#panel h3", has_text=text).wait_for()


@pytest.mark.browser
def test_the_panel_follows_pointer_and_keys(browse, site, filled):
    async def look(page):
        await page.goto(f"{site}/divergences/{filled.records['near_tie/free']}")
        await page.hover("#t1")
        await heading(page, "Token 1")
        await page.focus("#t1")
        await page.keyboard.press("ArrowRight")
        await heading(page, "Token 2")
        assert "9E" in await page.inner_text("#panel")
        await page.keyboard.press("ArrowDown")
        assert await page.evaluate("document.activeElement.id") == "s2"
        await page.keyboard.press("n")
        assert "near tie" in await page.evaluate("document.activeElement.getAttribute('aria-label')")
        await heading(page, "near tie")
        await page.click("#t5")
        await heading(page, "Token 5")
        await page.hover("#t6")
        await page.hover("#t0")
        await page.wait_for_timeout(300)
        await heading(page, "Token 5")  # a click keeps it
        await page.keyboard.press("Escape")
        await page.hover("#t6")
        await heading(page, "Token 6")
        assert (await page.inner_text("#said")).startswith("Token 6. ")
        await page.click("#t5")
        assert "token=5" in page.url
        await page.reload()
        assert (await page.inner_text("#panel h3")).strip() == "Token 5"
        stops = await tab_order(page)
        assert len(stops) < 60  # all tokens are one stop

    browse(look)


@pytest.mark.browser
def test_without_a_script_a_token_is_a_link_to_its_panel(browse, site, filled):
    async def look(page):
        await page.goto(f"{site}/divergences/{filled.records['genuine/forced']}")
        await page.click("#t7")
        assert (await page.inner_text("#panel h3")).strip() == "Token 7"
        assert page.url.endswith("#panel")

    browse(look, java_script_enabled=False)


@pytest.mark.browser
def test_a_screen_reader_hears_what_is_marked(browse, site, filled):
    async def look(page):
        await page.goto(f"{site}/divergences/{filled.records['exact_tie/free']}")
        tree = await page.locator("main").aria_snapshot()
        assert 'heading "Both outputs, token by token" [level=2]' in tree
        assert "exact tie" in tree
        assert 'group "Tokens of both replies"' in tree
        assert "table" in tree

    browse(look)


def test_harm_is_recoverable_from_the_record(site):
    page = body(f"{site}/api/v1/records/{HOSTILE}")
    assert HARM[0] in json.loads(page)["content"]["primary"][0]
