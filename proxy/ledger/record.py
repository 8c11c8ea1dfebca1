"""A record: one comparison with everything needed to show, repeat and re-count it. The contract's section 7.

House rules. Frozen, msgspec-encodable, versioned by ``SCHEMA``; additive changes only. ``content`` holds text only when the
configuration says ``records.content: text``; keyed hashes for ``hash``; None for ``none``.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.compare.comparison import Comparison
from proxy.ledger.detail import Detail
from proxy.ledger.tallies import Counted, lost

SCHEMA = 1


class Timing(Struct, frozen=True):
    """One arm's timing in seconds since its request was sent; None where not observed. ``gaps`` are the times between tokens-carrying pieces."""

    first_token: float | None = None
    end: float | None = None
    gaps: tuple[float, ...] = ()


class RequestFacts(Struct, frozen=True):
    """What of the request matters for slicing. ``temperature`` is the *effective* one, None when unknown."""

    stream: bool = False
    n: int = 1
    temperature: float | None = None
    max_tokens: int | None = None
    prompt_tokens: int | None = None
    shadow_prompt_tokens: int | None = None
    has_tools: bool = False
    logprobs_asked: bool = False


class Content(Struct, frozen=True):
    """Request and outputs as text, or their keyed hashes (hex), as configured. One entry per choice for the outputs."""

    request: str
    primary: tuple[str, ...]
    shadow: tuple[str, ...]


class Record(Struct, frozen=True):
    """One comparison of one exchange with one shadow in one mode.

    ``time`` is when the exchange began (Unix seconds). ``conversation`` is a keyed hash of what all requests of one conversation share:
    the unit in which intervals are made; "" when it is not known, and then none is given. ``prompt`` is a keyed hash of all that says what the model reads and how it
    picks: equal in requests that ask the same, "" when not known.
    """

    id: str
    time: float
    exchange: str
    model: str
    endpoint: str
    shadow: str
    role: str
    comparison: Comparison
    request: RequestFacts = RequestFacts()
    primary_footprint: str = ""
    shadow_footprint: str = ""
    primary_timing: Timing = Timing()
    shadow_timing: Timing = Timing()
    in_flight: int = 0
    cached_tokens: int | None = None
    content: Content | None = None
    schema: int = SCHEMA
    conversation: str = ""
    prompt: str = ""


class Settlement(Struct, frozen=True):
    """How one exchange x shadow x mode ended: exactly one of these is counted for each.

    ``outcome``: ``compared``, ``incomparable`` or ``shed`` with its ``reason``; or ``sampled`` / ``not_sampled`` (shadow and mode
    empty) where a rule that needs the body was settled by the judge; or ``settled``, once for the exchange as a whole; or "", which is not counted and only brings ``trials``. ``record``
    and ``detail``, what it is shown with, go into the store in the same transaction as the count, and so do ``spooled``, the number under which the exchange is kept on disk, and ``trials``, what it
    says towards the verdicts.
    """

    incarnation: str
    shadow: str
    mode: str
    outcome: str
    reason: str = ""
    record: Record | None = None
    spooled: int | None = None
    trials: tuple[Counted, ...] = ()
    detail: Detail | None = None


def shed_of(batch: Sequence[Settlement], why: str = "store") -> list[Settlement]:
    """Say what to count of a batch that could not be committed: what had a record is shed, the rest stays what it was.

    Trials are kept as long as the exchange is on disk; else they are missing as their records are, for what is only owed must not grow with each exchange.
    """
    return [_shed(one, why) for one in batch]


def _shed(one: Settlement, why: str) -> Settlement:
    if one.record is not None:
        return Settlement(one.incarnation, one.shadow, one.mode, "shed", why)
    return replace(one, trials=lost(one.trials, why)) if one.trials and one.spooled is None else one
