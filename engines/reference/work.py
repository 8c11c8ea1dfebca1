"""What the worker is asked to do, and the events that come back: plain values between threads.

House rules: frozen values alone.
"""

from __future__ import annotations

from msgspec import Struct

from engines.reference.logprobs import Logprobs, Row
from engines.reference.planted import HEALTHY, Plant
from engines.reference.sampling import Sampling


class Generation(Struct, frozen=True, kw_only=True):
    """What to do for each prompt of a request.

    ``top`` and ``prompt_top`` are numbers of alternatives, None for no rows at all; ``max_tokens`` 0 reads the prompt and stops there. ``whole_from``:
    every token's value at the prompt's positions from this one on (1 or more) is wanted. ``plant``: the fault to put in; ``opening``: the tokens that open a reply, which its positions are counted by.
    """

    max_tokens: int
    sampling: Sampling
    n: int = 1
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    include_stop: bool = False
    ignore_end: bool = False
    skip_special: bool = True
    top: int | None = None
    prompt_top: int | None = None
    whole_from: int | None = None
    plant: Plant = HEALTHY
    opening: tuple[int, ...] = ()


class Step(Struct, frozen=True):
    """One token of choice ``index``: its row when asked for, the text that it made certain, and how the choice ended if it did.

    ``offset`` is the number of characters of visible text that came before the token. A choice of no tokens at all (``max_tokens`` 0) is one
    step with ``token`` None.
    """

    index: int
    token: int | None
    row: Row | None = None
    text: str = ""
    offset: int = 0
    finish: str | None = None
    stop_reason: int | str | None = None


class PromptRead(Struct, frozen=True):
    """A prompt was read; ``rows`` (when asked for) has one entry per token, the first None: nothing comes before it.

    ``whole`` (when asked for): nats, shape (positions, vocabulary), for the tokens from ``whole_from`` on.
    """

    prompt: int
    rows: tuple[Row | None, ...] | None
    whole: Logprobs | None = None


Event = PromptRead | Step
