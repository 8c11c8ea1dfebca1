"""One exchange from capture to outcomes: ask the shadows, find the primary's tokens, compare.

House rules. The order of things for one exchange, and nothing else: engines are talked to in ``arm``, sources decided in ``sources``,
comparing is ``proxy.compare``. Whatever happens, every shadow and mode of the exchange gets exactly one outcome.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from msgspec import Struct

from engines.dialect import Answer
from proxy.compare.comparison import Mode, Source
from proxy.compare.token_stream import Reply
from proxy.exchange import Ended, Exchange
from proxy.judge import free, sources
from proxy.judge.arm import Arm, plain, timing_of
from proxy.judge.case import Case, ShadowArm
from proxy.judge.cpu import COMPARE
from proxy.judge.forced import Forcing
from proxy.judge.noise import NoiseBook
from proxy.judge.request import Asked, Unreadable, read_request
from proxy.judge.settle import Context, Outcome, Policy, everywhere

#: A capture is bounded; what it inflates to is too.
_INFLATED = 8


class Examined(Struct, frozen=True):
    """Everything that came of one exchange."""

    asked: Asked | None
    primary: Reply | None
    source: Source | None
    outcomes: tuple[Outcome, ...]
    context: Context


@dataclass(slots=True)
class Examiner:
    """What one replica compares: a primary, its shadows, and the policy. ``rescore``: the primary may be asked again."""

    primary: Arm
    shadows: tuple[ShadowArm, ...]
    policy: Policy
    rescore: bool
    capture_bytes: int
    noise: NoiseBook

    @property
    def inflated(self) -> int:
        """Most bytes a captured body may decode to."""
        return self.capture_bytes * _INFLATED

    async def examine(self, exchange: Exchange) -> Examined:
        """Do all of it. Raises nothing but cancellation for what peers do."""
        blank = Context(self.policy, self.primary.footprint)
        try:
            asked = read_request(exchange, self.inflated)
        except Unreadable as error:
            return self._nothing(None, error.reason, blank)
        if reason := _unusable(exchange) or asked.out_of_scope():
            return self._nothing(asked, reason, blank)
        dialect = self.primary.dialect
        if dialect is None:
            return self._nothing(asked, "primary_unknown", blank)
        answer = plain(_answer(exchange), self.inflated)
        temperature = asked.effective_temperature(self.primary.defaults)
        context = Context(self.policy, self.primary.footprint, temperature, timing_of(answer, stream=asked.stream))
        with COMPARE:
            primary = dialect.read(asked.endpoint, asked.body, answer)
        if primary.error is not None:
            return self._nothing(asked, "primary_error", context)
        greedy = temperature is not None and temperature <= dialect.greedy_at
        taus = self.noise.taus(asked.model, self.primary.dtype)
        outcomes, source = await self._compare(
            Case(exchange, asked, primary, greedy, asked.unfiltered(self.primary.defaults), taus)
        )
        return Examined(asked, primary, source, outcomes, context)

    async def _compare(self, case: Case) -> tuple[tuple[Outcome, ...], Source]:
        own = sources.own(case.primary, injected=case.exchange.injected)
        complete = own is not None and all(choice.has_ids or not choice.tokens for choice in own.reply.choices)
        replies = await free.ask_shadows(case, self.primary, self.shadows, twin_needed=not complete)
        twin = free.twin_of(replies, self.shadows)
        if own is not None and not complete:
            own = sources.with_ids(own, twin)
        tokens = own or sources.by_twin(case.primary, twin, Source.BY_CONTROL)
        again = await self._rescore(case, own, tokens)
        tokens = tokens or again
        outcomes = [
            free.outcome(case, shadow, replies, self._for(shadow, own, tokens, again), self.primary)
            for shadow in self.shadows
            if Mode.FREE in shadow.modes
        ]
        forcing = Forcing(case, self.primary, self.shadows, tokens, ask_primary=self.rescore)
        outcomes += await asyncio.gather(
            *(forcing.outcome(shadow) for shadow in self.shadows if Mode.FORCED in shadow.modes)
        )
        return tuple(outcomes), _source(tokens, outcomes)

    async def _rescore(
        self, case: Case, own: sources.Tokens | None, tokens: sources.Tokens | None
    ) -> sources.Tokens | None:
        """Asked when nothing better is there, or when only the control's own tokens are and the control is to be compared."""
        if own is not None or not self.rescore:
            return None
        if tokens is not None and all(shadow.role != "control" for shadow in self.shadows):
            return None
        return await free.rescore(case, self.primary, top=max(shadow.top_logprobs for shadow in self.shadows))

    @staticmethod
    def _for(
        shadow: ShadowArm, own: sources.Tokens | None, tokens: sources.Tokens | None, again: sources.Tokens | None
    ) -> sources.Tokens | None:
        """A control is never held against tokens that it lent itself."""
        return own or again if shadow.role == "control" else tokens

    def _nothing(self, asked: Asked | None, reason: str, context: Context) -> Examined:
        known = [(shadow.arm.name, shadow.role, shadow.modes) for shadow in self.shadows]
        return Examined(asked, None, None, tuple(everywhere(known, incomparable=reason)), context)


def _unusable(exchange: Exchange) -> str | None:
    match exchange.ended:
        case Ended.COMPLETE:
            return "primary_error" if exchange.status >= 400 else None
        case Ended.CLIENT_GONE | Ended.PRIMARY_CUT | Ended.NO_REPLY | Ended.CAPTURE_CUT:
            return exchange.ended.value


def _answer(exchange: Exchange) -> Answer:
    headers = tuple(
        (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in exchange.response_headers
    )
    return Answer(exchange.status, headers, exchange.pieces)


def _source(tokens: sources.Tokens | None, outcomes: list[Outcome]) -> Source:
    if tokens is not None:
        return tokens.source
    canonical = any(one.comparison is not None and one.comparison.source is Source.CANONICAL for one in outcomes)
    return Source.CANONICAL if canonical else Source.TEXT
