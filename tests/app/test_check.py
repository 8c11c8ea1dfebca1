"""``check`` and ``footprint``: what is wrong is one line with key and remedy, and the exit status says so."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.faults import refused_url
from tests.running import ROOT, parhelion, post, toy, until


def command(*words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", "proxy.cli", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )


def test_engines_that_can_be_compared(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    with toy() as primary, toy(noise=0.5) as candidate:
        done = command(
            "check", "--primary", primary, "--shadow", f"cand={candidate}", "--control", primary, "--json", str(file)
        )
    assert done.returncode == 0, done.stderr
    assert "usable: every engine can be compared" in done.stdout
    assert "control is the same instance" in done.stdout
    assert "reference: the fp32 yardstick" in done.stdout
    assert "no control" not in done.stdout
    found = json.loads(file.read_text())
    assert found["usable"]
    assert [engine["name"] for engine in found["engines"]] == ["primary", "cand", "control"]
    assert all(engine["capabilities"]["forced"] and engine["capabilities"]["token_ids"] for engine in found["engines"])
    assert found["engines"][0]["footprint"]["gpu"] == {"value": None, "origin": "unknown"}
    assert found["engines"][0]["footprint"]["dtype"]["origin"] == "probed"
    assert all((engine["level"], engine["modes"]) == ("full", ["free", "forced"]) for engine in found["engines"])
    for engine in found["engines"]:
        for noise in (engine["capabilities"]["cold_warm"], engine["capabilities"]["batch_mates"]):
            assert noise["positions"] > 0
            assert (noise["flips"], noise["max"], noise["median"]) == (0, 0.0, 0.0)
    parity = [engine["prompt_parity"] for engine in found["engines"][1:]]
    assert all(one["same"] and "token ids" in one["text"] for one in parity)
    assert "prompt of primary and cand: the same" in done.stdout
    assert "cand: full: token ids, alternatives, and scores of given tokens" in done.stdout
    assert found["engines"][1]["footprint_differences"] == []


def test_every_key_is_written_down(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    with toy() as one, toy(template="[{role}] {content}") as other:
        command("check", "--primary", one, "--shadow", f"cand={other}", "--json", str(file))
        stacks = json.loads(command("footprint", one, other, "--json").stdout)
    readme = (ROOT / "proxy" / "README.md").read_text(encoding="utf-8")
    written = set(re.findall(r"`([a-z_]+)(?:\[\])?`", readme))
    found = json.loads(file.read_text())
    for block in (found, *found["engines"], *(engine["capabilities"] for engine in found["engines"]), stacks):
        assert block.keys() <= written
    for block in (found["engines"][1]["prompt_parity"], *found["engines"][1]["footprint_differences"]):
        assert block.keys() <= written
    assert found["engines"][0]["capabilities"]["cold_warm"].keys() <= written


def test_the_share_of_traffic_in_each_way_to_the_primarys_tokens(tmp_path: Path) -> None:
    with toy() as primary, toy() as candidate, toy() as control:
        arms = [{"name": "cand", "url": candidate}, {"name": "control", "role": "control", "url": control}]
        with parhelion(tmp_path, primary, arms) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            for change in ({}, {}, {"logprobs": True}, {"temperature": 1}):
                body = {
                    "model": "toy",
                    "messages": [{"role": "user", "content": "hello there"}],
                    "temperature": 0,
                    "max_tokens": 4,
                }
                assert post(f"{proxy.clients}/v1/chat/completions", body | change)[0] == 200
            until(lambda: proxy.metric("parhelion_primary_tokens_source_total") == 4)
            done = command("check", "-c", str(proxy.config))
    assert done.returncode == 0, done.stderr
    assert all(
        part in done.stdout for part in ("So far they came from", "reply 25.0%", "by_control 50.0%", "canonical 25.0%")
    )


def test_a_redaction_hook_that_cannot_be_used(tmp_path: Path) -> None:
    with toy() as engine:
        shadows = [{"name": "cand", "url": engine}]
        records = {"url": f"sqlite:///{tmp_path}/r.db", "content": "text", "redact": "nothing_of_that_name:hide"}
        config = tmp_path / "c.json"
        config.write_text(
            json.dumps({"primary": {"url": engine}, "shadows": shadows, "records": records, "state": str(tmp_path)})
        )
        done = command("check", "-c", str(config))
    assert done.returncode == 1
    assert "parhelion: records.redact: nothing_of_that_name:hide: it cannot be imported" in done.stderr


def test_a_shadow_that_cannot_be_reached() -> None:
    nowhere = refused_url()
    with toy() as primary:
        done = command("check", "--primary", primary, "--shadow", f"cand={nowhere}")
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"parhelion: shadows[0].url: cand at {nowhere}: refused: nothing listens there")


def test_a_shadow_without_logprobs() -> None:
    with toy() as primary, toy(silent=True) as candidate:
        done = command("check", "--primary", primary, "--shadow", f"cand={candidate}")
        strict = command(
            "serve",
            "--strict",
            "--primary",
            primary,
            "--shadow",
            f"cand={candidate}",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        )
    for one in (done, strict):
        assert one.returncode == 1
        (line,) = one.stderr.strip().splitlines()
        assert line.startswith("parhelion: shadows[0].url: cand at http://127.0.0.1:")
        assert "carry no logprobs" in line


def test_a_degraded_shadow_says_how_far_it_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    with toy() as primary, toy(no_ids=True, template="[{role}] {content}") as candidate:
        done = command("check", "--primary", primary, "--shadow", f"cand={candidate}", "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert "cand: no_ids: logprobs without token ids" in done.stdout
    assert "up to the first divergence; no forced mode" in done.stdout
    assert "other prompts: " in done.stdout
    found = json.loads(file.read_text())["engines"][1]
    assert (found["level"], found["modes"]) == ("no_ids", ["free"])
    assert found["prompt_parity"]["findings"] == ["prompt_template", "prompt_tokens"]
    (difference,) = found["footprint_differences"]
    assert (difference["field"], difference["sure"]) == ("chat_template_hash", True)


def test_a_primary_without_logprobs_is_no_obstacle() -> None:
    with toy(silent=True) as primary, toy() as candidate:
        done = command("check", "--primary", primary, "--shadow", f"cand={candidate}", "--control", candidate)
    assert done.returncode == 0
    assert "reply (the client asked)" not in done.stdout


def test_something_that_is_no_engine() -> None:
    import http.server
    import threading

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = command("check", "--primary", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert done.returncode == 1
    assert done.stderr.startswith("parhelion: primary.url: primary at http://127.0.0.1:")
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_configuration_is_one_line_and_status_two(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("primary: {url: http://a}\nshadow: []\n")
    for name in ("check", "serve", "report"):
        done = command(name, "-c", str(path))
        assert (done.returncode, done.stderr.strip()) == (2, "parhelion: shadow: unknown key; did you mean shadows?")
    done = command("export", str(tmp_path / "x.csv"))
    assert done.returncode == 2
    assert "must end with .jsonl or .parquet" in done.stderr
    done = command("report", "--since", "yesterday")
    assert done.returncode == 2
    assert "--since: 'yesterday' is not an age" in done.stderr


def test_footprints_of_two() -> None:
    with toy() as one, toy() as same, toy(template="[{role}] {content}") as other:
        alike, differing = command("footprint", one, same), command("footprint", one, other, "--json")
        single = command("footprint", one)
    assert alike.returncode == 0
    assert "nothing that is known differs" in alike.stdout
    assert differing.returncode == 1
    found = json.loads(differing.stdout)
    assert [each["field"] for each in found["differences"]] == ["chat_template_hash"]
    assert (found["differ"], found["differences"][0]["sure"]) == (True, True)
    assert found["ids"][0] != found["ids"][1]
    assert single.returncode == 0
    assert "sampling_defaults" in single.stdout
    assert "unknown" in single.stdout


def test_footprint_of_nothing() -> None:
    nowhere = refused_url()
    done = command("footprint", nowhere)
    assert done.returncode == 2
    assert done.stderr.startswith(f"parhelion: {nowhere}: refused")
    assert command("footprint", "notaurl").returncode == 2
    assert "choose one of" in command("footprint", "http://a", "--engine", "nope").stderr
