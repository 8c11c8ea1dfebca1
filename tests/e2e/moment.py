"""One moment of a running proxy at which nothing is under way: what its report, its metrics and its terminal say of each candidate, and whether that is the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from tests.ledger import page_numbers
from tests.running import ROOT

STATUS = {"PASS": 0, "FAIL": 1, "KEEP WATCHING": 3}
CODE = {"PASS": 1, "FAIL": -1, "KEEP WATCHING": 0}


class Moment(NamedTuple):
    """``report``: the admin port's; ``metrics``: the text of /metrics; ``terminal``, ``status``, ``file``, ``html``: what `parhelion report --json --html` printed, returned and wrote."""

    report: dict[str, Any]
    metrics: str
    terminal: str
    status: int
    file: dict[str, Any]
    html: str = ""

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """Each candidate's verdict."""
        return {one["name"]: one["verdict"] for one in self.report["shadows"] if "verdict" in one}

    def samples(self, shadow: str) -> dict[tuple[str, str], float]:
        """The judgement's samples of a shadow: by name (without the prefix), and by the value of the label beside ``shadow``."""
        found = {}
        for name, labels, value in re.findall(r"^parhelion_(\w+)\{([^}]*)\} (\S+)", self.metrics, re.MULTILINE):
            said = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            judgement = name in {"verdict", "log_e_value", "conversations_needed", "verdict_coverage", "trials_total"}
            if judgement and said.get("shadow") == shadow:
                found[name, said.get("test", said.get("result", ""))] = float(value)
        return found


def look(admin: str, config: Path, scratch: Path) -> Moment:
    """Ask a proxy that has settled all its work. The judge's metrics are those of a moment ago, so this waits until they have all conversations."""
    report = json.loads(_get(f"{admin}/api/v1/report"))
    limit = time.monotonic() + 60
    while True:
        metrics = _get(f"{admin}/metrics")
        seen = Moment(report, metrics, "", 0, {})
        if all(
            sum(n for (name, _), n in seen.samples(shadow).items() if name == "trials_total") == counted(verdict)
            for shadow, verdict in seen.verdicts().items()
        ):
            break
        assert time.monotonic() < limit, "the metrics did not come to the report's conversations within a minute"
        time.sleep(0.2)
    file = scratch / "told.json"
    page = scratch / "told.html"
    done = command(config, "report", "--json", str(file), "--html", str(page))
    terminal = " ".join(done.stdout.split())
    return Moment(report, metrics, terminal, done.returncode, json.loads(file.read_text()), page.read_text())


def counted_alike(moment: Moment) -> int:
    """Fail where what Prometheus counts of tokens and replies is not the report's; return how many numbers were held against it. For a judge that has not begun anew."""
    held = 0
    for shadow in moment.report["shadows"]:
        for mode, block in shadow["modes"].items():
            pairs = {
                ("compared_total", ""): block["compared"], ("in_flight", ""): block["in_flight"], ("tokens_compared_total", ""): block["tokens_compared"],
                ("logprob_error_nats_count", ""): block.get("logprob_error_nats", {}).get("count", 0),
                ("probability_error_count", ""): block.get("probability_error", {}).get("count", 0),
            }  # fmt: skip
            pairs |= {("flips_total", kind): n for kind, n in block.get("flips", {}).items()}
            if mode == "free":
                pairs |= {("divergences_total", kind): n for kind, n in block["divergences"].items()}
                pairs |= {
                    ("exposed_tokens_total", ""): block["exposed_tokens"],
                    ("tie_break_mismatches_total", ""): shadow["ties"]["tie_break_mismatches"],
                    ("output_length_ratio_count", ""): block.get("output_length_ratio", {}).get("count", 0),
                }  # fmt: skip
            for (name, kind), expected in pairs.items():
                labels = {"shadow": shadow["name"]} | ({"class": kind} if kind else {})
                assert _total(moment.metrics, name, labels, mode) == expected, (name, labels)
                held += 1
    return held


