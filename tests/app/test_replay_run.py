"""``parhelion replay`` as a user calls it, on scripted engines."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy import cli
from proxy.config_file import ConfigError
from tests.replay.replaying import engines, put, replay, report, requests, settled
from tests.replay.test_traffic import lines
from tests.running import ROOT, parhelion, post, until
from tests.whole import settle

COUNT = 24


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A primary, a noisy candidate, a control: one set for this file."""
    with engines(tmp_path_factory.mktemp("engines")) as found:
        yield found


@pytest.fixture(scope="module")
def replied(flags: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Requests with what the primary has said to them: plain, streamed, with and without logprobs."""
    bodies = [
        json.loads(line) for line in requests(tmp_path_factory.mktemp("r") / "r", COUNT).read_bytes().splitlines()
    ]
    found = []
    for number, body in enumerate(bodies):
        asked = body | ({"logprobs": True, "top_logprobs": 5, "return_token_ids": True} if number % 3 else {})
        said = post(f"{flags[1]}/v1/chat/completions", asked)[2].decode()
        found.append({"request": asked, "response": said if asked["stream"] else json.loads(said)})
    return found


def shadows(flags: list[str]) -> list[str]:
    """The flags without the primary."""
    return flags[2:]


def numbers(found: dict[str, Any], shadow: str, mode: str) -> dict[str, Any]:
    """What does not depend on thresholds and times."""
    modes = next(one for one in found["shadows"] if one["name"] == shadow)["modes"][mode]
    flips = modes.get("divergences") or modes["flips"]
    same = (
        "requests",
        "identical",
        "tokens_compared",
        "logprob_error_nats",
        "relative_error",
        "top1_agreement",
        "k1",
        "k3",
    )
    return {"flips": sum(flips.values())} | {key: modes.get(key) for key in same}


def test_live_traffic_its_export_and_the_replay_say_the_same(flags: list[str], tmp_path: Path) -> None:
    arms = [
        {"name": "candidate", "url": flags[3].partition("=")[2]},
        {"name": "control", "role": "control", "url": flags[5]},
    ]
    primary = {"url": flags[1], "logprobs": "inject"}
    with parhelion(tmp_path, flags[1], arms, primary=primary, limits={"in_flight": 1}) as proxy:
        proxy.wait_known(["primary", "candidate", "control"], 60)
        for line in requests(tmp_path / "asked", COUNT).read_bytes().splitlines():
            assert post(f"{proxy.clients}/v1/chat/completions", line)[0] == 200
        settle(proxy, COUNT)
        live = proxy.report()
        export = tmp_path / "export.jsonl"
        subprocess.run(
            [sys.executable, "-P", "-m", "proxy.cli", "export", str(export), "-c", str(proxy.config)],
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    again = replay(export, *flags, "--json", tmp_path / "again.json")
    assert f"{COUNT} requests ({3 * COUNT} more lines are records of the same requests)" in again.stderr
    found = report(tmp_path / "again.json")
    assert found["primary"]["tokens_source"] == live["primary"]["tokens_source"]
    for shadow in ("candidate", "control"):
        for mode in ("free", "forced"):
            assert numbers(found, shadow, mode) == numbers(live, shadow, mode)
    verdict, lived = (next(s["verdict"] for s in one["shadows"] if s["name"] == "candidate") for one in (found, live))
    assert verdict["conversations"] == lived["conversations"] == COUNT
    assert again.returncode == {"PASS": 0, "FAIL": 1, "KEEP WATCHING": 3}[verdict["state"]]


def test_recorded_replies_stand_for_the_primary(flags: list[str], replied: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl.gz"
    file.write_bytes(gzip.compress(lines(*replied, {"request": replied[0]["request"]})))
    config = tmp_path / "c.yaml"
    config.write_text("primary: {url: http://recorded.invalid, engine: vllm}\nrecords: {content: text}\n")
    ran = replay(file, "-c", config, "--recorded", "primary", *shadows(flags), "--json", tmp_path / "r.json")
    assert ran.returncode in (1, 3), ran.stderr
    found = report(tmp_path / "r.json")
    assert found["requests"] == {"received": COUNT + 1, "not_sampled": 1, "sampled": COUNT, "undecided": 0}
    assert found["primary"]["tokens_source"]["reply"] == 2 * COUNT // 3
    assert found["primary"]["footprint"]["engine"] == "vllm"
    assert found["replay"]["recorded"] == "primary"
    control = next(one for one in found["shadows"] if one["name"] == "control")
    assert control["modes"]["forced"]["requests"] == COUNT
    assert control["modes"]["forced"]["logprob_error_nats"]["median"] < 0.01
    assert control["latency"]["time_to_first_token_seconds"]["primary"] == {}
    assert control["latency"]["time_to_first_token_seconds"]["shadow"]["count"] == COUNT // 2


def test_a_batch_with_its_output_from_standard_input(flags: list[str], replied: list[Any], tmp_path: Path) -> None:
    plain = [one for one in replied if not one["request"]["stream"]]
    asks = (
        {"custom_id": f"q{n}", "method": "POST", "url": "/v1/chat/completions", "body": one["request"]}
        for n, one in enumerate(plain)
    )
    answers = (
        {
            "id": "b",
            "custom_id": f"q{n}",
            "response": {"status_code": 200, "request_id": "x", "body": one["response"]},
            "error": None,
        }
        for n, one in enumerate(plain)
    )
    (tmp_path / "out.jsonl").write_bytes(lines(*answers))
    given = ["-", "--replies", tmp_path / "out.jsonl", "--recorded", "primary", *shadows(flags)]
    batch = lines(*asks).decode()
    with pytest.raises(ConfigError, match="--out: name the store"):
        cli.app(["replay", "-", "--recorded", "primary", *shadows(flags)])
    ran = replay(*given, "--out", tmp_path / "s.db", "--mode", "free", "--json", tmp_path / "r.json", input=batch)
    found = report(tmp_path / "r.json")
    assert found["requests"]["sampled"] == len(plain), ran.stderr
    assert [list(one["modes"]) for one in found["shadows"]] == [["free"], ["free"]]


def test_choices_are_kept_to_and_another_replay_is_refused(flags: list[str], tmp_path: Path) -> None:
    file = requests(tmp_path / "a.jsonl", COUNT)
    some = [file, *flags, "--order", "shuffled", "--sample", "0.5", "--limit", "4"]
    assert replay(*some, "--json", tmp_path / "r.json").returncode == 3
    found = report(tmp_path / "r.json")
    assert (found["requests"]["received"], found["requests"]["sampled"], found["replay"]["replayed"]) == (COUNT, 4, 4)
    ended = replay(*some)
    assert ended.returncode == 3
    assert "4 of them settled before: going on" in ended.stderr

    for other, says in (
        (["--seed", "5"], "the options that choose requests differ"),
        (["--mode", "free"], "the configured engines differ"),
    ):
        refused = replay(*some, *other)
        assert (refused.returncode, says in refused.stderr, "--fresh" in refused.stderr) == (2, True, True), (
            refused.stderr
        )
    requests(file, COUNT + 1)
    refused = replay(*some)
    assert (refused.returncode, "the file's content differ" in refused.stderr) == (2, True)
    anew = replay(*some, "--fresh", "--html", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "KEEP WATCHING" in page
    assert "replay a.jsonl" in page
    assert anew.returncode == 3
    assert "going on" not in anew.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--concurrency", "0"], "--concurrency"),
        (["--sample", "0"], "--sample"),
        (["--pace", "0"], "--pace"),
        (["--rate", "0"], "--rate"),
        (["--limit", "0"], "--limit"),
        (["--repeats", "0"], "--repeats"),
        (["--mmd", "--mode", "forced"], "--mmd: needs `free` mode"),
        (["--since", "long"], "--since"),
        (["--since", "1h"], "says no time, which --since needs"),
        (["--pace", "1"], "says no time, which --order time needs"),
        (["--recorded", "primary"], "leave --primary out"),
        (["--json", "/nowhere/r.json"], "--json: /nowhere/r.json cannot be written: there is no directory"),
        (["--html", "/nowhere/r.html"], "--html: /nowhere/r.html cannot be written: there is no directory"),
        (["--replies", "/nowhere/out.jsonl"], "cannot be read"),
        (["--out", "FILE"], "a.jsonl is FILE's too; name another file"),
        (["--json", "FILE"], "a.jsonl is FILE's too; name another file"),
        (["--json", "FILE.replay.db"], "a.jsonl.replay.db is --out's too; name another file"),
    ],
)
def test_mistakes_are_one_line(words: list[str], says: str, tmp_path: Path) -> None:
    file = requests(tmp_path / "a.jsonl", 2)
    with pytest.raises(ConfigError) as caught:
        cli.app(["replay", str(file), "--primary", "http://127.0.0.1:9", "--shadow", "http://127.0.0.1:9", *(word.replace("FILE", str(file)) for word in words)])  # fmt: skip
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [one.name for one in tmp_path.iterdir()] == ["a.jsonl"]


def test_redacted_draws_are_not_held_against_each_other(tmp_path: Path) -> None:
    file, config = requests(tmp_path / "a.jsonl", 2), tmp_path / "c.yaml"
    config.write_text(
        "primary: {url: 'http://127.0.0.1:9'}\nshadows: [{name: new, url: 'http://127.0.0.1:9'}]\nrecords: {content: text, redact: 'json:loads'}\n"
    )
    with pytest.raises(ConfigError, match="--mmd: draws are compared as they are kept"):
        cli.app(["replay", str(file), "-c", str(config), "--mmd"])


def test_no_line_is_asked_where_one_is_bad(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(
        requests(file, 2).read_bytes() + b'{"url": "http://elsewhere.invalid/v1/chat/completions", "body": {}}\n'
    )
    refused = replay(file, "--primary", "http://127.0.0.1:9", "--shadow", "http://127.0.0.1:9")
    assert refused.returncode == 2
    assert f"{file}:3: url is not a path" in refused.stderr
    assert not (tmp_path / "a.jsonl.replay.db").exists()


def interrupted(words: list[str], out: Path, *, hanging: str = "") -> tuple[int, str]:
    """Begin a replay, press Ctrl-C once some of it is settled, and again where an engine hangs from then on; its status and standard error."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "proxy.cli", "replay", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    until(lambda: settled(out) > 2, 60, what="some requests to be settled")
    if hanging:
        put(hanging, {"faults": {"kind": "hang"}})
        time.sleep(1.0)  # whatever was begun before has ended by then, or not: what is begun now hangs
    process.send_signal(signal.SIGINT)
    if hanging:
        assert process.stderr is not None
        said = ""
        while "once more stops at once" not in said:
            said += process.stderr.readline()
        process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    return process.returncode, told


def test_interrupted_once_it_reports_and_goes_on_later(flags: list[str], tmp_path: Path) -> None:
    file, out = requests(tmp_path / "a.jsonl", 200), tmp_path / "a.jsonl.replay.db"
    words = [str(file), *flags, "--json", str(tmp_path / "r.json")]
    status, told = interrupted([*words, "--rate", "20"], out)
    found = report(tmp_path / "r.json")
    part = found["replay"]["replayed"]
    assert (status, found["replay"]["ended"]) == (3, "interrupted"), told
    assert 2 < part < 200
    assert f"{part} of 200 requests are replayed; the same command goes on with the rest" in told
    assert all(one["modes"]["free"]["in_flight"] == 200 - part for one in found["shadows"])
    assert settled(out) == part
    ended = replay(*words, "--concurrency", "16", "--fail-fast-on-verdict")
    assert f"{part} of them settled before: going on" in ended.stderr
    assert ended.returncode == 1
    last = report(tmp_path / "r.json")
    assert last["replay"]["ended"] == "decided"
    assert part < last["replay"]["replayed"] < 200


def test_interrupted_twice_it_stops_at_once(tmp_path: Path) -> None:
    file, out = requests(tmp_path / "a.jsonl", 200), tmp_path / "a.jsonl.replay.db"
    with engines(tmp_path) as flags:
        status, told = interrupted([str(file), *flags, "--rate", "20"], out, hanging=flags[3].partition("=")[2])
    assert status == 130, told
    assert settled(out) < 200


def test_an_export_without_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    record = {"exchange": "e", "comparison": {}, "endpoint": "chat_completions", "content": {"request": "5f" * 32}}
    file.write_bytes(orjson.dumps(record))
    with pytest.raises(
        ConfigError, match=r"e.jsonl:1: a record that keeps a hash of its request .*set `records.content: text`"
    ):
        cli.app(["replay", str(file), "--primary", "http://127.0.0.1:9", "--shadow", "http://127.0.0.1:9"])
