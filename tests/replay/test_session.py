"""Engines that fail while a replay runs: tried again, counted, or left for when it goes on; never waited for without end."""

from __future__ import annotations

import asyncio
import fcntl
import json
import stat
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proxy.app.flags import engine_flags
from proxy.config import Config
from proxy.config_load import load
from proxy.ledger.record import Settlement
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError
from proxy.replay.accounts import report
from proxy.replay.line import TrafficError
from proxy.replay.plan import Wanted
from proxy.replay.session import Choices, Session, opened, told
from proxy.replay.traffic import Traffic, open_traffic
from tests.replay.replaying import engines, put, requests, timeless
from tests.replay.test_traffic import lines

COUNT = 60
NOISE = {"candidate": 0.05, "control": 0.01, "primary": 0.0}
CHOICES = Choices(concurrency=4, pauses=(0.05, 0.1, 0.2), ready=20.0)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Three engines by name."""
    with engines(tmp_path_factory.mktemp("engines")) as flags:
        yield {"primary": flags[1], "candidate": flags[3].partition("=")[2], "control": flags[5]}


@pytest.fixture
def traffic(tmp_path: Path) -> Iterator[Traffic]:
    """A file of chats."""
    found = open_traffic(requests(tmp_path / "a.jsonl", COUNT))
    yield found
    found.close()


@pytest.fixture(scope="module")
def whole(urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a replay that nothing disturbed."""
    directory = tmp_path_factory.mktemp("whole")
    traffic = open_traffic(requests(directory / "a.jsonl", COUNT))
    with opened(configured(urls), traffic, CHOICES, directory / "whole.db", fresh=False) as session:
        asyncio.run(running(session))
        found = said(session)
    traffic.close()
    return found


def configured(urls: dict[str, str]) -> Config:
    given = engine_flags(urls["primary"], [f"candidate={urls['candidate']}"], urls["control"])
    return load(None, {}, given | {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "records": {"content": "text"}})


def script(name: str, **faults: Any) -> dict[str, Any]:
    return {"differences": {"noise": NOISE[name]}} | ({"faults": faults} if faults else {})


async def running(session: Session, when: int = 0, what: Any = None) -> None:
    """Run it; ``what`` is done once ``when`` requests are settled."""
    async with asyncio.timeout(60):
        work = asyncio.get_running_loop().create_task(session.run())
        while what is not None and session.course.settled < when and not work.done():
            await asyncio.wait([work], timeout=0.01)
        if what is not None:
            await asyncio.to_thread(what)
        await work


def said(session: Session) -> dict[str, Any]:
    with Store.open_read_only(session.config.records.url) as store:
        return report(
            session.config, store, received=COUNT, planned=COUNT, command="", now=time.time(), told=told(session)
        )


def test_what_fails_for_a_moment_is_tried_again(urls: dict[str, str], traffic: Traffic, tmp_path: Path) -> None:
    for number, name in enumerate(("primary", "candidate")):
        with opened(
            configured(urls),
            traffic,
            replace(CHOICES, rate=100.0, pauses=(0.1, 1.0, 2.0, 4.0)),
            tmp_path / f"{number}.db",
            fresh=False,
        ) as session:
            fault = script(name, kind="status", status=503, times=6)
            asyncio.run(running(session, 10, lambda name=name, fault=fault: put(urls[name], fault)))
            put(urls[name], script(name))
            assert (session.course.settled, session.course.ended) == (COUNT, "")
            assert session.course.retried > 0
            for shadow in said(session)["shadows"]:
                for mode in shadow["modes"].values():
                    assert (mode["requests"], mode["incomparable"], mode["shed"]) == (COUNT, {}, {})


