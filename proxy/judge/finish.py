"""The last that is done to settlements before they are written: what a record is shown with is made, and the redaction hook sees it all.

House rules. ``take`` and ``say`` belong to the event loop, ``finished`` to the thread of the store: making a record's detail takes as long as comparing did, and a hook may take a second.
A fault of ours costs the detail and not the record.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor

from msgspec.structs import replace

from proxy import logs
from proxy.config import Config
from proxy.exchange import Exchange
from proxy.judge import shown
from proxy.judge.desk import Done
from proxy.judge.redactor import of
from proxy.judge.settle import record_id
from proxy.judge.shown import Seen
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.record import Settlement

logger = logging.getLogger("parhelion")


class Finish:
    """``thread``: that of the store."""

    def __init__(self, config: Config, metrics: JudgeMetrics, thread: Executor) -> None:
        self._metrics, self._thread = metrics, thread
        self._seen: dict[str, tuple[Seen, str]] = {}
        self._redactor = of(config, None)
        self._withheld: list[str] = []
        self._said: set[str] = set()

    def configure(self, config: Config) -> None:
        """Work by another configuration. Where that keeps no text the hook stays: what is under way may hold some, and was to be shown to it."""
        if config.records.content != "text":
            return
        before, self._redactor = self._redactor, of(config, self._redactor)
        if before is not None and before is not self._redactor:
            self._thread.submit(before.close)

    def take(self, done: Done, exchange: Exchange) -> None:
        """Note what an exchange's records were made of, until they are written or given up."""
        if done.examined is None:
            return
        policy = done.examined.context.policy.content
        for outcome in done.examined.outcomes:
            if outcome.seen is not None and outcome.shed is None:
                self._seen[record_id(exchange.id, outcome.shadow, outcome.mode.value)] = (outcome.seen, policy)

    def give_up(self, batch: Sequence[Settlement]) -> None:
        """Forget what settlements were made of that will not be written."""
        for one in batch:
            if one.record is not None:
                self._seen.pop(one.record.id, None)

    def finished(self, batch: Sequence[Settlement]) -> list[Settlement]:
        """Return the settlements as they are written."""
        whole = [self._with_detail(one) for one in batch]
        return whole if self._redactor is None else self._redactor.redacted(whole, self._withheld.append)

    def _with_detail(self, one: Settlement) -> Settlement:
        record = one.record
        if record is None or (known := self._seen.pop(record.id, None)) is None:
            return one
        try:
            detail = shown.detail(record.comparison, *known)
        except Exception:
            logger.exception("detail_failed")  # the formatter writes where and what kind
            return one
        return one if detail is None else replace(one, detail=detail)

    def say(self) -> None:
        """Count the records whose texts were withheld because the redaction hook failed; each reason is said once."""
        failures, self._withheld = self._withheld, []
        for reason in failures:
            self._metrics.redaction_failed(reason)
        for reason in sorted(set(failures) - self._said):
            logs.say(logger, logging.ERROR, "redaction_failed", reason=reason, kept="numbers alone")
            self._said.add(reason)

    def close(self) -> None:
        """Let go of the hook."""
        if self._redactor is not None:
            self._redactor.close()
