"""The report for pages: made elsewhere, of the newest, kept; whatever becomes of its maker, who asks is answered at once."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest

from proxy.config import Config, Records, Shadow
from proxy.ledger.aside import COMMAND, AsideError, Order, made
from proxy.ledger.aside_child import newest, recent
from proxy.ledger.recent import Making
from proxy.ledger.store import Store

T = 1_700_000_000.0


@pytest.fixture
def config(url, tmp_path):
    return Config(state=str(tmp_path), records=Records(url=url), shadows=(Shadow("candidate", "http://c:1"),))


def fill(url, make, numbers):
    with Store.open(url) as store:
        store.settle([make.compared(make.record(number)) for number in numbers])


def test_it_is_made_by_a_process_of_its_own_and_kept(config, url, make):
    fill(url, make, range(40))

    async def ask():
        making = Making(COMMAND)
        first = await making.latest(config, wait=60.0)
        again = await making.latest(config, wait=60.0)
        return first, again

    first, again = asyncio.run(ask())
    assert first is again
    assert (first.records, first.of) == (40, 40)
    assert first.report["shadows"][0]["modes"]["free"]["requests"] == 40
    assert first.report["shadows"][0]["modes"]["free"]["compared"] == 40  # by the counts


def test_nothing_is_shown_before_there_is_a_store(config):
    assert asyncio.run(Making(COMMAND).latest(config, wait=60.0)) is None


def test_only_the_newest_are_in_it_and_the_counts_are_of_all(config, url, make, monkeypatch):
    fill(url, make, range(300))
    monkeypatch.setattr("proxy.ledger.aside_child.RECORDS", 100)
    found = recent(Order(config, "report", T, newest=True))
    assert (found.records, found.of, found.report["records"]) == (100, 300, 100)
    free = found.report["shadows"][0]["modes"]["free"]
    assert (free["requests"], free["compared"]) == (100, 300)


def test_large_records_are_fewer(store, make):
    store.settle([make.compared(make.record(number)) for number in range(50)])
    (size,) = store.read("SELECT SUM(LENGTH(body)) FROM records WHERE seq > 40")[0]
    assert newest(store, 1000, size) == 10
    assert newest(store, 1000, 1) == 1
    assert newest(store, 7, size) == 7
    assert newest(store, 1000, 1 << 40) == 1000


@pytest.mark.parametrize(
    "code",
    ["import os; os.kill(os.getpid(), 9)", "raise SystemExit(1)", "print('no report')", "import time; time.sleep(600)"],
)
def test_a_maker_that_dies_or_hangs_leaves_the_last_one(config, caplog, code):
    async def ask():
        making = Making((sys.executable, "-c", code), deadline=2.0)
        making.last = last = object()
        began = time.monotonic()
        assert await making.latest(config) is last
        assert time.monotonic() - began < 1.0
        await asyncio.wait_for(making._making, 60.0)
        assert await making.latest(config) is last
        return time.monotonic() - began

    assert asyncio.run(ask()) < 30.0
    assert "cannot be made" in caplog.text


def test_the_loop_goes_on_while_one_is_made(config):
    async def ask():
        making = Making((sys.executable, "-c", "import time; time.sleep(1.5)"))
        asking = asyncio.ensure_future(making.latest(config, wait=60.0))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0.05)
            turns += 1
        assert await asking is None
        return turns

    assert asyncio.run(ask()) >= 5


@pytest.mark.parametrize("code", ["import time; time.sleep(600)", "raise SystemExit(3)"])
def test_a_report_that_is_not_made_is_an_error_in_time(config, code):
    began = time.monotonic()
    with pytest.raises(AsideError):
        asyncio.run(made(Order(config, "report", T), deadline=1.0, command=(sys.executable, "-c", code)))
    assert time.monotonic() - began < 30.0


def begun(file):
    until = time.monotonic() + 30.0
    while not file.exists() or not file.read_text():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_child_ends_with_whoever_asked(config, tmp_path):
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    async def ask():
        asking = asyncio.ensure_future(
            made(Order(config, "report", T), deadline=60.0, command=(sys.executable, "-c", code))
        )
        await asyncio.to_thread(begun, tmp_path / "pid")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(asyncio.wait_for(ask(), 60.0))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
