"""The frame of all pages, in a real browser: what it lets run, how it reads without a mouse, in the dark, on a phone."""

from __future__ import annotations

import pytest

from proxy.ledger.admin import make_admin
from proxy.ledger.endpoint import ENDPOINTS
from tests.browser import accessible, fits, tab_order
from tests.ledger.filled import HOSTILE

pytestmark = pytest.mark.browser
#: By the path in the table of pages: what is looked at.
PAGES = {
    "/": ("/",),
    "/api": ("/api",),
    "/login": ("/login",),
    "/engines": ("/engines",),
    "/divergences": ("/divergences", "/divergences?known=show"),
    "/divergences/{id}": (f"/divergences/{HOSTILE}", "/divergences/nothing"),
    "/known": ("/known",),
    "/verdict": ("/verdict",),
}
#: Tested for accessibility where they are made.
ELSEWHERE = {"/divergences", "/divergences/{id}", "/verdict"}


@pytest.fixture(scope="module")
def there(filled):
    """The paths of all pages."""
    endpoints = make_admin(filled.config, ready=lambda: True)[ENDPOINTS]
    return {one.path for one in endpoints if one.markup and one.method == "GET"}


def test_every_page_is_looked_at(there):
    assert there <= PAGES.keys()


def test_every_page_is_accessible(browse, site, there):
    async def look(page):
        for path in there - ELSEWHERE:
            for address in PAGES[path]:
                await page.goto(site + address)
                await accessible(page)

    browse(look, color_scheme="light")


def test_every_page_is_readable_in_the_dark_on_a_phone_and_harmless(browse, site, there):
    """On each stands what is hostile: had it run, ``window.harmed`` were there."""

    async def look(page):
        for path in there:
            for address in PAGES[path]:
                await page.goto(site + address)
                await (fits(page) if path in ELSEWHERE else accessible(page, ("color-contrast",)))
                assert await page.evaluate("window.harmed") is None, address

    browse(look, phone=True, color_scheme="dark", expected=("404 (Not Found)",))


def test_the_keyboard_reaches_everything_in_order(browse, site):
    async def look(page):
        await page.goto(site + "/")
        stops = await tab_order(page)
        assert stops[:3] == ["Skip to the content", "Parhelion", "Overview"]
        assert stops[-1] == "Addresses and API"

    browse(look)


def test_the_theme_is_kept(browse, site):
    async def look(page):
        await page.goto(site + "/")
        light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        for word in ("light", "dark"):
            await page.click("#theme")
            assert await page.inner_text("#theme") == f"Theme: {word}"
        await page.goto(site + "/api")
        assert await page.inner_text("#theme") == "Theme: dark"
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != light

    browse(look, color_scheme="light")


def test_nothing_inline_runs_or_styles(browse, site):
    async def look(page):
        await page.goto(site + "/")
        await page.evaluate(
            """() => { document.body.insertAdjacentHTML('beforeend',
                 '<p id="mark" style="position: fixed">x</p><img src=x onerror="window.ran = 1">');
                 const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script) }"""
        )
        assert await page.evaluate("window.ran") is None
        assert await page.evaluate("getComputedStyle(document.getElementById('mark')).position") == "static"

    refused = ("Content Security Policy", "404 (Not Found)")
    browse(look, expected=refused)


def test_without_javascript_a_page_is_whole(browse, site):
    async def look(page):
        await page.goto(site + "/")
        assert await page.inner_text("h1") == "Overview"
        assert not await page.is_visible("#theme")

    browse(look, java_script_enabled=False)
