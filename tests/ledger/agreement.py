"""Whether a report's numbers are those of an export, recomputed by ``recompute.py`` and ``recompute_verdict.py`` in a process that cannot import the product."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def recomputed(export: Path, script: str = "recompute.py", *words: str) -> dict[str, Any]:
    """The numbers of an export."""
    command = [sys.executable, "-I", Path(__file__).with_name(script), export, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return dict(json.loads(done.stdout))


def same(one: Any, other: Any, place: str = "") -> None:
    """Equal structures, numbers to twelve digits; absent and null are the same."""
    if isinstance(other, dict):
        for key in other.keys() | ({} if one is None else one).keys():
            same((one or {}).get(key), other.get(key), f"{place}/{key}")
    elif isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-15), place
    else:
        assert one == other or (one == {} and other is None), place


def check(report: dict[str, Any], export: Path) -> None:
    """Fail where a number of the report is not that of the export."""
    other = recomputed(export)
    same(report["primary"]["tokens_source"], other["tokens_source"])
    for shadow in report["shadows"]:
        theirs = other["shadows"][shadow["name"]]
        for mode in ("free", "forced"):
            ours = dict(shadow["modes"].get(mode, {}))
            if mode == "free" and ours:
                ours["hazard_raw"] = ours.get("hazard_per_1000_tokens", {}).get("raw")
            if (noise := ours.get("expected_flips")) is not None:  # what is beyond it is worked out in tests/compare
                ours["expected_flips"] = {key: noise[key] for key in ("sum", "requests") if key in noise} or None
            same({key: ours.get(key) for key in theirs[mode]}, theirs[mode], f"{shadow['name']}/{mode}")
        for arm in ("primary", "shadow"):
            same(shadow["latency"]["time_to_first_token_seconds"][arm], theirs["latency"][arm]["first"])
            same(shadow["latency"]["inter_token_seconds"][arm], theirs["latency"][arm]["gaps"])
        assert {one["finding"]: one["count"] for one in shadow["findings"]} == theirs["findings"]


def check_verdicts(report: dict[str, Any], export: Path) -> None:
    """Fail where a candidate's verdict, or what it rests on, does not follow from the export. Every request must have a record there, of one pair of stacks."""
    judged = {shadow["name"]: shadow["verdict"] for shadow in report["shadows"] if "verdict" in shadow}
    terms = next(iter(judged.values()))["terms"]
    other = recomputed(export, "recompute_verdict.py", *(str(terms[name]) for name in ("alpha", "margin", "allowance")))
    assert judged.keys() == other.keys()
    for name, ours in judged.items():
        theirs = other[name]
        by = {one["by"]: [one["candidate"], *([one["control"]] if "control" in one else [])] for one in ours["bad_by"]}
        assert by == theirs.pop("bad_by"), name
        # By halving to a ten-millionth of the range, and to one conversation.
        assert ours["excess_interval"] == pytest.approx(theirs.pop("excess_interval"), abs=4e-7), name
        needed = theirs.pop("conversations_needed")
        assert ours["conversations_needed"] == (needed if not needed else pytest.approx(needed, abs=1)), name
        for key in ("log_e_fail", "log_e_pass", "log_e_worse_than_control", "excess"):
            assert ours[key] == pytest.approx(theirs.pop(key), rel=1e-9, abs=1e-9), f"{name}/{key}"
        same({key: ours[key] for key in theirs}, theirs, f"{name}/verdict")


def check_headlines(report: dict[str, Any], export: Path) -> int:
    """Fail where a headline number, its floor or excess, a hazard by position, a survival or a pick of tied tokens is not that of the export; return how many were held against it."""
    other, held = recomputed(export, "recompute_headline.py"), 0
    for shadow in report["shadows"]:
        for mode, block in shadow["modes"].items():
            theirs = other.get(shadow["name"], {}).get(mode, {"headline": {}})
            ours = block.get("headline", {})
            assert ours.keys() == theirs["headline"].keys(), f"{shadow['name']}/{mode}"
            for name, number in theirs["headline"].items():
                for key in ("n", "floor_n"):
                    assert ours[name].get(key) == number.get(key), f"{shadow['name']}/{mode}/{name}/{key}"
                for key in ("raw", "floor"):
                    if key in number:
                        held += 1
                        assert ours[name][key] == _near(name, number[key]), f"{shadow['name']}/{mode}/{name}/{key}"
                if "excess" in number:
                    assert ours[name]["excess"] == pytest.approx(ours[name]["raw"] - ours[name]["floor"], abs=1e-12)
            if mode == "free":
                held += _along(shadow, block, theirs)
    return held


def _near(name: str, value: float) -> Any:
    """A quantile comes from bins that are 1/32 of it wide; all else is the same to eleven digits."""
    binned = name.startswith(("median_", "p90_", "p99_"))
    return pytest.approx(value, rel=1 / 32 if binned else 1e-9, abs=1 if name == "p99_rank" else 1e-11)


def _along(shadow: dict[str, Any], block: dict[str, Any], theirs: dict[str, Any]) -> int:
    blocks = [{key: one[key] for key in ("from", "to", "exposed", "events")} for one in block.get("by_position", [])]
    assert blocks == theirs.get("by_position", []), shadow["name"]
    for one in block.get("by_position", []):
        raw = one["hazard_per_1000_tokens"]["raw"]
        assert raw == pytest.approx(1000 * one["events"] / one["exposed"], rel=1e-12)
    survival = block.get("survival", {})
    values = survival.get(shadow["role"], [])
    for position, value in zip(survival.get("positions", []), values, strict=bool(values)):
        expected = theirs["survival"].get(str(position))
        assert value == (None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-12)), position
    ties = shadow["ties"]
    assert ties["tie_break_mismatches"] == theirs.get("ties", {}).get("mismatches", 0)
    if ties["shadow_mode"] == "free" and "ties" in theirs:
        assert ties["shadow_exact"] == theirs["ties"]["shadow"]["n"]
    if "ties" in theirs:
        assert {key: n for key, n in ties["shadow_pick"].items() if n} == theirs["ties"]["shadow"]["picks"]
    return len(blocks) + len(values)
