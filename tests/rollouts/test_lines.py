"""Files of rollouts: plain, compressed, cut, damaged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from proxy.rollouts.lines import BadFile, rollouts_in
from proxy.rollouts.rollout import Rollout, Unusable

GOOD = {"response_ids": [1, 2], "rollout_logprobs": [-1.0, -2.0], "trainer_logprobs": [-1.0, float("nan")]}
TEXT = (json.dumps(GOOD) + "\n") * 3


def kinds(path: Path) -> list[str]:
    return [one.reason if isinstance(one, Unusable) else "ok" for _, one in rollouts_in(path)]


def test_plain_and_compressed_files_are_the_same(tmp_path: Path) -> None:
    plain, packed, small = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz", tmp_path / "a.jsonl.zst"
    plain.write_text(TEXT)
    packed.write_bytes(gzip.compress(TEXT.encode()))
    small.write_bytes(zstandard.compress(TEXT.encode()))
    assert [kinds(one) for one in (plain, packed, small)] == [["ok"] * 3] * 3
    number, rollout = list(rollouts_in(small))[-1]
    assert number == 3
    assert isinstance(rollout, Rollout)
    assert rollout.name == "line 3"


def test_a_bad_line_is_said_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("nonsense\n\n" + TEXT + '{"response_ids": [1, 2], "roll')
    assert kinds(path) == ["not_json", "ok", "ok", "ok", "truncated"]
    assert [number for number, _ in rollouts_in(path)] == [1, 3, 4, 5, 6]


def test_a_last_line_that_is_whole_needs_no_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(TEXT.rstrip("\n"))
    assert kinds(path) == ["ok"] * 3


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-12])
    with pytest.raises(BadFile, match="cut or damaged"):
        kinds(path)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"no frame at all")
    with pytest.raises(BadFile, match="cut or damaged"):
        kinds(path)
    with pytest.raises(BadFile, match="No such file"):
        kinds(tmp_path / "none.jsonl")


def test_what_was_packed_is_whole_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    text = "".join(json.dumps(GOOD | {"id": number}) + "\n" for number in range(20_000)).encode()
    packed = zstandard.compress(text)
    path.write_bytes(packed + packed)
    assert kinds(path) == ["ok"] * 40_000
    for at in (5, len(packed) // 3, len(packed) - 1):
        path.write_bytes(packed + packed[:at])
        with pytest.raises(BadFile, match="cut or damaged"):
            kinds(path)
    path = tmp_path / "a.jsonl.gz"
    damaged = bytearray(gzip.compress(text))
    damaged[len(damaged) // 2 : len(damaged) // 2 + 40] = b"\xff" * 40
    path.write_bytes(damaged)
    with pytest.raises(BadFile, match="cut or damaged"):
        kinds(path)