def _total(metrics: str, name: str, labels: dict[str, str], mode: str) -> float:
    """The sum of a metric's samples that have such labels; of those that tell modes apart this mode's."""
    total = 0.0
    for given, value in re.findall(rf"^parhelion_{name}\{{([^}}]*)\}} (\S+)", metrics, re.MULTILINE):
        said = dict(re.findall(r'(\w+)="([^"]*)"', given))
        if labels.items() <= said.items() and said.get("mode", mode) == mode:
            total += float(value)
    return total


def command(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of Parhelion's on this configuration."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "proxy.cli", *words, "-c", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"},
    )


def counted(verdict: dict[str, Any]) -> int:
    """Conversations that were counted, those without a result too."""
    return int(verdict["conversations"] + verdict["tally"]["missing"])


def consistent(moment: Moment) -> None:
    """Fail where report, HTML, metrics, terminal and exit status do not say the same of each candidate, or anything of a control."""
    verdicts = moment.verdicts()
    assert page_numbers.same_as(moment.file, moment.html) > 50
    controls = [one["name"] for one in moment.report["shadows"] if one["role"] == "control"]
    assert {one["name"]: one["verdict"] for one in moment.file["shadows"] if "verdict" in one} == verdicts
    assert moment.status == max((STATUS[one["state"]] for one in verdicts.values()), key=(0, 3, 1).index)
    for name in controls:
        assert name not in verdicts
        assert moment.samples(name) == {}
        assert not re.search(rf"\b{name}: (PASS|FAIL|KEEP WATCHING)", moment.terminal)
    for name, verdict in verdicts.items():
        evidence = {("log_e_value", test): verdict[f"log_e_{test}"] for test in ("fail", "pass")}
        if verdict["floor"] == "control":
            evidence["log_e_value", "worse_than_control"] = verdict["log_e_worse_than_control"]
        if (variation := verdict.get("total_variation")) is not None:
            evidence |= {("log_e_value", f"variation_{test}"): variation[f"log_e_{test}"] for test in ("fail", "pass")}
        if verdict["conversations_needed"] is not None:
            evidence["conversations_needed", ""] = verdict["conversations_needed"]
        if verdict["coverage"] is not None:
            evidence["verdict_coverage", ""] = verdict["coverage"]
        every = ("worse", "better", "both", "neither", "missing")
        evidence |= {("trials_total", result): verdict["tally"].get(result, 0) for result in every}
        assert moment.samples(name) == evidence | {("verdict", ""): CODE[verdict["state"]]}
        for sentence in sentences(name, verdict):
            assert sentence in moment.terminal, sentence


def sentences(name: str, verdict: dict[str, Any]) -> list[str]:
    """What the terminal must say of a verdict that is held against a control."""
    assert verdict["floor"] == "control"
    said = [f"{name}: {verdict['state']} after {verdict['conversations']} conversations"]
    if verdict["state"] == "KEEP WATCHING":
        digits = float(f"{verdict['conversations_needed']:.2g}")
        worse = verdict["excess"] > verdict["margin"]
        said[0] += f"; about {digits:,.0f} more to a {'FAIL' if worse else 'PASS'} if it goes on like this"
    else:
        low, high = (f"{100 * edge:.3g} %" for edge in verdict["excess_interval"])
        said[0] += (
            f": bad more often than the control by {100 * verdict['excess']:.3g} % of them ({low} to {high}, {100 * (1 - verdict['alpha']):g} % sure at all times)"
        )
    tally = verdict["tally"]
    bad, floor = tally["worse"] + tally["both"], tally["better"] + tally["both"]
    said.append("None was bad." if not bad + floor else f"Bad in {bad} (")
    if bad + floor:
        said.append(f"; the control in {floor}")
    if tally["missing"]:
        said.append(f"{tally['missing']} more have no result")
    return said


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as reply:
        return str(reply.read().decode())
