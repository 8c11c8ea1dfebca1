"""The spool on a disk that fills, tears, damages and refuses: what is whole comes back once, and nothing is ever raised."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.config import Spool as Settings
from proxy.exchange import Ended, Exchange
from proxy.judge import segment
from proxy.judge.spool import Spool
from proxy.traffic.wire import encode_frame


def exchange(number: int, size: int = 50) -> Exchange:
    return Exchange(
        f"x{number}", "t0", 0.0, 0.5, "POST", "/v1/x", (), b"?" * size, 200, (), ((5, b"!"),), 0, 0, Ended.COMPLETE
    )  # fmt: skip


def opened(folder: Path, settled: set[int] = frozenset(), max_bytes: int = 1 << 30) -> tuple[Spool, list[str]]:  # type: ignore[assignment]
    spool = Spool(Settings(str(folder), max_bytes))
    return spool, [one.id for one in spool.open(settled)]


def write(spool: Spool, *numbers: int, size: int = 50) -> None:
    came = [exchange(number, size) for number in numbers]
    spool.write([one.id for one in came], [encode_frame(one)[4:] for one in came])


def killed(spool: Spool) -> None:
    """What a SIGKILL leaves: the files as they are, the lock free."""
    spool._release_lock()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def test_what_was_written_comes_back_after_a_kill_in_order_and_as_it_came(tmp_path: Path) -> None:
    spool, _ = opened(tmp_path / "s")
    write(spool, 1, 2, 3)
    write(spool, 4)
    spool.settled("x2")
    killed(spool)
    again = Spool(Settings(str(tmp_path / "s")))
    kept = again.open(set())
    assert [one.id for one in kept] == ["x1", "x2", "x3", "x4"]  # that x2 was settled is the store's to say
    assert [again.read(one) for one in kept] == [exchange(number) for number in (1, 2, 3, 4)]
    assert {one.incarnation for one in kept} == {"t0"}
    killed(again)
    third, ids = opened(tmp_path / "s", settled={kept[1].number, kept[3].number})
    assert ids == ["x1", "x3"]
    third.settled("x1")
    third.settled("x3")
    assert names(tmp_path / "s") == []
    assert third.size == 0


def test_what_two_lives_wrote_and_could_not_acknowledge_is_known_to_the_third(tmp_path: Path) -> None:
    first, _ = opened(tmp_path / "s")
    write(first, 1, 2)
    killed(first)
    second, _ = opened(tmp_path / "s")
    assert second.recent == {"x1", "x2"}
    write(second, 3)  # 1 and 2 came again with it, and were known
    killed(second)
    third, ids = opened(tmp_path / "s")
    assert ids == ["x1", "x2", "x3"]
    assert third.recent == {"x1", "x2", "x3"}
    killed(third)


def test_nothing_is_left_on_disk_when_all_is_settled_and_only_the_owner_can_read_it(tmp_path: Path) -> None:
    spool, _ = opened(tmp_path / "s")
    write(spool, *range(100))
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    assert {(tmp_path / "s" / name).stat().st_mode & 0o777 for name in names(tmp_path / "s")} == {0o600}
    for number in range(100):
        spool.settled(f"x{number}")
    spool.tidy()
    assert names(tmp_path / "s") == []
    assert (spool.size, spool.waiting()) == (0, 0)
    write(spool, 100)
    assert spool.waiting() == 1
    spool.close()


def test_a_file_goes_when_the_last_in_it_is_settled_whatever_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.judge.spool._ROLL", 1000)
    spool, _ = opened(tmp_path / "s")
    for number in range(42):
        write(spool, number)
    assert len(names(tmp_path / "s")) == 6
    for number in range(41, 0, -1):
        spool.settled(f"x{number}")
    assert len(names(tmp_path / "s")) == 2  # that of the slow one, and the one that is written to
    spool.settled("x0")
    assert len(spool.gone) == 5
    assert all(first <= last for first, last in spool.gone)
    assert spool.oldest() >= max(last for _, last in spool.gone)


def test_beyond_its_bound_it_takes_nothing_and_says_so(tmp_path: Path) -> None:
    spool, _ = opened(tmp_path / "s", max_bytes=1000)
    write(spool, *range(4))
    size = spool.size
    assert 500 < size <= 1000
    write(spool, *range(10, 14))
    assert (spool.skipped["full"], spool.size) == (4, size)
    assert spool.number("x10") is None
    for number in range(4):
        spool.settled(f"x{number}")
    spool.tidy()
    write(spool, *range(20, 24))
    assert spool.number("x20") is not None
    killed(spool)
    assert opened(tmp_path / "s")[1] == ["x20", "x21", "x22", "x23"]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_torn_or_damaged_file_gives_back_what_is_whole_before_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("s")
    spool, _ = opened(folder)
    write(spool, *range(5))
    killed(spool)
    [name] = names(folder)
    content = bytearray((folder / name).read_bytes())
    each = len(content) // 5
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    (folder / name).write_bytes(content)
    again, ids = opened(folder)
    assert ids == [f"x{number}" for number in range(at // each)]
    write(again, 9)
    killed(again)
    assert opened(folder)[1] == [*ids, "x9"]


def test_files_of_other_names_and_strangers_bytes_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").write_text("mine")
    (tmp_path / "s" / segment.name(5, 0)).write_bytes(os.urandom(4096))
    spool, ids = opened(tmp_path / "s")
    assert ids == []
    assert names(tmp_path / "s") == ["notes.txt"]
    write(spool, 1)
    assert spool.number("x1") is not None


@pytest.mark.parametrize("kind", ["pipe", "directory", "link to nothing", "link to a file"])
def test_what_is_no_file_of_its_own_is_left_alone_and_keeps_nothing_from_coming_back(kind: str, tmp_path: Path) -> None:
    spool, _ = opened(tmp_path / "s")
    write(spool, 1)
    killed(spool)
    stranger = tmp_path / "s" / segment.name(1, 0)
    match kind:
        case "pipe":
            os.mkfifo(stranger)
        case "directory":
            stranger.mkdir()
        case "link to nothing":
            stranger.symlink_to("nowhere")
        case _:
            (tmp_path / "mine").write_text("not yours")
            stranger.symlink_to(tmp_path / "mine")
    again, ids = opened(tmp_path / "s")
    assert ids == ["x1"]
    write(again, 2)
    assert not again.skipped
    assert stranger.name in names(tmp_path / "s")


def test_a_number_that_none_of_ours_can_have_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    payload = encode_frame(exchange(1))[4:]
    for name, number in ((segment.name(5, 0), 2**64 - 1), (segment.name(2**64 - 1, 0), 7)):
        (tmp_path / "s" / name).write_bytes(segment.header(number, payload) + payload)
    spool, ids = opened(tmp_path / "s")
    assert ids == []
    write(spool, 2)
    assert 0 < spool.number("x2") < 2**62  # type: ignore[operator]  # it is kept


def test_a_file_that_cannot_be_read_stays_behind_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (1, 2):
        spool, _ = opened(tmp_path / "s", max_bytes=1 << 20)
        write(spool, number)
        killed(spool)
    first = names(tmp_path / "s")[0]
    scan = segment.scan

    def failing(path: Path) -> object:
        if path.name == first:
            raise OSError(5, "Input/output error")
        return scan(path)

    monkeypatch.setattr(segment, "scan", failing)  # a disk that fails in one place
    again, ids = opened(tmp_path / "s")
    assert ids == ["x2"]
    assert "spool_file_unreadable" in caplog.text
    write(again, 3)
    assert not again.skipped


def test_a_disk_that_is_full_or_cannot_be_written_stops_nothing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool, _ = opened(tmp_path / "s")
    write(spool, 1)
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda descriptor, parts: real(descriptor, parts[:1]))  # it is full in the middle
    write(spool, 2, 3)
    assert spool.skipped["error"] == 2
    assert "spool_failed" in caplog.text
    monkeypatch.undo()
    write(spool, 4)
    assert spool.skipped["error"] == 3  # not asked again at once
    spool._retry_at = 0.0
    write(spool, 5)
    assert spool.waiting() == 2
    killed(spool)
    assert opened(tmp_path / "s")[1] == ["x1", "x5"]


def test_a_place_that_cannot_be_used_is_said_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "s").write_text("a file")
    spool, ids = opened(tmp_path / "s")
    write(spool, 1)
    assert (ids, spool.skipped["error"], spool.number("x1")) == ([], 1, None)
    assert "spool_unusable" in caplog.text
    assert "or write spool: null" in str(vars(caplog.records[0]))
    (tmp_path / "s").unlink()
    spool._retry_at = 0.0
    spool.tidy()
    write(spool, 2)
    assert spool.number("x2") is not None


def test_two_cannot_share_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool, _ = opened(tmp_path / "s")
    write(spool, 1)
    other, ids = opened(tmp_path / "s")
    assert ids == []
    write(other, 2)
    assert other.skipped["error"] == 1
    assert "spool_unusable" in caplog.text
    assert "give each its own spool.path" in str(vars(caplog.records[0]))
    spool.close()


def test_what_is_taken_up_again_and_again_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be what kills the judge; a life that ends in order does not count against it."""
    spool, _ = opened(tmp_path / "s")
    write(spool, 1)
    for _ in range(3):
        spool.close()
        spool, ids = opened(tmp_path / "s")
        assert ids == ["x1"]
    for _ in range(9):
        killed(spool)
        spool, ids = opened(tmp_path / "s")
        assert ids == ["x1"]
    killed(spool)
    spool, ids = opened(tmp_path / "s")
    assert ids == []
    assert "spool_given_up" in caplog.text
    assert names(tmp_path / "s") == []


def test_turned_off_it_does_nothing_and_counts_nothing(tmp_path: Path) -> None:
    spool = Spool(None)
    assert spool.open(set()) == []
    write(spool, 1)
    spool.tidy()
    spool.close()
    assert (spool.number("x1"), spool.size, dict(spool.skipped)) == (None, 0, {})
