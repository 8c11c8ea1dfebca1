"""The rules of what is known as the judge follows them: it counts what they match, and does nothing else with them.

House rules. ``look`` reads the disk and belongs to the thread of the store; ``count`` belongs to the event loop. What cannot be read matches nothing, and is said once.
"""

from __future__ import annotations

import logging
from pathlib import Path

from proxy import logs
from proxy.config import Config
from proxy.ledger import known, known_file
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.known import KnownError, Rules
from proxy.ledger.query import gravest
from proxy.ledger.record import Record

logger = logging.getLogger("parhelion")


class Knowing:
    """The rules in the state directory, as they were at the last look."""

    def __init__(self, config: Config, metrics: JudgeMetrics) -> None:
        self._config, self._metrics = config, metrics
        self._rules, self._now = Rules(), 0.0
        self._as_of: tuple[int, int] | None = None

    def look(self, now: float) -> None:
        """Read the rules again where their file has changed. ``now`` in Unix seconds."""
        self._now = now
        try:
            there = (Path(self._config.state) / known_file.FILE).stat()
            as_of = (there.st_mtime_ns, there.st_ino)
        except OSError:
            as_of = None
        if as_of == self._as_of:
            return
        self._as_of = as_of
        try:
            self._rules = known_file.load(self._config)
        except KnownError as error:
            self._rules = Rules()
            logs.say(logger, logging.ERROR, "known_unreadable", error=str(error))

    def count(self, record: Record) -> None:
        """Count a record that a rule in force matches, once however many do."""
        rules = self._rules.in_force(self._now)
        if rules and known.names(rules, record):
            kind = gravest(record.comparison)
            self._metrics.known(record.shadow, record.comparison.mode, "none" if kind is None else kind.value)
