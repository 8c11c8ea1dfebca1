"""The main job on real engines: llama.cpp Q4_1 answers, F32 and Q4_1 again are asked too; what the demo prints must be so."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engines.launch import start_llama
from tests.e2e.moment import Moment, consistent, counted_alike, look, sentences
from tests.engine_fixtures import missing
from tests.figures import Figure
from tests.ledger import agreement, page_numbers
from tests.running import ROOT, parhelion, post, until

pytestmark = [pytest.mark.slow, pytest.mark.llama, pytest.mark.timeout(600)]
REQUESTS = 40


class Demo(NamedTuple):
    """The report, the records beside it, what was printed, and the proxy that it left running."""

    report: dict[str, Any]
    records: Path
    printed: str
    moment: Moment


@pytest.fixture(scope="module")
def demo(smollm2_q4: Path, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo as a user runs it, left running until everything has been asked that there is to ask."""
    assert smollm2_q4.exists()
    kept = tmp_path_factory.mktemp("demo")
    file, errors = kept / "report.json", kept / "errors.txt"
    words = ["--requests", str(REQUESTS), "--json", str(file), "--html", str(kept / "report.html"), "--keep"]
    with (
        tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as short,
        errors.open("wb") as stderr,
    ):  # a socket's path holds 108 bytes
        running = subprocess.Popen(
            [sys.executable, "-m", "proxy.cli", "demo", *words],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": short, "PYTHONUNBUFFERED": "1"},
        )
        assert running.stdout is not None
        with running.stdout:
            try:
                printed = "".join(until_line(running.stdout, "Everything is left running"))
                if "is not installed" in errors.read_text():
                    missing(errors.read_text().strip())
                assert file.exists(), errors.read_text()
                admin = re.search(r"metrics (http://\S+)/metrics", printed)
                assert admin is not None
                (config,) = Path(short).glob("parhelion-demo-*/parhelion.yaml")
                moment = look(admin[1], config, kept)
            finally:
                running.send_signal(signal.SIGINT)
                status = running.wait(60)
        assert status == 0, errors.read_text()
    return Demo(json.loads(file.read_text()), file.with_name("report.json.records.jsonl"), printed, moment)


def until_line(lines: Iterable[str], last: str) -> Iterator[str]:
    """Lines up to the one that begins so, or to their end."""
    for line in lines:
        yield line
        if line.startswith(last):
            return


def arm(report: dict[str, Any], name: str, mode: str) -> dict[str, Any]:
    return next(shadow for shadow in report["shadows"] if shadow["name"] == name)["modes"][mode]


def test_the_control_does_not_differ(demo: Demo) -> None:
    free = arm(demo[0], "control", "free")
    assert free["identical"] == free["requests"] > 0.7 * REQUESTS
    assert free["logprob_error_nats"]["max"] < 1e-5
    forced = arm(demo[0], "control", "forced")
    assert forced["logprob_error_nats"]["max"] < 1e-5
    assert sum(forced["flips"].values()) == 0


def test_the_candidate_differs_as_measured(demo: Demo) -> None:
    free = arm(demo[0], "f32", "free")
    assert 0.10 <= free["identical"] / free["requests"] <= 0.75
    assert 0.004 <= free["logprob_error_nats"]["median"] <= 0.05
    assert sum(free["divergences"].values()) == free["requests"] - free["identical"] - free["censored"]
    assert free["first_divergence"]["median"] > 0
    forced = arm(demo[0], "f32", "forced")
    assert 0.004 <= forced["logprob_error_nats"]["median"] <= 0.05
    assert forced["requests"] >= REQUESTS - 3  # a sampled text with half a character in it is not canonical


def test_the_control_is_quiet_and_the_candidate_is_judged_with_evidence(
    demo: Demo,
) -> None:
    control, judged = ({one["name"]: one for one in demo[0]["shadows"]}[name] for name in ("control", "f32"))
    assert "verdict" not in control
    verdict = judged["verdict"]
    tally = verdict["tally"]
    assert (tally["better"], tally["both"]) == (0, 0)
    assert verdict["floor"] == "control"
    assert verdict["coverage"] == 1.0
    assert 20 <= verdict["conversations"] <= arm(demo[0], "f32", "free")["requests"]
    # Some 40 % of its replies have a genuine flip (measured): beyond 1 point of margin that takes some 26 conversations.
    assert tally["worse"] >= 5
    assert verdict["bad_by"] == [{"by": "genuine_flip", "candidate": tally["worse"], "control": 0}]
    assert verdict["log_e_fail"] > 2 > 0 > verdict["log_e_pass"]
    assert verdict["state"] == "FAIL" or 0 < verdict["conversations_needed"] < 60
    assert f"f32: {verdict['state']} after {verdict['conversations']} conversations" in " ".join(demo[2].split())