@pytest.mark.parametrize("name", ["primary", "candidate"])
def test_an_engine_that_is_gone_ends_it_and_nothing_is_lost(
    urls: dict[str, str], traffic: Traffic, tmp_path: Path, whole: dict[str, Any], name: str
) -> None:
    choices = replace(CHOICES, rate=100.0)
    with opened(configured(urls), traffic, choices, tmp_path / "gone.db", fresh=False) as session:
        fault = script(name, kind="status", status=503)
        asyncio.run(running(session, 20, lambda: put(urls[name], fault)))
        put(urls[name], script(name))
        assert session.course.ended == f"{name} does not answer any more: see to it, then run the same command again"
        assert 20 <= session.course.settled < COUNT
        assert all(mode["shed"] == {} for one in said(session)["shadows"] for mode in one["modes"].values())
    with opened(configured(urls), traffic, choices, tmp_path / "gone.db", fresh=False) as session:
        assert 20 <= session.before < COUNT
        asyncio.run(running(session))
        assert timeless(said(session)) == timeless(whole)


def test_an_engine_that_never_was_there(urls: dict[str, str], traffic: Traffic, tmp_path: Path) -> None:
    nobody = configured(urls | {"control": "http://127.0.0.1:9"})
    with opened(nobody, traffic, replace(CHOICES, ready=0.5), tmp_path / "a.db", fresh=False) as session:
        with pytest.raises(
            TrafficError, match=r"^control: not there, or no engine we know, for 0 s; `parhelion check`"
        ):
            asyncio.run(running(session))
        assert session.course.settled == 0


def test_a_spent_budget_ends_it(urls: dict[str, str], traffic: Traffic, tmp_path: Path) -> None:
    config = configured(urls)
    config = replace(config, limits=replace(config.limits, tokens_per_day=400))
    with opened(config, traffic, CHOICES, tmp_path / "a.db", fresh=False) as session:
        asyncio.run(running(session))
        assert session.course.ended.startswith("limits.tokens_per_day is spent")
        assert 0 < session.course.settled < COUNT
        assert all(mode["shed"] == {} for one in said(session)["shadows"] for mode in one["modes"].values())


