"""Signing in with a real browser: by form, from a link on another site, out again; the kill switch on the way."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from proxy.config import Records, Shadow
from proxy.ledger.store import Store
from proxy.switch import Switch
from tests.browser import accessible
from tests.ledger.filled import configuration
from tests.ledger.pages.test_entrance import TOKEN, Replica

pytestmark = pytest.mark.browser


@pytest.fixture
def replica(tmp_path):
    config = configuration(tmp_path, shadows=(Shadow("candidate", "http://c"),), admin_token=TOKEN)
    Store.open(config.records.url).close()
    return Replica(replace(config, records=Records(url=config.records.url)))


@pytest.fixture
def address(replica, admin_port):
    with admin_port(replica.config, clock=lambda: replica.now, operation=replica) as address:
        yield address


def test_a_change_asks_for_the_token_once_a_session(browse, address, replica):
    async def steps(page):
        await page.goto(address)
        await page.click("text=Stop all mirroring")
        await page.wait_for_url("**/login?next=%2F")
        await page.fill("#token", "wrong")
        await page.click("main button")
        assert "not the token" in await page.inner_text("[role=alert]")
        await accessible(page)
        await page.fill("#token", TOKEN)
        await page.click("main button")
        await page.wait_for_url(f"{address}/")
        assert replica.switch == Switch()  # what was asked before signing in was not done
        await page.click("text=Stop all mirroring")
        await page.wait_for_selector("text=Start mirroring")
        assert replica.switch == Switch(enabled=False)
        assert await page.evaluate("document.cookie") == ""
        await page.click("text=Sign out")
        await page.wait_for_selector("text=Sign in")
        await page.click("text=Start mirroring")
        await page.wait_for_url("**/login**")
        assert replica.switch == Switch(enabled=False)

    browse(steps, expected=("401 (Unauthorized)",))


def test_a_link_on_another_site_finds_the_session(browse, address, replica):
    """``localhost`` and ``127.0.0.1`` are two sites, and both are this machine's names."""
    replica.config = replace(replica.config, admin="0.0.0.0:1")

    async def steps(page):
        await page.goto(f"{address}/login?next=/engines")
        await page.fill("#token", TOKEN)
        await page.click("main button")
        await page.wait_for_url("**/engines")
        await page.goto(address.replace("127.0.0.1", "localhost") + "/login")
        await page.evaluate("to => { location.href = to }", f"{address}/engines?only=differences")
        await page.wait_for_url(f"{address}/engines?only=differences")
        assert await page.inner_text("h1") == "Engines"

    browse(steps)
