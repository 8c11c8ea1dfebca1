"""What the steps of one examination share."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct

from proxy.compare.comparison import Comparison, Mode
from proxy.compare.token_stream import Reply
from proxy.exchange import Exchange
from proxy.judge.arm import Arm
from proxy.judge.cpu import COMPARE
from proxy.judge.noise import Taus
from proxy.judge.request import Asked

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
        with COMPARE:
            return compare()
    except Exception:
        logger.exception("comparison_failed")
        return Comparison(mode=mode, incomparable="judge_error")
