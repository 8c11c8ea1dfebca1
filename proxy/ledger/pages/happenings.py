"""Events of the store as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from proxy.ledger.events import Event
from proxy.ledger.pages.visible import amount, shortened

_TONES = {"drift": "bad", "store_lost": "bad", "footprint_changed": "warn", "probe_changed": "warn"}


def view(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return each event with what it says; unknown kinds by their name alone."""
    return [
        {"time": one.time, "kind": one.kind, "tone": _TONES.get(one.kind, ""), "said": _said(one.kind, one.detail)}
        for one in events
    ]


def _said(kind: str, detail: Mapping[str, Any]) -> str:
    match kind:
        case "footprint_changed":
            fields = dict(detail.get("fields") or {})
            changed = ", ".join(f"{name} {_value(pair[0])} → {_value(pair[1])}" for name, pair in fields.items())
            return f"{_value(detail.get('arm'))} is another stack now: {changed}"
        case "probe_changed":
            numbers = [detail.get(name) for name in ("shift_nats", "flips", "probes")]
            if not all(isinstance(one, int | float) for one in numbers):
                return f"{_value(detail.get('arm'))} answers its near-tie probes otherwise than before"
            shift, flips, probes = map(amount, numbers)
            return f"{_value(detail.get('arm'))} answers its near-tie probes otherwise than before, on the same footprint: gaps moved by {shift} nat, {flips} of {probes} first tokens are others"
        case "drift":
            log_e = detail.get("log_e")
            evidence = f" (log evidence {amount(log_e)})" if isinstance(log_e, int | float) else ""
            return f"{_value(detail.get('shadow'))} has become worse than it was{evidence}"
        case "store_lost":
            return f"the record store was lost under way ({_value(detail.get('how'))}); one was begun anew, all counts were kept"
        case _:
            return kind.replace("_", " ")


def _value(value: object) -> str:
    return "unknown" if value is None else shortened(value, 60)
