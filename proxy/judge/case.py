"""What the steps of one examination share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from msgspec import Struct

from engines.dialect import Answer, Json
from proxy.compare.comparison import Comparison, Mode
from proxy.compare.token_stream import Reply
from proxy.exchange import Exchange
from proxy.judge.arm import Arm, Refused
from proxy.judge.noise import Taus
from proxy.judge.request import Asked

#: Why an exchange is not compared that one of two stacks may have answered; the name of the event and the finding, too.
FOOTPRINT_CHANGED = "footprint_changed"
_EACH = 1024  # what an exchange or an answer takes beside its bodies
#: Bytes of a request's body beyond which its values are not kept while an engine answers: they take what the body takes once more, or many times that
#: (each value some 60 bytes, a text four bytes a character for a single emoji in it). They are read again when they are wanted.
LONG = 1 << 16

logger = logging.getLogger("parhelion")


class ShadowArm(Struct, frozen=True):
    """A configured shadow and the engine behind it."""

    arm: Arm
    role: str
    modes: tuple[Mode, ...]
    models: dict[str, str]
    top_logprobs: int

    def model(self, asked: Asked) -> str | None:
        """The request's model under the name this shadow knows it by; None when the client named none."""
        return self.models.get(asked.model, asked.model) or None


class Got(Struct, frozen=True):
    """What a shadow answered to ``body``, unread; None where it was long, and is to be made again."""

    body: Json | None
    answer: Answer


class Mirrored(Struct, frozen=True):
    """One exchange with what the shadows answered on their own, ready to be compared.

    ``asked`` is None for a request that cannot be read, and for one that is ``long``: it is read again. ``reason`` says why no shadow was asked and nothing
    can be compared. ``greedy``: its *effective* temperature is known to be greedy.
    """

    exchange: Exchange
    asked: Asked | None = None
    reason: str | None = None
    greedy: bool = False
    answers: Mapping[str, Got | Refused] = {}
    long: bool = False

    def weight(self) -> int:
        """Bytes held for it: captured bodies (the request's also as values) and answers."""
        exchange = self.exchange
        weight = 2 * len(exchange.request_body) + _EACH + sum([len(piece) for _, piece in exchange.pieces])
        for got in self.answers.values():
            if isinstance(got, Got):
                weight += _EACH + sum([len(piece) for _, piece in got.answer.pieces])
        return weight


class Case(Struct, frozen=True):
    """One readable exchange under examination.

    ``greedy``: its *effective* temperature is known to be greedy; ``unfiltered``: sampled at 1 from the whole distribution.
    """

    exchange: Exchange
    asked: Asked
    primary: Reply
    greedy: bool
    unfiltered: bool
    taus: Taus


def sound(mode: Mode, compare: Callable[[], Comparison]) -> Comparison:
    """What ``compare`` says; should it fail on what one engine sent, that arm alone is incomparable, and the log says where."""
    try:
        return compare()
    except Exception:
        logger.exception("comparison_failed")
        return Comparison(mode=mode, incomparable="judge_error")
