"""A file that goes away while the judge runs: noticed, said once, begun anew; counts are kept, and what is handed in meanwhile is not lost silently."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.ledger import store as store_module
from proxy.ledger.reconcile import Arm
from proxy.ledger.record import Settlement, shed_of
from proxy.ledger.store import Key, Store
from proxy.ledger.store_error import StoreError

FREE = Arm("candidate", "free")
COMPARED = Key(*FREE, "compared", "")


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_LOOK_EVERY", 0.0)


def beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]


def delete(path: Path) -> None:
    for one in beside(path):
        one.unlink()


def delete_alone(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xa5" * path.stat().st_size)


def replace_by_rubbish(path: Path) -> None:
    delete(path)
    path.write_bytes(b"hello" * 1000)


def replace_by_a_store(path: Path) -> None:
    delete(path)
    Store.open(f"sqlite:///{path}").close()


def copy_another_over(path: Path) -> None:
    other = path.with_name("other.db")
    Store.open(f"sqlite:///{other}").close()
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(other.read_bytes())


def delete_journal(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


LOSSES: list[tuple[Callable[[Path], None], str]] = [
    (delete, "deleted"),
    (delete_alone, "deleted"),
    (truncate, "truncated"),
    (shorten, "truncated"),
    (overwrite, "overwritten"),
    (replace_by_rubbish, "replaced"),
    (replace_by_a_store, "replaced"),
    (copy_another_over, "overwritten"),
    (delete_journal, "journal"),
]


@pytest.mark.parametrize(("lose", "how"), LOSSES, ids=[lose.__name__ for lose, _ in LOSSES])
def test_a_lost_file_costs_its_records_and_no_count(url, make, caplog, lose, how):
    with Store.open(url) as store:
        store.reconcile({"i0": 2}, [FREE])
        store.settle([make.compared(make.record(number)) for number in range(20)], state={"noise": b"learned"})
        store.put_footprint("f1", {"engine": "vllm"}, 1.0)
        store.purge(0.0, keep=1e12, max_bytes=1 << 40)  # all of it is in the file proper
        lose(store.path)
        with caplog.at_level(logging.INFO, "parhelion.store"):
            store.settle([make.compared(make.record(number)) for number in range(20, 25)])
            store.settle([make.compared(make.record(25)), Settlement("i1", *FREE, "shed", "busy")])
        assert caplog.text.count("the record store was lost under way") == 1
        expected = {COMPARED: 26, Key(*FREE, "shed", "busy"): 1, Key(*FREE, "shed", "store_replaced"): 2}
        assert store.counts() == expected
        assert store.settled("i1") == {FREE: 27}
        with Store.open_read_only(url) as reader:  # what everybody else sees
            assert reader.counts() == expected
            ids = [int(one.id, 16) for one in reader.records()]
            assert ids[-6:] == list(range(20, 26))
            assert reader.footprint("f1") == {"engine": "vllm"}
            assert reader.get_state("noise") == b"learned"
            assert [(event.kind, event.detail) for event in reader.events()] == [("store_lost", {"how": how})]
        assert store.reconcile({"i0": 2, "i1": 28}, [FREE]) == {("i1", FREE): 1}
        assert store.counts()[Key(*FREE, "shed", "lost_on_crash")] == 1
    with Store.open(url) as store:
        assert store.counts()[COMPARED] == 26


def test_what_was_committed_unseen_before_the_look_is_counted_too(url, make, monkeypatch):
    monkeypatch.setattr(store_module, "_LOOK_EVERY", 3600.0)
    with Store.open(url) as store:
        store.settle([make.compared(make.record(1))])
        delete(store.path)
        store.settle([make.compared(make.record(2))])  # into the deleted file
        store._look_at = 0.0
        store.settle([make.compared(make.record(3))])
        assert store.counts() == {COMPARED: 3}
        assert [one.id for one in store.records()] == ["00000003"]


def test_an_older_backup_put_back_is_used_and_loses_no_count(url, tmp_path, make):
    with Store.open(url) as store:
        store.settle([make.compared(make.record(1))])
        store.purge(0.0, keep=1e12, max_bytes=1 << 40)
        backup = tmp_path / "backup.db"
        shutil.copy(store.path, backup)
        store.settle([make.compared(make.record(2))])
        delete(store.path)
        backup.rename(store.path)
        store.settle([make.compared(make.record(3))])
        assert store.counts() == {COMPARED: 3}
        assert [one.id for one in store.records()] == ["00000001", "00000003"]


def test_a_directory_that_is_gone_is_said_and_waited_for(tmp_path, make, caplog):
    home = tmp_path / "db"
    home.mkdir()
    url = f"sqlite:///{home}/store.db"
    with Store.open(url) as store:
        store.settle([make.compared(make.record(1))])
        shutil.rmtree(home)
        owed: list[Settlement] = []
        for number in (2, 3):
            batch = [make.compared(make.record(number))]
            with pytest.raises(StoreError, match=r"no such directory.*check records\.url") as caught:
                store.settle(batch)
            assert caught.value.reason == "cannot_open"
            owed += shed_of(batch)
        for reading in (store.counts, store.used_bytes, lambda: store.get_state("x")):
            with pytest.raises(StoreError, match="it was deleted"):
                reading()
        with pytest.raises(StoreError, match="no such directory"):
            store.over(1)
        assert caplog.text.count("the record store was lost under way") == 1
        home.mkdir()
        store.check()
        assert store.counts() == {COMPARED: 1}
        store.settle([*owed, make.compared(make.record(4))])
        assert store.counts() == {COMPARED: 2, Key(*FREE, "shed", "store"): 2}
        assert "begun anew" in caplog.text


def test_an_untouched_file_is_left_alone_whatever_others_do_with_it(url, make, caplog):
    with Store.open(url) as store:
        for number in range(30):
            store.settle([make.compared(make.record(number * 50 + one)) for one in range(50)])
            if number % 10 == 5:
                store.purge(0.0, keep=1e12, max_bytes=200_000)
            if number % 10 == 7:
                other = sqlite3.connect(store.path)
                other.execute("VACUUM")
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                other.close()
            with Store.open_read_only(url) as reader:
                assert reader.counts() == {COMPARED: 50 * (number + 1)}
        assert store.counts() == {COMPARED: 1500}
        assert store.events() == []
    assert "lost" not in caplog.text


def test_a_closed_store_says_so(url, make):
    store = Store.open(url)
    store.close()
    with pytest.raises(StoreError, match="it is closed"):
        store.settle([make.compared(make.record(1))])
    store.check()
    assert not list(Path(store.path.parent).glob("*-wal"))
