"""Second question of the Overview: do the engines agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.ledger.pages.reading import Seen
from proxy.ledger.verdict_lines import verdict_lines

_TONES = {"PASS": "good", "FAIL": "bad"}


def view(seen: Seen, recent: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the answer in words, and each candidate. ``recent``: the report over the newest records, None while there is none."""
    candidates = [_candidate(name, verdict, recent) for name, verdict in _verdicts(seen).items()]
    states = [one["state"] for one in candidates]
    return {
        "tone": _tone(states),
        "word": _word(states),
        "candidates": candidates,
        "controls": [one.name for one in seen.config.shadows if one.role == "control"],
        "gravest": [] if seen.stored is None else seen.stored.gravest,
    }


def _verdicts(seen: Seen) -> dict[str, dict[str, Any]]:
    return {} if seen.stored is None else seen.stored.verdicts


def _tone(states: list[str]) -> str:
    return "bad" if "FAIL" in states else "good" if states and set(states) == {"PASS"} else "warn" if states else ""


def _word(states: list[str]) -> str:
    if not states:
        return "Nothing to say yet"
    if "FAIL" in states:
        return "No" if set(states) == {"FAIL"} else "Not all"
    return "Yes" if set(states) == {"PASS"} else "Not known yet"


def _candidate(name: str, verdict: dict[str, Any], recent: Mapping[str, Any] | None) -> dict[str, Any]:
    [said] = verdict_lines({"command": "", "shadows": [{"name": name, "verdict": verdict}]})
    return {
        "name": name,
        "state": verdict["state"],
        "tone": _TONES.get(verdict["state"], "warn"),
        "said": said.partition(": ")[2],
        "verdict": verdict,
        "rates": _rates(name, recent),
    }


def _rates(name: str, recent: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """First differences for each 1,000 tokens, of the newest records; None where that is not known."""
    shadows = [] if recent is None else recent["shadows"]
    block = next((one["modes"].get("free") for one in shadows if one["name"] == name), None)
    hazard = None if block is None else block.get("hazard_per_1000_tokens")
    if block is None or not hazard or hazard.get("raw") is None:
        return None
    return {
        "raw": hazard["raw"],
        "floor": hazard.get("floor"),
        "excess": hazard.get("excess"),
        "interval": hazard.get("interval"),
        "of_excess": hazard.get("excess") is not None,
        "exposed": block.get("exposed_tokens"),
        "requests": block.get("requests"),
        "divergences": block.get("divergences"),
    }