def test_a_store_is_one_replay_s_alone(
    urls: dict[str, str], traffic: Traffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.db"
    with (
        opened(configured(urls), traffic, CHOICES, out, fresh=False),
        pytest.raises(TrafficError, match="another replay is writing it"),
        opened(configured(urls), traffic, CHOICES, out, fresh=False),
    ):
        pass
    assert not (tmp_path / "a.db.lock").exists()
    with monkeypatch.context() as patched:  # one that ends between our opening of the lock and our taking it
        taken = fcntl.flock
        patched.setattr(fcntl, "flock", lambda *given: ((tmp_path / "a.db.lock").unlink(), taken(*given)))
        with (
            pytest.raises(TrafficError, match="another replay is writing it"),
            opened(configured(urls), traffic, CHOICES, out, fresh=False),
        ):
            pass
    with (
        pytest.raises(TrafficError, match=r"a\.db is of another replay: the options that choose requests differ"),
        opened(configured(urls), traffic, replace(CHOICES, wanted=Wanted(limit=5)), out, fresh=False),
    ):
        pass
    with opened(configured(urls), traffic, replace(CHOICES, wanted=Wanted(limit=5)), out, fresh=True) as session:
        assert (session.before, session.course.planned) == (0, 5)
    for name, data in (("some.txt", b"of mine"), ("some.db", b"SQLite format 3\0 or what is left of it")):
        foreign = tmp_path / name
        foreign.write_bytes(data)
        _refused_as_foreign(urls, traffic, foreign, f"{name} is no store of a replay, and is left as it is")
    live = tmp_path / "live.db"
    with Store.open(f"sqlite:///{live}") as store:
        store.settle([Settlement("x", "candidate", "free", "shed", "queue_full")])
    _refused_as_foreign(urls, traffic, live, "holds records that are of no replay")
    (tmp_path / "empty.db").touch()  # as one that was killed at its first moment leaves it
    with opened(configured(urls), traffic, CHOICES, tmp_path / "empty.db", fresh=False) as session:
        assert session.before == 0
    with (
        pytest.raises(TrafficError, match="cannot be written: No such file or directory"),
        opened(configured(urls), traffic, CHOICES, tmp_path / "none" / "a.db", fresh=False),
    ):
        pass


def test_a_store_that_fails_ends_it_and_what_it_could_not_take_is_asked_again(
    urls: dict[str, str], traffic: Traffic, tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, settle = [], Store.settle

    def full(store: Store, batch: Any, **state: Any) -> Any:
        taken.append(len(batch))
        if sum(taken) > 200:
            raise StoreError("full", store.path)
        return settle(store, batch, **state)

    with opened(configured(urls), traffic, CHOICES, tmp_path / "a.db", fresh=False) as session:
        monkeypatch.setattr(Store, "settle", full)
        asyncio.run(running(session))
        monkeypatch.undo()
        assert session.course.ended.startswith("the store cannot be written")
    with opened(configured(urls), traffic, CHOICES, tmp_path / "a.db", fresh=False) as session:
        assert 0 < session.before < COUNT
        asyncio.run(running(session))
        assert timeless(said(session)) == timeless(whole)


def test_no_content_of_a_file_chooses_whom_to_ask_or_leaves_anything_there(
    urls: dict[str, str], tmp_path: Path
) -> None:
    file = requests(
        tmp_path / "a.jsonl", 4, api_base="http://elsewhere.invalid", api_key="sk-in-the-file", user="somebody",
        store=True, metadata={"a": "b"}, extra_headers={"authorization": "x"},
    )  # fmt: skip
    traffic = open_traffic(file)
    with opened(configured(urls), traffic, CHOICES, tmp_path / "a.db", fresh=False) as session:
        asyncio.run(running(session))
        assert session.course.settled == 4
    traffic.close()
    for url in urls.values():
        with urllib.request.urlopen(f"{url}/scripted/requests", timeout=30) as reply:
            bodies = [one for one in json.loads(reply.read()) if "Question 3, about halos." in json.dumps(one)]
        assert bodies
        for word in ("elsewhere", "sk-in-the-file", "somebody", "store", "metadata", "extra_headers"):
            assert word not in json.dumps(bodies[-1])
    kept = b"".join(one.read_bytes() for one in tmp_path.glob("a.db*"))
    assert b"sk-in-the-file" not in kept
    assert stat.S_IMODE((tmp_path / "a.db").stat().st_mode) == 0o600


def _refused_as_foreign(urls: dict[str, str], traffic: Traffic, out: Path, says: str) -> None:
    """A file that is no replay's is refused, and neither thrown away nor set aside."""
    before = sorted(out.parent.iterdir()), out.read_bytes()
    for fresh in (False, True):
        with pytest.raises(TrafficError, match=says), opened(configured(urls), traffic, CHOICES, out, fresh=fresh):
            pass
    assert (
        sorted(one for one in out.parent.iterdir() if one.suffix not in {".db-wal", ".db-shm"}),
        out.read_bytes(),
    ) == before


def test_recorded_faults_are_not_waited_for(urls: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    refused = {"status_code": 503, "body": {"error": {"message": "overloaded"}}}
    file.write_bytes(lines(*({"request": {"model": "toy", "messages": [{"role": "user", "content": str(n)}]}, "response": refused} for n in range(8))))  # fmt: skip
    traffic = open_traffic(file)
    choices = replace(CHOICES, recorded=True, pauses=(60.0,))
    with opened(configured(urls), traffic, choices, tmp_path / "a.db", fresh=False) as session:
        asyncio.run(running(session))
        assert (session.course.settled, session.course.retried, session.course.ended) == (8, 0, "")
        with Store.open_read_only(session.config.records.url) as store:
            ends = {(key.outcome, key.reason): n for key, n in store.counts().items() if key.mode == "free"}
        assert ends == {("incomparable", "primary_error"): 8}
    traffic.close()


def test_a_file_that_changes_under_way_ends_it(urls: dict[str, str], tmp_path: Path) -> None:
    file = requests(tmp_path / "a.jsonl", COUNT)
    traffic = open_traffic(file)
    with opened(configured(urls), traffic, replace(CHOICES, rate=100.0), tmp_path / "a.db", fresh=False) as session:
        asyncio.run(running(session, 10, lambda: file.write_bytes(b"")))
        assert "is another line than before" in session.course.ended
        assert 10 <= session.course.settled < COUNT
    traffic.close()
