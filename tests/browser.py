"""A real browser for tests: Debian's Chromium, one a process, driven from a thread of its own.

``browse(steps, ...)`` opens a fresh window, runs ``async def steps(page)`` in it and fails when the page complained: an error on the console, a script that threw, something that
the content policy refused, a request to anywhere but loopback. ``accessible(page)`` runs axe-core and looks for horizontal scrolling; ``phone=True`` gives a window 360 pixels wide.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from playwright.async_api import Browser, BrowserContext, Page, Route, async_playwright

from proxy.config import Config
from proxy.ledger.admin import make_admin
from proxy.ledger.admin_server import listen
from tests import programs

SECONDS = 60.0
_AXE = ("axe", "axe-core@4.10.3")
EVERYTHING = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
Steps = Callable[[Page], Awaitable[None]]


class Thread:
    """An event loop in a thread of its own: tests have their own loops, and Playwright's would be in their way."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Awaitable[Any], seconds: float = SECONDS) -> Any:
        """Wait for something that runs there."""

        async def bounded() -> Any:
            return await asyncio.wait_for(work, seconds)

        future: Future[Any] = asyncio.run_coroutine_threadsafe(bounded(), self.loop)
        return future.result(seconds + 30)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()


class Browse:
    """See the module. ``seen`` of the last call: what the page complained of."""

    def __init__(self, thread: Thread, browser: Browser) -> None:
        self._thread, self._browser = thread, browser

    def __call__(self, steps: Steps, *, expected: tuple[str, ...] = (), phone: bool = False, **options: Any) -> None:
        """Run the steps; complaints that contain one of ``expected`` are none. ``options``: of Playwright's ``new_context``."""
        seen = self._thread.run(self._visit(steps, phone, options))
        assert [one for one in seen if not any(part in one for part in expected)] == []

    async def _visit(self, steps: Steps, phone: bool, options: Mapping[str, Any]) -> list[str]:
        size = {"width": 360, "height": 740} if phone else {"width": 1280, "height": 900}
        context = await self._browser.new_context(**({"viewport": size} | dict(options)))
        seen: list[str] = []
        try:
            await context.route("**/*", _loopback_alone(seen))
            page = await context.new_page()
            page.set_default_timeout(20_000)
            page.on("pageerror", lambda error: seen.append(f"script: {error}"))
            page.on("console", lambda said: seen.append(said.text) if said.type in ("error", "warning") else None)
            page.on("dialog", lambda dialog: seen.append(f"dialog: {dialog.message}"))
            await steps(page)
            assert await page.evaluate("window.harmed") is None, "a text of a model ran as a script"
        finally:
            await _close(context)
        return seen


async def _close(context: BrowserContext) -> None:
    await context.unroute_all(behavior="ignoreErrors")
    await context.close()


def _loopback_alone(seen: list[str]) -> Callable[[Route], Awaitable[None]]:
    async def route(one: Route) -> None:
        address = urlsplit(one.request.url)
        if address.scheme in ("data", "file", "blob") or address.hostname in ("127.0.0.1", "localhost"):
            await one.continue_()
        else:
            seen.append(f"asked {address.hostname}")
            await one.abort()

    return route


@cache
def _axe() -> str:
    folder = programs.need(programs.node, *_AXE)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


async def accessible(page: Page, rules: tuple[str, ...] = EVERYTHING) -> None:
    """Fail for what axe-core finds wrong, and where a page is wider than its window.

    ``rules``: tags or names of axe's rules; all of WCAG 2.2 A and AA and best practice take seconds a page, ``color-contrast`` alone is enough where only colours are others.
    """
    axe = await asyncio.to_thread(_axe)
    await page.evaluate(axe)
    found = await page.evaluate("rules => axe.run({runOnly: rules})", list(rules))
    wrong = [
        f"{one['id']}: {one['help']}: {node['html'][:200]} {node['any'][:1] and node['any'][0]['message']}"
        for one in found["violations"]
        for node in one["nodes"][:3]
    ]
    assert wrong == []
    await fits(page)


async def fits(page: Page) -> None:
    """Fail where a page is wider than its window."""
    wide = await page.evaluate(
        """() => document.documentElement.scrollWidth <= window.innerWidth ? [] :
             [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > window.innerWidth + 1)
               .slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""
    )
    assert wide == []


async def tab_order(page: Page, most: int = 200) -> list[str]:
    """Press Tab from the top to the end; the name of each stop."""
    stops: list[str] = []
    for _ in range(most):
        await page.keyboard.press("Tab")
        stop = await page.evaluate(
            """() => { const e = document.activeElement; return e === document.body ? null :
                 (e.getAttribute('aria-label') || e.textContent || e.id || e.name).trim().slice(0, 40) }"""
        )
        if stop is None:
            break
        stops.append(stop)
    return stops


@pytest.fixture(scope="session")
def thread() -> Iterator[Thread]:
    """The browser's thread, and that of admin ports it visits."""
    made = Thread()
    yield made
    made.close()


@pytest.fixture(scope="session")
def browse(thread: Thread) -> Iterator[Browse]:
    """One browser for the whole process."""
    chromium = programs.need(programs.debian, "chromium", "chromium")

    async def start() -> tuple[Any, Browser]:
        playwright = await async_playwright().start()
        arguments = ["--disable-dev-shm-usage", "--disable-gpu"]
        browser = await playwright.chromium.launch(
            executable_path=str(chromium), args=arguments, chromium_sandbox=os.geteuid() != 0
        )
        return playwright, browser

    playwright, browser = thread.run(start(), 120)
    yield Browse(thread, browser)
    thread.run(browser.close())
    thread.run(playwright.stop())


@pytest.fixture(scope="session")
def admin_port(thread: Thread) -> Callable[..., Any]:
    """``with admin_port(config, ...) as address``: an admin port over such files; further arguments are those of ``make_admin``."""

    @contextmanager
    def serve(config: Config, **more: Any) -> Iterator[str]:
        async def start() -> Any:
            application: web.Application = make_admin(config, **({"ready": lambda: True} | more))
            return await listen(application, "127.0.0.1", 0)

        server = thread.run(start())
        try:
            yield f"http://{server.address}"
        finally:
            thread.run(server.close())

    return serve
