"""The facts of one comparison beside its tokens: what was asked how, both arms' stacks and timings, findings with their remedies.

House rules. Pure. What was not measured is None; each value stands with what it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.ledger.pages.saying import MODES, REASONS, SOURCES
from proxy.ledger.record import Record, Timing
from proxy.ledger.remedies import Engine, advice, evidence_line


def facts(record: Record) -> list[tuple[str, Any, str]]:
    """List what is known of it: name, value, what the value means."""
    comparison = record.comparison
    source = None if comparison.source is None else comparison.source.value
    found: list[tuple[str, Any, str]] = [
        ("Model", record.model, ""),
        ("Endpoint", record.endpoint, "streamed" if record.request.stream else ""),
        ("Mode", comparison.mode.value, MODES[comparison.mode.value]),
        ("Primary's tokens from", source, SOURCES.get(source or "", "")),
        (
            "Temperature",
            record.request.temperature,
            {True: "greedy", False: "sampled"}.get(bool(comparison.greedy), "")
            if comparison.greedy is not None
            else "",
        ),
        ("Near-tie threshold", comparison.tau, f"nats, {comparison.tau_origin}" if comparison.tau_origin else ""),
        ("Load when sent", record.in_flight, "requests in flight"),
        ("Prompt tokens", record.request.prompt_tokens, _prompts(record)),
    ]
    if comparison.values_incomparable:
        found.append(
            ("Values not comparable", comparison.values_incomparable, "only the tokens are held against each other")
        )
    if comparison.expected_flips is not None:
        found.append(
            (
                "Expected of noise",
                round(comparison.expected_flips, 4),
                "differences that the control's own noise makes at these gaps",
            )
        )
    if comparison.incomparable is not None:
        found.append(("Reason", comparison.incomparable, REASONS.get(comparison.incomparable, "")))
        found.append(("The engine's words", comparison.detail, ""))
    return found


def _prompts(record: Record) -> str:
    cached = "" if record.cached_tokens is None else f"{record.cached_tokens:,} of them cached; "
    other = record.request.shadow_prompt_tokens
    return f"{cached}shadow: {'not said' if other is None else f'{other:,}'}"


def arm_of(record: Record, arm: str, stack: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of one arm: its stack as stored, its timings in seconds."""
    primary = arm == "primary"
    timing: Timing = record.primary_timing if primary else record.shadow_timing
    gaps = sorted(timing.gaps)
    return {
        "arm": arm,
        "name": "primary" if primary else record.shadow,
        "role": "primary" if primary else record.role,
        "footprint": record.primary_footprint if primary else record.shadow_footprint,
        "stack": [stack[name] for name in ("engine", "version", "dtype", "quantization", "gpu") if stack.get(name)],
        "first_token": timing.first_token,
        "end": timing.end,
        "gap": gaps[len(gaps) // 2] if gaps else None,
        "gaps": len(gaps),
    }


def findings(record: Record, stacks: Sequence[Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return its findings with what to make of each; ``stacks``: both footprints."""
    names = {"primary": "primary", "shadow": record.shadow}
    arms = {
        arm: Engine(names[arm], str((stack or {}).get("engine") or ""))
        for arm, stack in zip(names, stacks, strict=True)
    }
    found = []
    for name in record.comparison.findings:
        evidence = record.comparison.evidence.get(name, {})
        known_of = advice(name, evidence, arms)
        found.append(
            {
                "name": name,
                "severity": known_of.severity,
                "seen": known_of.seen,
                "remedy": known_of.remedy,
                "evidence": evidence_line(evidence),
            }
        )
    return found
