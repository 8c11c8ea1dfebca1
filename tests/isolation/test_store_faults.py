"""Row 6: a store that is locked, on a full or read-only disk, or on a slow one: no client notices, and what could not be kept is counted as shed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation.stage import Sick, arms, sick
from tests.isolation.trial import Figure, Trial
from tests.running import parhelion


@pytest.fixture
def stage(
    primary: Sick, bare: ProxyProcess, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Trial]:
    """A proxy all of whose files, log included, are on the disk that can fall ill."""
    order, folder = tmp_path / "order", tmp_path / "disk"
    order.write_text("", encoding="ascii")
    folder.mkdir()
    with sick() as shadow, ExitStack() as stack:
        with monkeypatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(disk))
            patch.setenv("SICK_DISK_PATH", str(folder))
            patch.setenv("SICK_DISK_ORDER", str(order))
            proxy = stack.enter_context(parhelion(folder, primary.url, arms(shadow.url), limits={"in_flight": 16}))
        stack.callback(order.write_text, "")
        proxy.wait_known(["primary", "cand"], 30)
        yield Trial(proxy, bare, order, primary)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "readonly"])
def test_a_disk_that_takes_nothing(how: str, stage: Trial, figure: Figure) -> None:
    stage.load(1)
    stage.order(how)
    stage.load(8)
    stage.order("")
    stage.load(1)
    ended = stage.over(figure, "row 6", how)
    assert ended["shed:store"] > 0
    assert ended["compared"] > 0
    assert ended.keys() <= {"compared", "shed:store"}


@pytest.mark.slow
def test_a_disk_that_syncs_slowly(stage: Trial, figure: Figure) -> None:
    stage.order("slow 1500")
    stage.load()
    stage.order("")
    assert stage.over(figure, "row 6", "slow fsync") == {"compared": stage.received}


@pytest.mark.slow
def test_a_store_that_another_process_has_locked(stage: Trial, figure: Figure) -> None:
    stage.load(1)
    with sqlite3.connect(stage.proxy.config.parent / "records.db", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        stage.load(8)
        time.sleep(max(0.0, 7.0 - (time.monotonic() - began)))  # longer than the judge waits for a lock
        other.execute("ROLLBACK")
    other.close()
    stage.load(1)
    ended = stage.over(figure, "row 6", "locked")
    assert ended["shed:store"] > 0
    assert ended.keys() <= {"compared", "shed:store"}
