"""How many of a report's records are known, by which rule: a part of the report of its own, on which nothing else in it depends.

House rules. Counts and nothing more. Where the rules cannot be read the part is absent, for nobody knows.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from proxy.config import Config
from proxy.ledger import known_file
from proxy.ledger.known import KnownError, Rule, matches, row
from proxy.ledger.record import Record


class KnownCount:
    """The rules in force at a time (Unix seconds), and what they match."""

    def __init__(self, config: Config, now: float) -> None:
        try:
            self._rules: tuple[Rule, ...] = known_file.load(config).in_force(now)
        except KnownError:
            self._rules = ()
        self._records: Counter[str] = Counter()
        self._differing: Counter[str] = Counter()
        self._any = 0

    def take(self, record: Record) -> None:
        """Count one record."""
        if not self._rules:
            return
        found = row(record)
        names = [rule.name for rule in self._rules if matches(rule, found)]
        self._any += bool(names)
        self._records.update(names)
        if found["class"] or found["outcome"] == "diverged":
            self._differing.update(names)

    def shown(self) -> dict[str, Any]:
        """Return the report's part ``known``; nothing without rules."""
        if not self._rules:
            return {}
        rules = [
            {
                "name": rule.name,
                "records": self._records[rule.name],
                "differing": self._differing[rule.name],
                "expires": rule.expires,
                "reason": rule.reason,
            }
            for rule in self._rules
        ]
        return {"known": {"records": self._any, "rules": rules}}
