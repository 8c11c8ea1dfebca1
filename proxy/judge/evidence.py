"""What the judge holds of its verdicts while it lives: the sums as they are in the store, and a drift detector for each candidate that is held against a control.

House rules. Fed with what the store has counted and in that order, nothing else. The sums come from the store at the start; a detector's state is kept with the number
of the last trial it has seen, and later ones are fed to it at the start, so that it goes on as if nothing had ended. An alarm is said once, and the detector begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from proxy.compare.e_detector import Detector
from proxy.compare.trial import Result
from proxy.compare.verdict import Terms, judge
from proxy.config import Config
from proxy.ledger import tallies
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.store import Event, Store
from proxy.ledger.tallies import Counted, Numbered, Tallies
from proxy.ledger.verdicts import latest, terms_of

#: Its key in the store's state, and the kind of its event.
KEY, DRIFT = "drift", "drift"


class _Kept(Struct):
    """A life's detectors by candidate, each with the key of its scope, the number of the last trial they have seen, and alarms that are not said yet."""

    last: int = 0
    detectors: dict[str, tuple[str, Detector]] = {}
    due: list[Event] = []


class Evidence:
    """Sums and detectors; ``report`` says what they say."""

    def __init__(self, config: Config, store: Store, metrics: JudgeMetrics) -> None:
        self._metrics = metrics
        self._tallies: Tallies = store.tallies()
        self._kept = _decoded(store.get_state(KEY))
        self._changed: set[str] = set()
        self.configure(config)
        self._replay(store)

    def configure(self, config: Config) -> None:
        """Judge by another configuration's terms; counts do not depend on them."""
        self._terms: Terms = terms_of(config)
        self._bound = config.drift.mean_conversations_between_false_alarms
        self._candidates = {shadow.name for shadow in config.shadows if shadow.role == "candidate"}
        self._metrics.verdicts_only_of(self._candidates)
        self._changed = set(self._candidates)

    def _replay(self, store: Store) -> None:
        scopes = {scope.key: scope.candidate for scope in self._tallies if scope.control}
        for one in store.trials(self._kept.last):
            self._feed(one, scopes.get(one.scope), one.seq)

    def take(self, counted: Iterable[tuple[Numbered, Counted]]) -> None:
        """Take in what has been counted, in its order."""
        counted = list(counted)
        tallies.add(self._tallies, counted)
        for number, one in counted:
            self._changed.add(one.scope.candidate)
            self._feed(number, one.scope.candidate if one.scope.control else None, number.seq)

    def _feed(self, one: Numbered, candidate: str | None, seq: int) -> None:
        self._kept.last = seq
        if candidate is None or one.result not in (Result.WORSE, Result.BETTER):
            return
        scope, detector = self._kept.detectors.get(candidate, ("", Detector()))
        if scope != one.scope:
            detector = Detector()
        detector = detector.after(worse=one.result is Result.WORSE)
        if detector.alarms(self._bound):
            said = {
                "shadow": candidate,
                "log_e": detector.log_e,
                "differing_conversations": detector.seen,
                "trial": seq,
            }
            self._kept.due.append(Event(0.0, DRIFT, said))
            detector = Detector()
        self._kept.detectors[candidate] = (one.scope, detector)
        self._changed.add(candidate)

    def next_alarm(self, now: float) -> Event | None:
        """Take an alarm that is to be said, None when there is none. ``now``: Unix seconds."""
        return self._kept.due.pop(0)._replace(time=now) if self._kept.due else None

    def put_back(self, alarm: Event) -> None:
        """Keep an alarm that could not be said."""
        self._kept.due.insert(0, alarm)

    def encode(self) -> bytes:
        """The detectors, for the store."""
        return msgspec.msgpack.encode(self._kept)

    def report(self) -> None:
        """Bring the metrics up to date where something has changed."""
        for name in self._changed & self._candidates:
            found = latest(self._tallies, name)
            if found is None:
                continue
            scope, tallied = found
            kept = self._kept.detectors.get(name)
            log_e = kept[1].log_e if kept is not None and kept[0] == scope.key else None
            verdict = judge(tallied.tally(controlled=bool(scope.control)), self._terms)
            self._metrics.verdict(name, verdict, log_e, tallies.results(self._tallies, name))
        self._changed.clear()


def _decoded(kept: bytes | None) -> _Kept:
    if kept is None:
        return _Kept()
    try:
        return msgspec.msgpack.decode(kept, type=_Kept)
    except msgspec.MsgspecError:  # an older layout: the detectors begin anew with what is kept
        return _Kept()
