"""Differences that somebody knows of: named rules with an expiry, that mark records and hide them in lists. They still count everywhere.

House rules. Pure: what is asked is understood whole or refused with what would be right. No verdict, count or rate ever looks at a rule. A rule matches by the
columns that the store lists records by, each by equality, so that SQL and ``matches`` say the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from proxy.ledger.bounds import MODEL, short
from proxy.ledger.query import COLUMNS, columns
from proxy.ledger.record import Record

MOST_RULES = 200
MOST_DAYS = 366
_DAY = 86400.0
_REASON = 500
_LATEST = 1e11  # Unix seconds: a date that calendars have
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_AGE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)([mhdw])")
_SECONDS = {"m": 60.0, "h": 3600.0, "d": _DAY, "w": 7 * _DAY}
_COLUMN = {"difference": "class", "record": "id"}
_EXAMPLE = (
    '{"name": "ties-on-h200", "match": {"shadow": "NAME", "class": "exact_tie"}, "expires": "14d", "reason": "why"}'
)


class KnownError(Exception):
    """It cannot be done; the text says what would be right. ``status``: as HTTP has it."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Match(Struct, frozen=True, forbid_unknown_fields=True, rename=_COLUMN, omit_defaults=True):
    """What a rule's records have in common: every field that is set must be equal. ``difference``: the gravest class; ``record``: one record alone."""

    shadow: str | None = None
    mode: str | None = None
    model: str | None = None
    endpoint: str | None = None
    outcome: str | None = None
    difference: str | None = None
    finding: str | None = None
    record: str | None = None

    def columns(self) -> dict[str, str]:
        """Return what is asked for, by the names that columns and JSON have for it."""
        found = {_COLUMN.get(name, name): value for name, value in asdict(self).items() if value is not None}
        return found | {"model": short(found["model"], MODEL)} if "model" in found else found


class Rule(Struct, frozen=True):
    """One rule. ``expires`` and ``created`` are Unix seconds: it is in force before ``expires``, for records of any age."""

    name: str
    match: Match
    expires: float
    created: float
    reason: str = ""

    def in_force(self, now: float) -> bool:
        """Whether it marks anything at a time."""
        return now < self.expires


class Rules(Struct, frozen=True):
    """All of them, by name; as kept on disk."""

    rules: tuple[Rule, ...] = ()

    def in_force(self, now: float) -> tuple[Rule, ...]:
        """Return those that have not expired."""
        return tuple(rule for rule in self.rules if rule.in_force(now))

    def without(self, name: str) -> Rules:
        """Return the rest. Raises KnownError when there is none of that name."""
        left = tuple(rule for rule in self.rules if rule.name != name)
        if len(left) == len(self.rules):
            raise KnownError(
                f"no rule has that name; there are: {', '.join(rule.name for rule in self.rules) or 'none'}", 404
            )
        return Rules(left)

    def having(self, rule: Rule, now: float) -> Rules:
        """Return them with one more, or with one of the same name renewed; expired ones make room. Raises KnownError when there are too many."""
        left = [one for one in self.rules if one.name != rule.name]
        if len(left) >= MOST_RULES:
            left = [one for one in left if one.in_force(now)]
        if len(left) >= MOST_RULES:
            raise KnownError(f"there are {MOST_RULES} rules already: delete one first")
        return Rules((*left, rule))


class _Asked(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    match: Match
    expires: str | float
    reason: str = ""


def read(body: bytes, now: float) -> Rule:
    """Read a rule as the API takes it. ``now`` in Unix seconds. Raises KnownError."""
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except msgspec.ValidationError as error:
        raise KnownError(f"{error}; give an object such as {_EXAMPLE}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise KnownError(f"the body must be a JSON object such as {_EXAMPLE}") from None
    return checked(asked.name, asked.match, asked.expires, asked.reason, now)


def checked(name: str, match: Match, expires: str | float, reason: str, now: float) -> Rule:
    """Make a rule of what somebody asks for. Raises KnownError naming the field that is wrong."""
    _fields(name, match, reason)
    return Rule(name, match, _end(expires, now), now, reason)


def sound(rule: Rule) -> None:
    """See that a rule from a file is one that could have been asked for, at some time. Raises KnownError naming the field that is wrong."""
    _fields(rule.name, rule.match, rule.reason)
    if not 0 <= rule.created <= rule.expires <= _LATEST:
        raise KnownError("expires, created: give Unix seconds, the end after the beginning")


def _fields(name: str, match: Match, reason: str) -> None:
    if not _NAME.fullmatch(name):
        raise KnownError(
            "name: give up to 63 letters, digits, dots, dashes and underscores, the first a letter or digit"
        )
    asked = match.columns()
    if not asked:
        raise KnownError("match: give at least one of shadow, mode, model, endpoint, outcome, class, finding, id")
    for field, value in asked.items():
        if not value or not value.isprintable():
            raise KnownError(f"match.{field}: give a text without control characters, or leave it out")
        if field == "finding" and " " in value:
            raise KnownError("match.finding: give one name, such as stop_handling")
    if len(reason) > _REASON:
        raise KnownError(f"reason: give at most {_REASON} characters")


def _end(expires: str | float, now: float) -> float:
    """When it ends: Unix seconds, an ISO 8601 time (without an offset UTC is meant), or an age from now."""
    if isinstance(expires, str) and (age := _AGE.fullmatch(expires.strip())):
        end = now + float(age[1]) * _SECONDS[age[2]]
    elif isinstance(expires, str):
        end = _moment(expires.strip())
    else:
        end = float(expires)
    if not math.isfinite(end) or not now < end <= now + MOST_DAYS * _DAY:
        raise KnownError(
            f"expires: give a time from now on, at most {MOST_DAYS} days ahead: 14d, 2026-01-31, or Unix seconds"
        )
    return end


def _moment(text: str) -> float:
    try:
        parsed = datetime.fromisoformat(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan


def row(record: Record) -> dict[str, object]:
    """Return a record's columns by their names."""
    return dict(zip(COLUMNS, columns(record), strict=True))


def matches(rule: Rule, found: Mapping[str, object]) -> bool:
    """Whether a record with these columns (``row``) is one of the rule's."""
    for field, value in rule.match.columns().items():
        if field == "finding":
            if f" {value} " not in str(found["findings"]):
                return False
        elif found[field] != value:
            return False
    return True


def names(rules: Iterable[Rule], record: Record) -> list[str]:
    """Return the names of the rules that a record is known by."""
    rules = tuple(rules)
    found = row(record) if rules else {}
    return [rule.name for rule in rules if matches(rule, found)]


def where(rules: Sequence[Rule]) -> tuple[str, list[object]]:
    """Return the condition in SQL on the table of records that any of the rules matches, and its parameters; "0" without rules."""
    terms: list[str] = []
    values: list[object] = []
    for rule in rules:
        each: list[str] = []
        for field, value in rule.match.columns().items():
            each.append("instr(findings, ?) > 0" if field == "finding" else f"{field} = ?")
            values.append(f" {value} " if field == "finding" else value)
        terms.append(f"({' AND '.join(each)})")
    return f"({' OR '.join(terms)})" if terms else "0", values


def as_json(rules: Rules, now: float) -> dict[str, Any]:
    """Return them JSON-ready, with whether each is in force."""
    each = [msgspec.to_builtins(rule) | {"in_force": rule.in_force(now)} for rule in rules.rules]
    return {"schema": "parhelion.known/1", "rules": each}
