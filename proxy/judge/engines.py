"""The engines behind the configured names: found out about at start, and again when they were away.

House rules. An engine that cannot be reached is tried again with growing pauses and meanwhile sheds as ``shadow_unready``; it never keeps the judge
or the live path from starting. What is learned of an engine is written into its arm once, whole.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

import msgspec

from engines.capabilities import remedy
from engines.dialect import DialectError
from engines.footprint import changes
from engines.probe import probe, stack_of
from engines.registry import detect, dialect
from proxy import logs
from proxy.compare.comparison import Mode
from proxy.config import Config
from proxy.judge.arm import Arm
from proxy.judge.case import ShadowArm
from proxy.judge.ledger import Ledger
from proxy.judge.spec import PRIMARY, Spec, Who, of_primary, of_shadow
from proxy.judge.stacks import Stacks
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.switch import Switch

logger = logging.getLogger("parhelion")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 4.0  # an engine that is up again is used within 5 s
_SAY_AGAIN = 60.0  # how often the log repeats the same complaint about an engine
_BUDGETS = "token_budgets"  # key in the store's state: what each shadow has spent of its day
_TICK = 0.5  # how soon it is noticed that an engine was away


class Engines:
    """Every arm of a replica; what an earlier configuration had of them (``before``) goes on where it can."""

    def __init__(self, config: Config, ledger: Ledger, metrics: JudgeMetrics, before: Engines | None = None) -> None:
        self.ledger, self.metrics = ledger, metrics
        known: Mapping[str, tuple[Spec, Arm]] = before.made if before is not None else {}
        specs = [of_primary(config), *(of_shadow(config, one) for one in config.shadows)]
        self.made: dict[str, tuple[Spec, Arm]] = {spec.name: (spec, spec.arm(known.get(spec.name))) for spec in specs}
        self.primary = self.made[PRIMARY][1]
        self.shadows = tuple(
            ShadowArm(
                self.made[one.name][1], one.role, tuple(Mode(mode) for mode in one.modes), one.models, one.top_logprobs
            )
            for one in config.shadows
        )
        self._every = config.recheck
        self._failed: set[str] = set()  # those whose first probe has failed
        self.stacks: Stacks = Stacks(ledger, metrics, self.shadows) if before is None else before.stacks
        self.stacks.shadows = self.shadows
        self.stacks.resume((arm, spec.who) for spec, arm in self.made.values())
        if before is None:
            self._resume(ledger.store.get_state(_BUDGETS))
        ledger.keep(_BUDGETS, self._budgets)

    def _budgets(self) -> bytes:
        """Each shadow's day: when its window began (Unix seconds) and the tokens spent in it."""
        now, clock = time.time(), time.monotonic()
        days = {shadow.arm.name: shadow.arm.guard.day(clock) for shadow in self.shadows}
        return msgspec.msgpack.encode({name: (now - ago, tokens) for name, (ago, tokens) in days.items()})

    def _resume(self, kept: bytes | None) -> None:
        if kept is None:
            return
        now, clock = time.time(), time.monotonic()
        days = msgspec.msgpack.decode(kept, type=dict[str, tuple[float, int]])
        for shadow in self.shadows:
            if (day := days.get(shadow.arm.name)) is not None:
                shadow.arm.guard.resume(clock, now - day[0], day[1])

    def with_models(self) -> dict[str, tuple[Arm, Mapping[str, str]]]:
        """Return every arm by name, with what the primary's models are called there."""
        return {PRIMARY: (self.primary, {}), **{one.arm.name: (one.arm, one.models) for one in self.shadows}}

    def known(self) -> bool:
        """Whether every engine has been found out about."""
        return all(arm.dialect is not None for _, arm in self.made.values())

    def tried(self) -> bool:
        """Whether every engine has been found out about, or has failed to answer once."""
        return all(arm.dialect is not None or name in self._failed for name, (_, arm) in self.made.items())

    async def watch(self) -> None:
        """Find out about every engine, each at its own pace, and look again whether it is still the same stack; for ever."""
        await asyncio.gather(*(self._look_after(spec.who, arm) for spec, arm in self.made.values()))

    async def _look_after(self, who: Who, arm: Arm) -> None:
        """Know one engine. Routes are asked now and then, and at once when it was away; after that it is probed anew, since some things no route shows."""
        if arm.dialect is None:
            await self._until_known(who, arm)
        looked = probed = time.monotonic()
        owed = False
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            if arm.guard.circuit_open and arm.away is None:
                arm.away = time.time()
            if arm.guard.stopped or arm.guard.circuit_open:
                continue
            away, whole = arm.away is not None, owed and now - probed >= self._every
            if not away and not whole and now - looked < self._every:
                continue
            looked = now
            if await self._looked(who, arm, whole=whole):
                owed = away or (owed and not whole)
                probed = now if whole else probed

    async def _looked(self, who: Who, arm: Arm, *, whole: bool) -> bool:
        """Look whether a known engine is still the stack it was; false when it does not answer as an engine does."""
        try:
            fetch = arm.fetch(f"look-{arm.name}", heard=False)
            found = dialect(who.engine if who.engine != "auto" else await detect(fetch))
            known = self.stacks.probe_of(arm, who)
            if not whole and known is not None and found is arm.dialect:
                stack = await stack_of(fetch, found, who.model, who.declared)
                if not changes(known.routes, stack):
                    self.stacks.same(arm)
                    return True
            self.stacks.found(arm, who, await probe(fetch, found, who.model, who.declared))
            arm.dialect = found
        except DialectError as error:
            if error.reason == "refused" and arm.away is None:
                arm.away = time.time()
            return False
        except Exception:  # as when it is first found out about
            logger.exception("probe_failed")
            return False
        return True

    async def _until_known(self, who: Who, arm: Arm) -> None:
        pause = _FIRST_PAUSE
        said, said_at = "", 0.0
        while True:
            try:
                fetch = arm.fetch(f"probe-{arm.name}")
                found = dialect(who.engine if who.engine != "auto" else await detect(fetch))
                known = await probe(fetch, found, who.model, who.declared)
            except DialectError as error:
                if error.reason != said or time.monotonic() - said_at > _SAY_AGAIN:
                    said, said_at = error.reason, time.monotonic()
                    mend = remedy(said)
                    logs.say(
                        logger, logging.WARNING, "engine_not_ready", arm=arm.name, url=who.url, reason=said, remedy=mend
                    )
            except Exception:  # whatever an engine makes of us, it is tried again and never forgotten
                logger.exception("probe_failed")
            else:
                self.stacks.found(arm, who, known)
                arm.dialect = found
                logs.say(logger, logging.INFO, "engine_known", arm=arm.name, engine=found.name, footprint=arm.footprint)
                return
            self._failed.add(arm.name)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def turn(self, switch: Switch) -> None:
        """Ask nothing more of shadows that are switched off; what they are at is broken off."""
        for shadow in self.shadows:
            arm = shadow.arm
            arm.guard.stopped = not switch.on(arm.name)
            if arm.guard.stopped:
                arm.client.hang_up()

    def report(self) -> None:
        """Bring the metrics up to date with what the arms have counted."""
        for shadow in self.shadows:
            self.metrics.circuit(shadow.arm.name, is_open=shadow.arm.guard.circuit_open)
            for kind, count in shadow.arm.take_errors().items():
                self.metrics.shadow_error(shadow.arm.name, kind, count)
            self.metrics.shadow_tokens(shadow.arm.name, **shadow.arm.tokens)
            shadow.arm.tokens.clear()

    async def close(self, keeping: Engines | None = None) -> None:
        """Close every connection but those that ``keeping`` goes on with."""
        kept = {id(arm.client) for _, arm in keeping.made.values()} if keeping is not None else set()
        for _, arm in self.made.values():
            if id(arm.client) not in kept:
                await arm.client.aclose()
