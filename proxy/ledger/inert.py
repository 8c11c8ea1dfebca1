"""Text from models, clients and engines, made harmless for a terminal.

House rules. Pure. Nothing that a terminal acts on is left: no control character (and so no escape sequence), no mark that turns the writing
direction round, nothing invisible. Letters of every script stay.
"""

from __future__ import annotations

import unicodedata

_MARK = "\ufffd"
#: Control, format (bidirectional marks, joiners), surrogate, private use, unassigned, line and paragraph separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def inert(text: object, longest: int = 200) -> str:
    """Return the text with everything unseen replaced by U+FFFD, at most ``longest`` characters of it."""
    whole = str(text)
    shown = "".join(_MARK if unicodedata.category(character) in _UNSEEN else character for character in whole[:longest])
    return shown if len(whole) <= longest else shown[:-1] + "…"
