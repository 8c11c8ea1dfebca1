"""What the judge holds of its verdicts while it lives: the sums as they are in the store, and a drift detector for each candidate that is held against a control.

House rules. Fed with what the store has counted and in that order, nothing else. The sums come from the store at the start; a detector's state is kept with the number
of the last trial it has seen, and later ones are fed to it at the start, so that it goes on as if nothing had ended. An alarm is said once, and the detector begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from proxy.compare.e_detector import Detector
from proxy.compare.trial import Result
from proxy.compare.verdict import Terms, judge, verdict_of_variation
from proxy.config import Config
from proxy.ledger import tallies
from proxy.ledger.events import Event
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.store import Key, Store
from proxy.ledger.tallies import Counted, Numbered, Scope, Tallies
from proxy.ledger.verdict_metrics import Known
from proxy.ledger.verdicts import latest, terms_of

#: Its key in the store's state, and the kind of its event.
KEY, DRIFT = "drift", "drift"


#: Sheds of exchanges that died with a process, before anybody knew what they were.
_DIED = frozenset({"lost_on_crash", "store_replaced"})


class _Lost(NamedTuple):
    """A candidate and why something of it was lost."""

    shadow: str
    reason: str


class _Kept(Struct):
    """A life's detectors by candidate, each with the key of its scope, the number of the last trial they have seen, alarms that are not said yet, and losses that are counted."""

    last: int = 0
    detectors: dict[str, tuple[str, Detector]] = {}
    due: list[Event] = []
    lost: dict[str, int] = {}


class Evidence:
    """Sums and detectors; ``report`` says what they say."""

    def __init__(self, config: Config, store: Store, metrics: JudgeMetrics) -> None:
        self._metrics = metrics
        self._tallies: Tallies = store.tallies()
        self._kept = _decoded(store.get_state(KEY))
        self._changed: set[str] = set()
        self._lost: dict[_Lost, int] = {}
        self._scopes: Mapping[str, Scope] = {}
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
            if number.seq:
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

    def look(self, shed: Mapping[str, int], counts: Mapping[Key, int], scopes: Mapping[str, Scope]) -> None:
        """Note what has been lost so far without reaching a desk: ``shed`` by the traffic processes, by reason, and with processes that died (``counts``).

        ``scopes``: of which stacks a result would be now, by candidate. What was lost before a candidate was first looked at is not its own.
        """
        self._scopes = scopes
        self._lost = {_Lost(name, reason): n for name in scopes for reason, n in shed.items()}
        for key, n in counts.items():
            if key.shadow in scopes and key.outcome == "shed" and key.reason in _DIED:
                place = _Lost(key.shadow, key.reason)
                self._lost[place] = max(n, self._lost.get(place, 0))  # an exchange is lost in each of its modes
        for place, n in self._lost.items():
            name = "\0".join(place)
            if n < self._kept.lost.setdefault(
                name, n
            ):  # the counters began anew, on a state folder that is: all that they count is new
                self._kept.lost[name] = 0

    def losses(self, now: float) -> tuple[Counted, ...]:
        """Take what was lost since the last time as missing results: nobody knows whose, so each counts. ``now``: Unix seconds."""
        found: list[Counted] = []
        for place, n in self._lost.items():
            more = n - self._kept.lost["\0".join(place)]
            if more > 0:
                self._kept.lost["\0".join(place)] = n
                found.append(Counted(self._scopes[place.shadow], "", "", now, Result.MISSING, place.reason, n=more))
        return tuple(found)

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
            controlled, shares = bool(scope.control), tallied.variations
            variation = verdict_of_variation(shares, self._terms, controlled=controlled) if shares.total else None
            verdict = judge(tallied.tally(controlled=controlled), self._terms)
            self._metrics.verdict(name, Known(verdict, variation, log_e, tallies.results(self._tallies, name)))
        self._changed.clear()


def _decoded(kept: bytes | None) -> _Kept:
    if kept is None:
        return _Kept()
    try:
        found = msgspec.msgpack.decode(kept, type=_Kept)
    except msgspec.MsgspecError:  # an older layout: the detectors begin anew with what is kept
        return _Kept()
    found.detectors = {
        name: one for name, one in found.detectors.items() if one[1].sound
    }  # ... and those of another grid
    return found
