"""Near-tie probes on a schedule: each arm asked a few one-token questions now and then, and what has changed said once.

House rules. Asks within an arm's limits, one question at a time, and gives way to the mirror: a refusal of the guard ends the look. Nothing here can stop the judge. A change that the footprint
shows is the footprint's to say; a new stack is learned anew. One look decides nothing: it may only call for a block of looks, of which an exact test tells (``proxy.probes.change``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from engines.dialect import Answer, Call, Fetch
from proxy import logs
from proxy.config import Probes
from proxy.judge.arm import Arm
from proxy.judge.ledger import Ledger
from proxy.ledger.events import Event
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.store_error import StoreError
from proxy.probes import baseline as baselines
from proxy.probes.ask import NoRun, Run, Subject, run
from proxy.probes.baseline import Baseline
from proxy.probes.change import LEARNED, Change, block, compare, suspicious
from proxy.probes.probe import BadProbes, ProbeSet, load, save

logger = logging.getLogger("parhelion")

PROBE_CHANGED = "probe_changed"
_DAY = 86400.0
_BETWEEN = 0.5  # seconds between runs of a block or of what is learned: a moment's disturbance must not be all of them
_PATIENCE = 5  # times that the rate limit is waited for
_MOVED = 5  # probes that an event names


class Probing:
    """Looks at every arm. ``arms``: each with the model's name there for the primary's (None: the same)."""

    def __init__(
        self, settings: Probes, state: Path, arms: Mapping[str, tuple[Arm, Mapping[str, str]]], ledger: Ledger, metrics: JudgeMetrics
    ) -> None:  # fmt: skip
        self.settings, self.folder, self.arms, self.ledger, self.metrics = (
            settings,
            state / "probes",
            arms,
            ledger,
            metrics,
        )
        self._known: dict[str, Baseline] = {}
        self._said = ""

    async def run(self) -> None:
        """Look for ever, at the probes that the file holds by then: it may be written, or mined anew, while we serve."""
        for name in self.arms:
            self.metrics.probe_changed(name, 0)
        while True:
            started = time.monotonic()
            probes = self._probes()
            for arm, models in self.arms.values() if probes is not None else ():
                if arm.dialect is not None and probes is not None:
                    model = models.get(probes.model, probes.model)
                    await self._look_safely(arm, Subject(_limited(arm), arm.dialect, model), probes)
            await asyncio.sleep(max(1.0, self.settings.every - (time.monotonic() - started)))

    def _probes(self) -> ProbeSet | None:
        """The file's probes; None when it cannot be used, which is said once."""
        try:
            probes = load(Path(self.settings.file))
            self.folder.mkdir(parents=True, exist_ok=True)
        except (BadProbes, OSError) as error:
            if str(error) != self._said:
                logs.say(logger, logging.ERROR, "probes_unusable", error=str(error))
            self._said = str(error)
            return None
        self._said = ""
        return probes

    async def _look_safely(self, arm: Arm, subject: Subject, probes: ProbeSet) -> None:
        if not arm.footprint:
            return
        try:
            await self._look(arm, subject, probes)
        except NoRun as error:
            logs.say(logger, logging.WARNING, "probes_not_answered", arm=arm.name, reason=error.reason)
        except BadProbes as error:
            logs.say(logger, logging.ERROR, "probes_unusable", error=str(error))
        except Exception:  # whatever an engine makes of us, the mirror goes on
            logger.exception("probing_failed")

    async def _look(self, arm: Arm, subject: Subject, probes: ProbeSet) -> None:
        """Look at one arm once. Raises NoRun, BadProbes."""
        footprint = arm.footprint
        known = self._baseline(arm, subject, probes)
        if known is None:
            runs = await self._block(subject, probes, LEARNED)
            if arm.footprint == footprint:
                made = Baseline(probes.id, subject.dialect.name, subject.model, footprint, tuple(runs), time.time())
                self._known[arm.name] = made
                save(self.folder / f"{arm.name}.json", made)
                logs.say(logger, logging.INFO, "probes_learned", arm=arm.name, probes=len(probes.probes))
            return
        names = [one.name for one in probes.probes]
        (single,) = await self._block(subject, probes, 1)
        seen = compare(names, known.runs, [single], 0.0)
        self.metrics.probed(arm.name, time.time(), seen.shift, seen.flips)
        if not suspicious(known.runs, single, self.settings.least):
            return
        alpha = self.settings.alpha * min(1.0, self.settings.every / _DAY)
        change = compare(
            names, known.runs, await self._block(subject, probes, block(alpha)), alpha, self.settings.least
        )
        if change.changed and arm.footprint == footprint:
            await self._say(arm, change)
            self._forget(arm)

    def _baseline(self, arm: Arm, subject: Subject, probes: ProbeSet) -> Baseline | None:
        """What is known of this very stack under these probes; None: it is to be learned."""
        known = self._known.get(arm.name) or self._kept(arm)
        fits = known is not None and (known.probes, known.engine, known.model, known.footprint) == (
            probes.id, subject.dialect.name, subject.model, arm.footprint,
        )  # fmt: skip
        if known is None or not fits or len(known.runs[0].gaps) != len(probes.probes):
            return None
        self._known[arm.name] = known
        return known

    def _kept(self, arm: Arm) -> Baseline | None:
        """What an earlier judge has learned; a file that holds nothing readable is learned anew, and not looked at in vain for ever."""
        try:
            return baselines.load(self.folder / f"{arm.name}.json")
        except BadProbes as error:
            logs.say(logger, logging.WARNING, "probes_learned_anew", arm=arm.name, error=str(error))
            return None

    async def _block(self, subject: Subject, probes: ProbeSet, count: int) -> list[Run]:
        salt, made = f"probe-{time.time_ns()}", []
        for number in range(count):
            if number:
                await asyncio.sleep(_BETWEEN)
            made.append(await run(subject, probes.probes, f"{salt}-{number}", 1))
        return made

    async def _say(self, arm: Arm, change: Change) -> None:
        moved = sorted(change.probes, key=lambda one: -abs(one.now - one.was))[:_MOVED]
        detail = {
            "arm": arm.name, "footprint": arm.footprint, "p": change.p, "alpha": change.alpha, "flips": change.flips, "probes": len(change.probes),
            "shift_nats": change.shift, "largest_nats": change.largest, "moved": {one.name: [one.was, one.now] for one in moved},
        }  # fmt: skip
        self.metrics.probe_changed(arm.name)
        logs.say(
            logger, logging.WARNING, PROBE_CHANGED, arm=arm.name, p=change.p, flips=change.flips, shift=change.shift
        )
        try:
            await asyncio.to_thread(
                self.ledger.store.add_event, Event(time.time(), PROBE_CHANGED, detail)
            )  # a locked file is waited for: not by the loop that mirrors
        except StoreError as error:
            logs.say(logger, logging.ERROR, "store_failed", reason=error.reason, settlements=0)

    def _forget(self, arm: Arm) -> None:
        """What it is now is learned anew, so that a change is said once."""
        self._known.pop(arm.name, None)
        (self.folder / f"{arm.name}.json").unlink(missing_ok=True)


def _limited(arm: Arm) -> Fetch:
    """The arm's own way of asking, within its limits; the day's budget is charged. The call raises NoRun."""

    async def fetch(call: Call) -> Answer:
        reason = "rate_limit"
        for _ in range(_PATIENCE):
            answer = await arm.admitted(lambda send: send(call), f"probe-{arm.name}", 1)
            if isinstance(answer, Answer):
                arm.guard.spent(1, time.monotonic())
                return answer
            reason = answer.reason
            if reason != "rate_limit":
                break
            await asyncio.sleep(2.0 / (arm.guard.rate or 1.0))
        raise NoRun(reason)

    return fetch
