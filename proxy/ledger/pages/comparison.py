"""The page of one comparison: what came of it in a sentence, both outputs token by token, what each engine believed at one place, what was asked, what else there is of the exchange.

House rules. Everything is in the address (``choice``, ``from``, ``token``), so that a link to a token is a link. What is not kept is said together with the setting that would keep it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web
from msgspec import Struct

from proxy.config import Config
from proxy.ledger import known, known_file
from proxy.ledger.detail import Detail
from proxy.ledger.listing import QueryError, brief
from proxy.ledger.pages import outputs
from proxy.ledger.pages.asking import asking
from proxy.ledger.pages.divergences import WORDS
from proxy.ledger.pages.frame import render
from proxy.ledger.pages.panel import panel
from proxy.ledger.pages.saying import MODES, REASONS, SOURCES, sentence
from proxy.ledger.pages.strands import Choice, start
from proxy.ledger.query import Filter, gravest
from proxy.ledger.record import Record, Timing
from proxy.ledger.remedies import Engine, advice, evidence_line
from proxy.ledger.site import SITE
from proxy.ledger.stack import stack_differences
from proxy.ledger.store import Store

SIBLINGS = 40
_MOST_INDEX = 10_000_000


class Seen(Struct, frozen=True):
    """Everything the page is made of."""

    record: Record
    detail: Detail | None
    footprints: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
    siblings: tuple[dict[str, Any], ...]
    rules: tuple[known.Rule, ...]


class Place(Struct, frozen=True):
    """What of it is looked at: which choice, from which token on, and the token whose panel is open; None where the address does not say."""

    choice: int = 0
    begin: int | None = None
    token: int | None = None


def place(query: Sequence[tuple[str, str]]) -> Place:
    """Read the address. Raises QueryError."""
    found: dict[str, int] = {}
    for name, value in query:
        if name not in ("choice", "from", "token", "part"):
            raise QueryError(f"{name}: unknown parameter; known are choice, from, token")
        if name != "part" and value:
            if not (value.isascii() and value.isdigit() and len(value) <= 8):
                raise QueryError(f"{name}: give a whole number")
            found[name] = int(value)
    return Place(found.get("choice", 0), found.get("from"), found.get("token"))


def read(config: Config, id: str, now: float) -> Seen | None:  # noqa: A002 - the contract's word
    """Read everything of a record; None when it is not kept. Raises StoreError."""
    with Store.open_read_only(config.records.url) as store:
        record = store.record(id)
        if record is None:
            return None
        beside = [one for one in store.records(Filter(exchange=record.exchange, limit=SIBLINGS)) if one.id != id]
        footprints = (store.footprint(record.primary_footprint), store.footprint(record.shadow_footprint))
        kept = store.detail(id)
    rules = known_file.load(config).in_force(now)
    return Seen(record, kept, footprints, tuple(brief(one) for one in beside), rules)


def view(seen: Seen, at: Place, config: Config) -> dict[str, Any]:
    """Return what the page shows."""
    record, comparison = seen.record, seen.record.comparison
    kind = gravest(comparison)
    chosen = choice(seen, at.choice)
    kept = _kept(seen)
    shown = (
        None
        if chosen is None
        else outputs.shown(chosen, start(chosen, at.begin if at.begin is not None else at.token), record.id)
    )
    token = at.token if at.token is not None else (None if chosen is None else chosen.at)
    return {
        "record": record,
        "sentence": sentence(record),
        "kind": "" if kind is None else kind.value,
        "words": WORDS,
        "facts": facts(seen),
        "arms": [_arm(seen, arm) for arm in ("primary", "shadow")],
        "stack_differences": len(stack_differences(seen.footprints[0] or {}, seen.footprints[1] or {})),
        "choices": [one.index for one in comparison.choices],
        "choice": at.choice,
        "outputs": shown,
        "texts": outputs.texts(record, at.choice) if kept == "text" and (shown is None or not shown["texts"]) else None,
        "panel": None if chosen is None or token is None else panel(chosen, token),
        "content": kept,
        "setting": config.records.content,
        "asking": asking(record.content.request) if record.content is not None and kept == "text" else None,
        "findings": _findings(record, seen.footprints),
        "siblings": seen.siblings,
        "known": known.names(seen.rules, record),
        "days": (1, 7, 14, 30, 90),
        "match": {name: value for name, value in _match(record).items() if value},
    }


def choice(seen: Seen, index: int) -> Choice | None:
    """Return one choice with what is kept beside it; None where nothing was compared by token."""
    compared = next((one for one in seen.record.comparison.choices if one.index == index), None)
    if compared is None:
        return None
    beside = None if seen.detail is None else next((one for one in seen.detail.choices if one.index == index), None)
    made = Choice(seen.record.comparison.mode, compared, beside)
    return made if max(made.length("primary"), made.length("shadow")) else None


def facts(seen: Seen) -> list[tuple[str, Any, str]]:
    """List what is known of it: name, value, what the value means."""
    record, comparison = seen.record, seen.record.comparison
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


def _arm(seen: Seen, arm: str) -> dict[str, Any]:
    record, primary = seen.record, arm == "primary"
    timing: Timing = record.primary_timing if primary else record.shadow_timing
    gaps = sorted(timing.gaps)
    stack = seen.footprints[0 if primary else 1] or {}
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


def _kept(seen: Seen) -> str:
    """Say what of the texts is kept of this record: ``text``, ``hash`` or ``none``."""
    sides = [side for one in (() if seen.detail is None else seen.detail.choices) for side in (one.primary, one.shadow)]
    if any(side.texts is not None for side in sides):
        return "text"
    content = seen.record.content
    if content is None:
        return "none"
    hashed = len(content.request) == 64 and not set(content.request) - set("0123456789abcdef")
    return "hash" if hashed else "text"


def _findings(record: Record, stacks: Sequence[Mapping[str, Any] | None]) -> list[dict[str, Any]]:
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


def _match(record: Record) -> dict[str, str]:
    kind = gravest(record.comparison)
    return {
        "class": "" if kind is None else kind.value,
        "finding": next(iter(record.comparison.findings), ""),
        "shadow": record.shadow,
        "model": record.model,
        "mode": record.comparison.mode.value,
    }


async def comparison(request: web.Request) -> web.Response:
    """Show the page, or (``part=panel``) the panel of a token alone."""
    site, query = request.app[SITE], list(request.query.items())
    at = place(query)
    seen = await site.read(read, site.config, request.match_info["id"], site.clock())
    if seen is None:
        raise web.HTTPNotFound
    alone = ("part", "panel") in query
    values = view(seen, at, site.config) | {"standalone": alone}
    return render(request, "panel.html" if alone else "comparison.html", values)
