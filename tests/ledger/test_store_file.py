"""A file that is damaged, full, locked, missing, closed or too new: each has a name and a remedy, and nothing else is lost."""

from __future__ import annotations

import os
import sqlite3

import pytest
from msgspec.structs import replace

from proxy.ledger import schema
from proxy.ledger.batch import Written, write
from proxy.ledger.reconcile import Arm
from proxy.ledger.record import Content
from proxy.ledger.store import Key, Store
from proxy.ledger.store_error import REMEDIES, StoreError

FREE = Arm("candidate", "free")


@pytest.mark.parametrize("damage", [b"not a database, whatever it is named" * 200, b""])
def test_a_damaged_file_is_set_aside_when_opened(url, tmp_path, make, caplog, damage):
    path = tmp_path / "store.db"
    with Store.open(url) as store:
        store.settle([make.compared(make.record(number)) for number in range(200)])
    whole = path.read_bytes()
    path.write_bytes(damage or whole[:8192] + b"\xff" * (len(whole) - 8192))
    with Store.open(url) as store:
        assert store.counts() == {}
        store.settle([make.compared(make.record(1))])
    aside = [p for p in tmp_path.iterdir() if ".corrupt-" in p.name]
    assert len(aside) == 1
    assert "set aside" in caplog.text


def test_damage_found_while_settling_loses_no_batch(url, tmp_path, make, monkeypatch, caplog):
    with Store.open(url) as store:
        store.settle([make.compared(make.record(1))])
        failures = [1]

        def damaged(*batch) -> Written:
            if failures:
                failures.pop()
                error = sqlite3.DatabaseError("database disk image is malformed")
                error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise error
            return write(*batch)

        monkeypatch.setattr("proxy.ledger.store.write", damaged)
        store.settle([make.compared(make.record(2))])
        assert [one.id for one in store.records()] == ["00000002"]
        assert store.counts() == {Key(*FREE, "compared", ""): 2}
        assert [event.detail for event in store.events()] == [{"how": "damaged"}]
    assert any(".corrupt-" in p.name for p in tmp_path.iterdir())


def test_only_the_newest_damaged_files_are_kept(url, tmp_path):
    for _ in range(5):
        (tmp_path / "store.db").write_bytes(b"rubbish" * 1000)
        Store.open(url).close()
    assert len([p for p in tmp_path.iterdir() if ".corrupt-" in p.name]) == 2


def test_a_full_disk_is_said_and_keeps_the_store_whole(url, make):
    with Store.open(url) as store:
        store.settle([make.compared(make.record(1))])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="free space") as caught:
            store.settle([make.compared(make.record(number)) for number in range(2, 200)])
        assert caught.value.reason == "full"
        assert store.counts() == {Key(*FREE, "compared", ""): 1}
        store._connection.execute("PRAGMA max_page_count = 1000000")
        store.settle([make.compared(make.record(number)) for number in range(2, 200)])
        assert store.counts() == {Key(*FREE, "compared", ""): 199}


def test_a_lock_held_by_another_is_said(url, make):
    with Store.open(url, busy_seconds=0.05) as store:
        holder = sqlite3.connect(store.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as caught:
            store.settle([make.compared(make.record(1))])
        assert caught.value.reason == "locked"
        holder.execute("ROLLBACK")
        holder.close()
        store.settle([make.compared(make.record(1))])
        assert len(list(store.records())) == 1


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgres://x", "url"),
        ("sqlite:///", "url"),
        ("sqlite:////", "url"),
        ("sqlite:////nowhere/at/all.db", "cannot_open"),
    ],
)
def test_a_bad_address_is_one_clear_line(url, reason):
    with pytest.raises(StoreError) as caught:
        Store.open(url)
    assert caught.value.reason == reason
    assert REMEDIES[reason] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_not_to_be_created(url):
    for opening in (lambda: Store.open(url, create=False), lambda: Store.open_read_only(url)):
        with pytest.raises(StoreError) as caught:
            opening()
        assert caught.value.reason == "missing"


