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
from proxy.compare.resampled import Arm
from proxy.ledger.segments import Gathered


def headlines(mode: Mode, own: Gathered, floor: Gathered | None) -> dict[str, Any]:
    """Return ``headline`` and, of ``forced`` comparisons, ``llama_cpp``, each where there is any; see ``proxy.compare.headline``."""
    known = all(own.conversations) and (floor is None or all(floor.conversations))
    numbers = headline_of_arms(mode, own.arm(), floor.arm() if floor is not None else Arm({}), known=known)
    found: dict[str, Any] = {"headline": numbers} if numbers else {}
    if mode is Mode.FORCED and (block := llama_block(own.comparisons)):
        found["llama_cpp"] = block
    return found
