"""The part of the report that sets every headline number beside the control's, in either mode.

House rules. What is computed is computed in ``proxy.compare``; here it is decided what is held against what. The floor of a mode is the control's answer in the
same mode: its own replies in ``free``; in ``forced`` the primary's tokens as the primary's own stack scores them, so that what scoring (prefill) makes of a token and
generating it (decode) does not is no excess.
"""

from __future__ import annotations

from typing import Any

from proxy.compare.comparison import Mode
from proxy.compare.headline import headline_of_arms
from proxy.compare.llama_block import llama_block
from proxy.compare.summary import hazard
from proxy.ledger.matched import Matched, matched
from proxy.ledger.segments import Gathered


def headlines(mode: Mode, own: Gathered, floor: Gathered | None) -> dict[str, Any]:
    """Return ``headline``, of ``free`` comparisons the hazard, of ``forced`` ones ``llama_cpp``, each where there is any; see ``proxy.compare.headline``.

    With a floor both are of the requests that candidate and control have results of; what that leaves out of the candidate's is in ``without_floor``.
    """
    pair = matched(own, floor) if floor is not None else Matched(own, Gathered())
    known = all(pair.own.conversations) and all(pair.floor.conversations)
    found: dict[str, Any] = {}
    if mode is Mode.FREE and (parted := _hazard(pair, known=known)):
        found["hazard_per_1000_tokens"] = parted
    if numbers := headline_of_arms(mode, pair.own.arm(), pair.floor.arm(), known=known):
        found["headline"] = numbers
    if pair.requests or pair.tokens:
        found["without_floor"] = {"requests": pair.requests, "tokens": pair.tokens}
    if mode is Mode.FORCED and (block := llama_block(own.comparisons)):
        found["llama_cpp"] = block
    return found


def _hazard(pair: Matched, *, known: bool) -> dict[str, Any]:
    return hazard(
        pair.own.comparisons,
        pair.own.conversations if known else None,
        pair.floor.comparisons,
        pair.floor.conversations if known else None,
    )
