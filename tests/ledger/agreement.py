"""Whether a report's numbers are those of an export, recomputed by ``recompute.py`` in a process that cannot import the product."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def recomputed(export: Path) -> dict[str, Any]:
    """The numbers of an export."""
    script = Path(__file__).with_name("recompute.py")
    done = subprocess.run(
        [sys.executable, "-I", script, export], capture_output=True, text=True, check=True, timeout=60
    )
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
