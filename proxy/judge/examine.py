"""One exchange from capture to outcomes, in two halves: the shadows are asked (``mirror``); the primary's tokens are found and compared (``judge``).

House rules. The order of things for one exchange, and nothing else: engines are talked to in ``arm``, sources decided in ``sources``,
comparing is ``proxy.compare``. Whatever happens, every shadow and mode of the exchange gets exactly one outcome.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from engines.alike import Known, in_one
from engines.dialect import Answer
from engines.endpoints import speaking
from proxy.compare.comparison import Mode, Source
from proxy.compare.token_stream import Reply
from proxy.exchange import Ended, Exchange
from proxy.judge import free, sources
from proxy.judge.arm import Arm, Refused, plain, timing_of
from proxy.judge.case import FOOTPRINT_CHANGED, LONG, Case, Mirrored, ShadowArm
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
    running_free: tuple[ShadowArm, ...] = field(init=False)
    #: Whether no engine is asked once the shadows have answered on their own: ``judge`` then never waits, and may run on any thread.
    asks_no_more: bool = field(init=False)

    def __post_init__(self) -> None:
        self.running_free = tuple(shadow for shadow in self.shadows if Mode.FREE in shadow.modes)
        self.asks_no_more = not self.rescore and all(shadow.modes == (Mode.FREE,) for shadow in self.shadows)

    @property
    def inflated(self) -> int:
        """Most bytes a captured body may decode to."""
        return self.capture_bytes * _INFLATED

    def mirror(self, exchange: Exchange, then: Callable[[Mirrored], None]) -> int:
        """Ask every shadow that answers on its own; ``then`` is told once all have (at once where none is asked). Returns the bytes held to be sent."""
        if exchange.ended is Ended.NO_REPLY and self.primary.away is None:
            self.primary.away = time.time()
        if not exchange.request_whole:
            then(Mirrored(exchange, reason=_unusable(exchange) or "request_cut"))
            return 0
        try:
            asked = read_request(exchange, self.inflated)
        except Unreadable as error:
            then(Mirrored(exchange, reason=error.reason))
            return 0
        reason, dialect = _unusable(exchange) or asked.out_of_scope(), self.primary.dialect
        if reason is not None or dialect is None:
            then(_kept(exchange, asked, reason=reason or "primary_unknown"))
            return 0
        greedy = asked.greedy(self.primary.defaults, dialect.greedy_at)
        if greedy and self.running_free:
            return free.ask_shadows(exchange, asked, self.primary, self.running_free, then)
        then(_kept(exchange, asked, greedy=greedy))
        return 0

    def unanswered(self, mirrored: Mirrored) -> Examined | None:
        """Return what comes of an exchange that no shadow was there to answer, and that is asked about no more: nothing is read for it, not even the primary's reply.

        None for any other, and for a long one, which is not read again on the event loop.
        """
        answers = mirrored.answers
        if mirrored.long or not (answers and self.asks_no_more) or len(answers) < len(self.shadows):
            return None
        why = {name: one.reason for name, one in answers.items() if isinstance(one, Refused) and one.shed}
        if len(why) < len(answers):
            return None
        outcomes = tuple(Outcome(one.arm.name, one.role, Mode.FREE, shed=why[one.arm.name]) for one in self.shadows)
        return Examined(mirrored.asked, None, None, outcomes, Context(self.policy, self.primary.footprint))

    async def judge(self, mirrored: Mirrored) -> Examined:
        """Read, find the primary's tokens, compare, and ask what is still to be asked. Raises nothing but cancellation for what peers do."""
        exchange, dialect = mirrored.exchange, self.primary.dialect
        asked = read_request(exchange, self.inflated) if mirrored.long else mirrored.asked
        if mirrored.reason is not None or asked is None or dialect is None:
            return self._nothing(
                asked, mirrored.reason or "primary_unknown", Context(self.policy, self.primary.footprint)
            )
        answer = plain(_answer(exchange), self.inflated)
        temperature = asked.effective_temperature(self.primary.defaults)
        context = Context(self.policy, self.primary.footprint, temperature, timing_of(answer, stream=asked.stream))
        answer = in_one(answer)
        primary = speaking.read(dialect, asked.endpoint, asked.body, answer)
        if primary.error is not None:
            return self._nothing(asked, "primary_error", context)
        taus = self.noise.taus(asked.model, self.primary.dtype)
        case = Case(exchange, asked, primary, mirrored.greedy, asked.unfiltered(self.primary.defaults), taus)
        known = Known(dialect, asked.body, answer, primary)
        outcomes, source = await self._compare(case, mirrored, known)
        outcomes = tuple(self._of_one_stack(exchange, outcome) for outcome in outcomes)
        return Examined(asked, primary, source, outcomes, context)

    def _of_one_stack(self, exchange: Exchange, outcome: Outcome) -> Outcome:
        """Compare nothing while it is not known which stack answered: the shadow was away and has not been looked at since, or an arm is another one by now."""
        arm = next(shadow.arm for shadow in self.shadows if shadow.arm.name == outcome.shadow)
        instead = Outcome(outcome.shadow, outcome.role, outcome.mode, footprint=outcome.footprint)
        if outcome.comparison is None or outcome.comparison.incomparable is not None:
            return outcome
        if exchange.started < max(self.primary.changed, arm.changed):
            return replace(instead, incomparable=FOOTPRINT_CHANGED)
        return outcome if arm.away is None else replace(instead, shed="shadow_unready")

    async def _compare(self, case: Case, mirrored: Mirrored, known: Known) -> tuple[tuple[Outcome, ...], Source]:
        if not case.asked.endpoint.by_token:
            return self._compare_whole(case, mirrored), Source.TEXT
        own = sources.own(case.primary, injected=case.exchange.injected)
        complete = own is not None and all(choice.has_ids or not choice.tokens for choice in own.reply.choices)
        replies = free.read_answers(mirrored, case.asked, self.primary, self.shadows, known)
        if not complete and not self.asks_no_more:
            replies = await free.with_twin(case, self.primary, self.shadows, replies)
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
        forced = [shadow for shadow in self.shadows if Mode.FORCED in shadow.modes]
        if forced:
            forcing = Forcing(case, self.primary, self.shadows, tokens, ask_primary=self.rescore)
            outcomes += await asyncio.gather(*(forcing.outcome(shadow) for shadow in forced))
        return tuple(outcomes), _source(tokens, outcomes)

    def _compare_whole(self, case: Case, mirrored: Mirrored) -> tuple[Outcome, ...]:
        """Compare replies that have no tokens to speak of: as text, or as numbers."""
        replies = free.read_answers(mirrored, case.asked, self.primary, self.shadows)
        running = (free.outcome(case, shadow, replies, None, self.primary) for shadow in self.running_free)
        forced = (free.without_forcing(shadow) for shadow in self.shadows if Mode.FORCED in shadow.modes)
        return (*running, *forced)

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


def _kept(exchange: Exchange, asked: Asked, *, reason: str | None = None, greedy: bool = False) -> Mirrored:
    """What waits to be compared; the values of a long request do not wait with it."""
    long = len(exchange.request_body) > LONG
    return Mirrored(exchange, None if long else asked, reason, greedy, long=long)


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
