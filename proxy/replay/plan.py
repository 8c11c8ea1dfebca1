"""Which requests of a file are asked again, and in which order.

House rules. Pure, and the same for the same file and wishes: a draw is a hash of seed and place, so that a replay that was interrupted finds the order it had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from proxy.replay.line import TrafficError
from proxy.replay.traffic import Traffic

Order = Literal["file", "shuffled", "time"]


class Wanted(Struct, frozen=True):
    """What the user chose.

    ``sample``: a share of the requests; ``since``: Unix seconds; ``limit``: of what is left the first so many, in the order asked for; ``answered``: only
    those whose reply the file has.
    """

    order: Order = "file"
    seed: int = 0
    sample: float = 1.0
    since: float | None = None
    limit: int | None = None
    answered: bool = False


def plan(traffic: Traffic, wanted: Wanted) -> list[int]:
    """Return the places of the requests to ask, in order. Raises TrafficError."""
    chosen = [index for index in range(len(traffic)) if traffic.answered(index) or not wanted.answered]
    if not chosen:
        raise TrafficError(
            f'{traffic.name}: holds no replies: write each beside its request ("response"), give a batch\'s output with --replies, or ask a live primary (without --recorded)'
        )
    kept = [index for index in chosen if _drawn(wanted, b"sample", index) < wanted.sample]
    if wanted.since is not None or wanted.order == "time":
        _timed(traffic, kept, "--since" if wanted.since is not None else "--order time")
    if wanted.since is not None:
        kept = [index for index in kept if (traffic.time(index) or 0.0) >= wanted.since]
    kept.sort(key=_order(traffic, wanted))
    if not kept:
        raise TrafficError(
            f"{traffic.name}: of {len(traffic)} requests none is left: choose a larger --sample or --since"
        )
    return kept[: wanted.limit]


def _order(traffic: Traffic, wanted: Wanted) -> Callable[[int], float]:
    match wanted.order:
        case "file":
            return float
        case "shuffled":
            return lambda index: _drawn(wanted, b"order", index)
        case "time":
            return lambda index: traffic.time(index) or 0.0


def _timed(traffic: Traffic, kept: list[int], flag: str) -> None:
    for index in kept:
        if traffic.time(index) is None:
            number = traffic.read(index).number
            raise TrafficError(
                f'{traffic.name}:{number}: says no time, which {flag} needs: add "time": Unix seconds, or leave {flag} out'
            )


def _drawn(wanted: Wanted, what: bytes, index: int) -> float:
    """Return a number in [0, 1)."""
    digest = hashlib.blake2b(f"{wanted.seed}\0{index}".encode(), digest_size=8, person=what).digest()
    return int.from_bytes(digest, "big") / 2**64