def test_a_directory_that_cannot_be_written(tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write anywhere

        def refuse(path, *_):
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError) as caught:
        Store.open(f"sqlite:///{closed}/store.db")
    assert caught.value.reason == "read_only"


def test_a_file_that_cannot_be_written(url, make, monkeypatch):
    from proxy.ledger import store_file

    Store.open(url).close()
    real = store_file._open
    monkeypatch.setattr(store_file, "_open", lambda path, mode, busy: real(path, "ro", busy))
    with pytest.raises(StoreError) as caught, Store.open(url) as store:
        store.settle([make.compared(make.record(1))])
    assert caught.value.reason == "read_only"


def test_the_file_is_its_owners_alone(store):
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_a_later_version_is_refused_and_left_alone(url):
    with Store.open(url) as store:
        store._connection.execute("UPDATE schema_version SET version = 99")
    for opening in (Store.open, Store.open_read_only):
        with pytest.raises(StoreError) as caught:
            opening(url)
        assert caught.value.reason == "newer"


def test_a_file_of_an_earlier_version_is_read_once_it_was_opened_for_writing(tmp_path, caplog):
    url = f"sqlite:///{tmp_path / 'x.db'}"
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    connection.execute("INSERT INTO schema_version VALUES (2)")
    for step in schema.MIGRATIONS[:2]:
        for statement in step:
            connection.execute(statement)
    connection.execute("INSERT INTO counts VALUES ('t0', 's', 'free', 'compared', '', 7)")
    connection.close()
    with pytest.raises(StoreError) as caught:
        Store.open_read_only(url)
    assert caught.value.reason == "older"
    assert not caplog.records
    Store.open(url).close()
    assert [one.message for one in caplog.records] == [
        "the record store is of an earlier version and is brought up to date"
    ]
    with Store.open_read_only(url) as store:
        assert (sum(store.counts().values()), store.tallies()) == (7, {})
    Store.open(url).close()
    assert len(caplog.records) == 1


def test_a_migration_that_is_killed_is_run_again(tmp_path, monkeypatch):
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    assert schema.migrate(connection) == 0
    assert schema.migrate(connection) == schema.VERSION
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE more (x)", "NOT SQL")))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection)
    assert schema.version(connection) == schema.VERSION - 1
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'more'").fetchone() is None
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS[:-1], ("CREATE TABLE more (x)",)))
    schema.migrate(connection)
    assert schema.version(connection) == schema.VERSION
    connection.close()


def test_a_migration_that_another_process_has_made_meanwhile_is_not_made_twice(tmp_path, monkeypatch):
    path = tmp_path / "x.db"
    first, second = (sqlite3.connect(path, isolation_level=None) for _ in range(2))
    schema.migrate(first)
    real, early = schema.version, [2]
    monkeypatch.setattr(schema, "version", lambda connection: early.pop() if early else real(connection))
    assert schema.migrate(second) == 2
    assert schema.version(second) == schema.VERSION
    first.close()
    second.close()


def test_what_a_connection_keeps_of_the_file_in_memory_is_bounded(url):
    with Store.open(url) as writer, Store.open_read_only(url) as reader:
        assert [store.read("PRAGMA cache_size") for store in (writer, reader)] == [[(-512,)], [(-512,)]]  # KiB


def test_what_was_purged_is_not_in_the_file_any_more(url, tmp_path, make):
    old, new = ([make.record(number, content=Content(f"{word}-{number}", (), ())) for number in numbers] for word, numbers in (("gone", range(0, 200, 2)), ("stays", range(1, 200, 2))))  # fmt: skip
    mixed = [one for pair in zip(old, new, strict=True) for one in pair]
    with Store.open(url) as store:
        assert store.read("PRAGMA secure_delete") == [(1,)]
        store.settle([make.compared(replace(one, time=1.0 if one in old else 1e9)) for one in mixed])
        assert store.purge(1e9, 3600.0, 1 << 40) == 100
    whole = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"gone-" not in whole
    assert b"stays-199" in whole
