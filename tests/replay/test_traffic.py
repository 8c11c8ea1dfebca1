"""A file is checked whole before anything is asked, and read in any order after."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from proxy.replay.line import TrafficError
from proxy.replay.traffic import Traffic, open_traffic
from tests.replay.test_formats import CHAT, RECORD, REPLY


def lines(*values: Any) -> bytes:
    return b"".join(orjson.dumps(value) + b"\n" for value in values)


def asked(number: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"{number}"}]}


def said(traffic: Traffic, index: int) -> str:
    return str(orjson.loads(traffic.read(index).body)["messages"][0]["content"])


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress, lambda data: zstandard.compress(data) * 1])
def test_plain_or_packed_in_any_order(tmp_path: Path, pack: Any) -> None:
    file = tmp_path / "a.jsonl"
    plain = lines(asked(0), asked(1)) + b"\n  \n" + lines(asked(2)).rstrip()
    file.write_bytes(pack(plain))
    traffic = open_traffic(file)
    try:
        assert len(traffic) == 3
        assert [said(traffic, index) for index in (2, 0, 1)] == ["2", "0", "1"]
        assert traffic.read(2).number == 5
        assert traffic.time(0) is None
    finally:
        traffic.close()


def test_its_digest_is_that_of_what_it_says(tmp_path: Path) -> None:
    digests = []
    for name, data in (
        ("a", lines(CHAT)),
        ("b", gzip.compress(lines(CHAT))),
        ("c", lines(CHAT, CHAT)),
    ):
        (tmp_path / name).write_bytes(data)
        with_digest = open_traffic(tmp_path / name)
        digests.append(with_digest.digest)
        with_digest.close()
    assert digests[0] == digests[1] != digests[2]


def test_records_of_one_exchange_are_one_request(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    file.write_bytes(lines(RECORD, RECORD | {"shadow": "t"}, RECORD | {"exchange": "e2", "time": 5.0}))
    traffic = open_traffic(file)
    assert (len(traffic), traffic.repeated, traffic.time(1)) == (2, 1, 5.0)
    traffic.close()


def test_a_batch_and_its_output_are_joined(tmp_path: Path) -> None:
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(
        lines(*({"custom_id": f"q{n}", "url": "/v1/chat/completions", "body": asked(n)} for n in range(3)))
    )
    output.write_bytes(
        lines(
            {"custom_id": "q2", "response": {"status_code": 200, "body": REPLY}},
            {"custom_id": "q0", "response": None, "error": {"code": "batch_expired"}},
        )
    )
    traffic = open_traffic(file, output)
    assert [traffic.answered(index) for index in range(3)] == [False, False, True]
    reply = traffic.read(2).reply
    assert reply is not None
    assert orjson.loads(reply.body) == REPLY
    alone = open_traffic(file)
    assert alone.digest != traffic.digest
    traffic.close()
    alone.close()


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines(asked(4)))))
    traffic = open_traffic(Path("-"))
    assert said(traffic, 0) == "4"
    traffic.close()


def test_bad_lines_are_named_before_anything_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines(CHAT, [], CHAT) + b"{\n" * 6)
    with pytest.raises(TrafficError) as caught:
        open_traffic(file)
    told = str(caught.value).splitlines()
    assert told[0].startswith(f"{file}:2: not a JSON object: ")
    assert told[1].startswith(f"{file}:4: not JSON")
    assert told[-1] == "... and 2 lines more"
    assert len(told) == 6


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\n", "there is no request in it"),
        (gzip.compress(lines(CHAT))[:-9], "cannot be unpacked"),
        (zstandard.compress(lines(CHAT) * 9)[:-6], "(cannot be unpacked|there is no request)"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, data: bytes, says: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(data)
    with pytest.raises(TrafficError, match=says):
        open_traffic(file)
    with pytest.raises(TrafficError, match="cannot be read: No such file"):
        open_traffic(tmp_path / "none")


def test_bad_replies_are_named(tmp_path: Path) -> None:
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(lines(CHAT))
    answer = {"custom_id": "a", "response": REPLY}
    for data, says in (
        (lines(CHAT), "out.jsonl:1: no reply of a batch"),
        (lines(answer, answer), "out.jsonl:2: a second reply"),
    ):
        output.write_bytes(data)
        with pytest.raises(TrafficError, match=says):
            open_traffic(file, output)


def test_a_packed_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl.zst"
    plain = lines(*(asked(number) for number in range(5000)))
    packed = zstandard.compress(plain)
    for cut in (packed[:-1], packed[: len(packed) // 2], packed + packed[:9]):
        file.write_bytes(cut)
        with pytest.raises(TrafficError, match="cannot be unpacked: it is cut or damaged"):
            open_traffic(file)
    file.write_bytes(packed + packed)
    traffic = open_traffic(file)
    assert (len(traffic), said(traffic, 9999)) == (10000, "4999")
    traffic.close()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_a_pipe_is_read_once(tmp_path: Path, pack: Any) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_bytes, args=[pack(lines(asked(0), asked(1)))])
    writing.start()
    traffic = open_traffic(pipe)
    writing.join()
    assert [said(traffic, index) for index in (1, 0)] == ["1", "0"]
    traffic.close()


def test_one_reply_stands_for_one_request(tmp_path: Path) -> None:
    batch = [{"custom_id": name, "url": "/v1/chat/completions", "body": asked(at)} for at, name in enumerate("aba")]
    (tmp_path / "in.jsonl").write_bytes(lines(*batch))
    (tmp_path / "out.jsonl").write_bytes(lines({"custom_id": "a", "response": REPLY}))
    open_traffic(tmp_path / "in.jsonl").close()  # asked anew, it does not matter
    with pytest.raises(TrafficError, match=r"in\.jsonl:3: a custom_id that came before: one reply would stand for two"):
        open_traffic(tmp_path / "in.jsonl", tmp_path / "out.jsonl")


def test_a_reply_without_a_name_is_nobody_s(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(asked(0), {"custom_id": "1", "url": "/v1/chat/completions", "body": asked(1)}))  # fmt: skip
    (tmp_path / "out.jsonl").write_bytes(lines({"custom_id": "", "response": REPLY}, {"custom_id": "1", "response": REPLY}))  # fmt: skip
    traffic = open_traffic(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert [traffic.answered(index) for index in (0, 1)] == [False, True]
    traffic.close()


def test_a_file_that_changes_under_way_is_said(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines(asked(0), asked(1)))
    traffic = open_traffic(file)
    file.write_bytes(b"\n")
    with pytest.raises(TrafficError, match=r"a\.jsonl:2: is another line than before: the file must not change"):
        traffic.read(1)
    traffic.close()
