"""From an exchange to its settlements: the sampling rule that needed the body, the examination, and what stands in for it when it fails.

House rules. Settles nothing itself: whoever asks gets the whole list and hands it on once. A fault of ours is an outcome
(``incomparable{judge_error}``), and is logged without its text, which may quote what a peer sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from proxy.config import Config
from proxy.exchange import Exchange
from proxy.judge.case import Mirrored
from proxy.judge.examine import Examined, Examiner
from proxy.judge.request import Asked, Unreadable, read_body
from proxy.judge.settle import settlements
from proxy.judge.trials import Trials
from proxy.ledger.record import Settlement
from proxy.ledger.tallies import Counted
from proxy.traffic import sample

logger = logging.getLogger("parhelion")


class Done(Struct, frozen=True):
    """What to settle of one exchange, and what it says towards the verdicts. ``examined`` is None when it was not examined to the end."""

    settlements: tuple[Settlement, ...]
    examined: Examined | None = None
    trials: tuple[Counted, ...] = ()


class Desk:
    """Where exchanges are worked on. ``trials``: what forms results for the verdicts; None where none is wanted."""

    def __init__(self, config: Config, examiner: Examiner, trials: Trials | None = None) -> None:
        self.config, self.examiner, self.trials = config, examiner, trials
        self.arms = tuple((shadow.name, mode) for shadow in config.shadows for mode in shadow.modes)

    def mirror(self, exchange: Exchange, then: Callable[[Mirrored | Done], None]) -> int:
        """Have the shadows asked; ``then`` is told when they have answered, at once where none is asked. Returns the bytes held to be sent. Raises nothing."""
        try:
            if exchange.offered and not self._chosen(exchange):
                then(Done((Settlement(exchange.incarnation, "", "", "not_sampled"),)))
            else:
                return self.examiner.mirror(exchange, partial(self._mirrored, then))
        except Exception:
            logger.exception("judge_error")  # the formatter writes where and what kind
            then(self.instead(exchange, "incomparable", "judge_error"))
        return 0

    def _mirrored(self, then: Callable[[Mirrored | Done], None], mirrored: Mirrored) -> None:
        """Pass on what is to be compared; where no shadow was there to answer it has ended, and takes no place of what can be compared."""
        came: Mirrored | Done = mirrored
        try:
            if (unanswered := self.examiner.unanswered(mirrored)) is not None:
                came = self._done(mirrored.exchange, unanswered)
        except Exception:
            logger.exception("judge_error")
            came = self.instead(mirrored.exchange, "incomparable", "judge_error", mirrored.asked)
        then(came)

    async def judge(self, mirrored: Mirrored) -> Done:
        """Have it compared. Raises nothing but cancellation."""
        exchange = mirrored.exchange
        try:
            examined = await self.examiner.judge(mirrored)
            return self._done(exchange, examined)
        except Exception:
            logger.exception("judge_error")
            return self.instead(exchange, "incomparable", "judge_error", mirrored.asked)

    def _done(self, exchange: Exchange, examined: Examined) -> Done:
        ends = settlements(exchange, examined.asked, examined.primary, examined.outcomes, examined.context)
        told = next((one.record.conversation for one in ends if one.record is not None), "")
        trials = () if self.trials is None else self.trials.of(exchange, examined, told)
        return Done((*_decision(exchange), *ends), examined, trials)

    @property
    def asks_no_more(self) -> bool:
        """Whether comparing asks no engine: ``judge_now`` may then be called, from any thread."""
        return self.examiner.asks_no_more

    def judge_now(self, mirrored: Mirrored) -> Done:
        """Have it compared at once, where no engine has to be asked for it. Raises nothing."""
        try:
            self.judge(mirrored).send(None)
        except StopIteration as end:
            done: Done = end.value
            return done
        raise AssertionError("a comparison that asks no engine has waited")

    def instead(self, exchange: Exchange, outcome: str, reason: str, asked: Asked | None = None) -> Done:
        """The same end for every shadow and mode. What was only offered counts as sampled: nothing says that it was not. ``asked``: its request, where it was read already."""
        ends = tuple(Settlement(exchange.incarnation, *arm, outcome, reason) for arm in self.arms)
        trials = () if self.trials is None else self.trials.given_up(exchange, reason, asked)
        return Done((*_decision(exchange), *ends), trials=trials)

    def _chosen(self, exchange: Exchange) -> bool:
        """Settle a rule that needs the body; what cannot be read fits no rule and is held against the general rate."""
        try:
            body = read_body(exchange, self.examiner.inflated)
        except Unreadable:
            body = {}
        path = exchange.target.partition("?")[0]
        salt = self.config.sampling.salt or ""
        return sample.settle(self.config.sampling, u=exchange.u, salt=salt, path=path, body=body)


def _decision(exchange: Exchange) -> tuple[Settlement, ...]:
    """That it was sampled, where the live path left that to us."""
    return (Settlement(exchange.incarnation, "", "", "sampled"),) if exchange.offered else ()
