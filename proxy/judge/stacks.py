"""What is known of each engine's stack, and what happens when it turns out to be another one.

House rules. A change is said once: an event in the store, a counter, a line in the log. It takes effect at one moment: exchanges that began before it are not
compared (``incomparable{footprint_changed}``), since nobody knows which of the two stacks answered them, and what was learned of the noise is forgotten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from engines.footprint import Difference, Fact, Footprint, Origin, changes, redact
from engines.probe import Probe
from proxy import logs
from proxy.judge.arm import Arm
from proxy.judge.case import FOOTPRINT_CHANGED, ShadowArm
from proxy.judge.ledger import Ledger
from proxy.judge.spec import PRIMARY, Who
from proxy.ledger import engine_state
from proxy.ledger.engine_state import EngineState
from proxy.ledger.events import Event
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.store_error import StoreError

logger = logging.getLogger("parhelion")

_ASKED_BY_PROBE = 20  # an engine that gave so many may give more; one that gave fewer has said its most


class Stacks:
    """The engines' stacks as last found, by arm; ``shadows`` may be replaced when the configuration changes."""

    def __init__(self, ledger: Ledger, metrics: JudgeMetrics, shadows: Sequence[ShadowArm]) -> None:
        self.ledger, self.metrics, self.shadows = ledger, metrics, shadows
        self._known: dict[str, tuple[Who, Probe]] = {}
        self._state = engine_state.decode(ledger.store.get_state(engine_state.KEY))
        ledger.keep(engine_state.KEY, lambda: engine_state.encode(self._state))

    def resume(self, arms: Iterable[tuple[Arm, Who]]) -> None:
        """Give arms that have not been probed yet the stack they had when last seen: what they fail to answer meanwhile is missing of that one."""
        for arm, who in arms:
            state = self._state.get(arm.name)
            if not arm.footprint and state is not None and state.url == redact(who.url):
                arm.footprint = state.footprint

    def probe_of(self, arm: Arm, who: Who) -> Probe | None:
        """Return what was last found of an arm, as long as it is the same engine by the configuration."""
        known = self._known.get(arm.name)
        return known[1] if known is not None and known[0] == who else None

    def same(self, arm: Arm) -> None:
        """Note that an arm's stack was looked at and is the same; when it was away, the probe that follows may still find another from then on."""
        looked = time.time() if arm.away is None else arm.away
        arm.away = None
        if (state := self._state.get(arm.name)) is not None:
            self._state[arm.name] = replace(state, looked=looked)

    def found(self, arm: Arm, who: Who, probe: Probe) -> None:
        """Write what was found of an engine into the arm, the store and the metrics; say what has changed since it was last seen."""
        known, earlier = self.probe_of(arm, who), self._earlier(arm, who)
        before = known.footprint if known is not None else earlier
        changed = changes(before, probe.footprint) if before is not None else ()
        if known is not None and not changed:
            probe = replace(probe, footprint=known.footprint)  # a route that failed this time changes no stack
        if before is not None and changed:
            self._changed(arm, before.id, probe.footprint.id, changed)
        self._settle(arm, probe)
        self._known[arm.name] = (who, probe)
        level = probe.capabilities.level.value
        origins = probe.footprint.origins()
        self._state[arm.name] = EngineState(redact(who.url), arm.footprint, level, time.time(), origins)
        arm.away = None

    def _earlier(self, arm: Arm, who: Who) -> Footprint | None:
        """Return the stack it had when the judge's life before ended."""
        state = self._state.get(arm.name)
        if state is None or arm.name in self._known or state.url != redact(who.url):
            return None
        try:
            fields = self.ledger.store.footprint(state.footprint)
        except StoreError:
            return None
        return None if fields is None else Footprint({name: _kept(value) for name, value in fields.items()})

    def _changed(self, arm: Arm, was: str, is_now: str, changed: Sequence[Difference]) -> None:
        now = time.time()
        state = self._state.get(arm.name)
        confirmed = arm.away if arm.away is not None else state.looked if state is not None else now
        arm.changed = now  # before the new footprint: whoever reads that one sees this, too
        fields = {one.field: [one.one.value, one.other.value] for one in changed}
        detail = {"arm": arm.name, "was": was, "now": is_now, "confirmed": confirmed, "fields": fields}
        concerned = [one.arm.name for one in self.shadows if arm.name in (PRIMARY, one.arm.name)]
        self.metrics.footprint_changed(arm.name, concerned)
        if arm.name == PRIMARY or any(one.role == "control" for one in self.shadows if one.arm is arm):
            self.ledger.noise.forget()
        said = {"arm": arm.name, "was": was, "now": is_now, "fields": ", ".join(fields)}
        logs.say(logger, logging.WARNING, FOOTPRINT_CHANGED, **said)
        try:
            self.ledger.store.add_event(Event(now, FOOTPRINT_CHANGED, detail))
        except StoreError as error:
            logs.say(logger, logging.ERROR, "store_failed", reason=error.reason, settlements=0)

    def _settle(self, arm: Arm, known: Probe) -> None:
        learn(arm, known)
        try:
            self.ledger.store.put_footprint(arm.footprint, known.footprint.as_json(), time.time())
        except StoreError as error:
            logs.say(logger, logging.ERROR, "store_failed", reason=error.reason, settlements=0)
        self.metrics.footprint(arm.name, known.footprint.as_json())
        self.metrics.capabilities(arm.name, known.capabilities, known.prompt)


def learn(arm: Arm, known: Probe) -> None:
    """Write into an arm what its engine is."""
    seen = known.capabilities
    arm.defaults = known.defaults
    arm.alternatives = seen.top_logprobs if 0 < seen.top_logprobs < _ASKED_BY_PROBE else None
    if seen.text_only:  # some refuse a request over logprobs they do not give
        arm.alternatives = 0
    arm.forced = seen.forced
    arm.logprob_mode = seen.logprob_mode
    arm.dtype = known.footprint.value("dtype")
    arm.context = seen.context_length
    arm.doubts = {}
    arm.footprint = known.footprint.id


def _kept(value: object) -> Fact:
    return Fact(value, Origin.PROBED) if isinstance(value, str | int | float | bool) else Fact()