def test_the_verdict_follows_from_the_records_and_is_the_same_wherever_it_is_said(demo: Demo, figure: Figure) -> None:
    agreement.check_verdicts(demo.report, demo.records)
    consistent(demo.moment)
    assert counted_alike(demo.moment) > 30
    (verdict,) = demo.moment.verdicts().values()
    assert verdict == next(one["verdict"] for one in demo.report["shadows"] if one["name"] == "f32")
    assert verdict["worst_case"] == verdict["state"]  # nothing is missing
    assert all(sentence in " ".join(demo.printed.split()) for sentence in sentences("f32", verdict))
    figure("verdict on the demo's engines", f"llama.cpp F32 beside Q4_1: {verdict['state']} after {verdict['conversations']}, log e {verdict['log_e_fail']:.1f}, {verdict['tally']}")  # fmt: skip


def test_the_control_is_quiet(demo: Demo) -> None:
    control = next(one for one in demo.report["shadows"] if one["name"] == "control")
    assert control["findings"] == []
    assert control["modes"]["free"]["divergences"] == {"exact_tie": 0, "near_tie": 0, "genuine": 0, "unknown": 0}


def test_every_request_is_in_exactly_one_counter(demo: Demo) -> None:
    assert demo[0]["requests"]["sampled"] == demo[0]["requests"]["received"] == REQUESTS
    for shadow in ("f32", "control"):
        for mode in ("free", "forced"):
            numbers = arm(demo[0], shadow, mode)
            assert (
                numbers["compared"] + sum(numbers["incomparable"].values()) + sum(numbers["shed"].values()) == REQUESTS
            )
            assert set(numbers["incomparable"]) <= {"sampled", "no_primary_tokens", "text_not_canonical"}


def test_the_ways_to_the_primarys_tokens_are_all_used(demo: Demo) -> None:
    sources = demo[0]["primary"]["tokens_source"]
    assert sources["reply"] >= 15
    assert sources["by_control"] >= 10
    assert sources["canonical"] >= 1
    assert sum(sources.values()) == REQUESTS


def test_the_report_can_be_recomputed_from_the_records(demo: Demo) -> None:
    agreement.check(demo[0], demo[1])
    agreement.check_headlines(demo[0], demo[1])
    assert page_numbers.same_as(demo.report, demo.records.with_name("report.html").read_text()) > 300
    assert len(demo[1].read_text().splitlines()) == 4 * REQUESTS


def test_the_printed_tables_say_the_same(demo: Demo) -> None:
    text = demo[2]
    assert "noise floor" in text
    assert f"{REQUESTS} sampled" in text
    free = arm(demo[0], "f32", "free")
    assert f"{free['identical']} (" in text


def test_what_llama_cpp_answers_to_bad_requests_passes_through(smollm2_q4: Path, tmp_path: Path) -> None:
    """Malformed, unknown, over-long, wrongly typed: status, headers and body are the engine's own."""
    long_prompt = "word " * 3000
    with (
        start_llama(
            smollm2_q4, alias="m", context=512, extra=("--no-prompt-cache",), log=tmp_path / "engine.log"
        ) as engine,
        parhelion(tmp_path, engine.url, [{"name": "gone", "url": "http://127.0.0.1:1"}]) as proxy,
    ):
        sent = 0
        for path, body, kind in (
            ("/v1/chat/completions", b"{", "application/json"),
            ("/v1/chat/completions", b"", "application/json"),
            ("/v1/chat/completions", json.dumps({"messages": "no"}).encode(), "application/json"),
            (
                "/v1/chat/completions",
                json.dumps({"model": "other", "messages": [], "temperature": 0, "max_tokens": 3}).encode(),
                "application/json",
            ),
            (
                "/v1/chat/completions",
                json.dumps({"messages": [{"role": "user", "content": long_prompt}]}).encode(),
                "application/json",
            ),
            ("/v1/completions", json.dumps({"prompt": "x", "max_tokens": 3, "temperature": -1}).encode(), "text/plain"),
            ("/v1/nothing", b"{}", "application/json"),
        ):
            through, direct = (post(url + path, body, content_type=kind) for url in (proxy.clients, engine.url))
            assert through[0] == direct[0], path
            if through[0] != 200:  # a good reply holds timings, and is as long as their digits
                assert through[1] == direct[1], path
            assert steady(through[2]) == steady(direct[2]), path
            sent += path != "/v1/nothing"
        until(
            lambda: (
                proxy.metric("parhelion_incomparable_total", shadow="gone", mode="free")
                + proxy.metric("parhelion_shed_total", shadow="gone", mode="free")
                == sent
            )
        )


def steady(body: bytes) -> Any:
    """A reply without what changes from call to call."""
    try:
        value = json.loads(body)
    except ValueError:
        return body
    if isinstance(value, dict):
        for key in ("id", "created", "timings"):
            value.pop(key, None)
    return value
