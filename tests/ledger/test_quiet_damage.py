"""Damage that SQLite does not see: rows that hold something else than what was written. It costs what it hit and no page beside it, and is said."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from proxy.config import Config
from proxy.ledger.admin import HEADERS, make_admin
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError
from tests.ledger import filled

RECORD = "000000cafr"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return filled.fill(tmp_path_factory.mktemp("whole"), exchanges=8).config


@pytest.fixture
def damaged(whole: Config, tmp_path: Path):
    def damage(statement: str) -> Config:
        path = tmp_path / "store.db"
        shutil.copy(whole.records.url.removeprefix("sqlite:///"), path)
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
        return replace(whole, records=replace(whole.records, url=f"sqlite:///{path}"))

    return damage


def got(config: Config, *paths: str) -> list[tuple[int, str, str]]:
    async def ask() -> list[tuple[int, str, str]]:
        found = []
        async with TestClient(TestServer(make_admin(config, ready=lambda: True, clock=lambda: filled.NOW))) as client:
            for path in paths:
                async with client.get(path) as response:
                    assert HEADERS.keys() <= response.headers.keys()
                    found.append((response.status, response.content_type, await response.text()))
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE footprints SET body = '{'",
        "UPDATE footprints SET body = '[1]'",
        "UPDATE events SET detail = 'x'",
        "UPDATE events SET detail = '[]'",
        "UPDATE events SET time = 'x'",
        "UPDATE events SET time = 1e300",
        "UPDATE listed SET time = 'x'",
        "UPDATE listed SET time = 1e300",
        "UPDATE listed SET summary = x'c1'",
        "UPDATE details SET body = x'00'",
    ],
)
def test_a_row_that_says_nothing_costs_no_page(damaged, statement: str) -> None:
    pages = got(damaged(statement), "/", "/divergences?show=all", f"/divergences/{RECORD}", "/engines", "/verdict")
    assert [status for status, _, _ in pages] == [200] * 5


def test_what_cannot_be_shown_is_said_as_a_page_or_as_json_and_in_the_log(
    damaged, caplog: pytest.LogCaptureFixture
) -> None:
    page, data = got(damaged("UPDATE tallies SET n = -5"), "/verdict", "/api/v1/verdict")
    assert page[:2] == (500, "text/html")
    assert data[:2] == (500, "application/json")
    assert "damaged" in page[2]
    assert "damaged" in data[2]
    assert "answer_failed" in caplog.text


@pytest.mark.parametrize("statement", ["UPDATE tallies SET result = 'zz'", "UPDATE tallies SET n = 'x'"])
def test_sums_that_cannot_be_read_are_set_aside_with_their_file(damaged, statement: str) -> None:
    url = damaged(statement).records.url
    path = Path(url.removeprefix("sqlite:///"))
    with Store.open(url) as store:
        assert store.tallies() == {}
        assert store.record(RECORD) is None
    assert [one.suffix for one in path.parent.glob("store.db.corrupt-*") if not one.name.endswith(("-wal", "-shm"))]


@pytest.mark.parametrize("statement", ["DELETE FROM schema_version", "UPDATE schema_version SET version = 'x'", "UPDATE schema_version SET version = -7"])  # fmt: skip
def test_a_file_with_no_version_of_ours_is_left_alone(damaged, statement: str) -> None:
    url = damaged(statement).records.url
    path = Path(url.removeprefix("sqlite:///"))
    for opened in (Store.open, Store.open_read_only):
        with pytest.raises(StoreError, match="is this a record store"):
            opened(url)
    assert not [*path.parent.glob("*.corrupt-*")]
