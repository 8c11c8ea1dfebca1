"""A token as markup: spaces and line ends to be seen, nothing that runs or turns round, of a length that a page can bear.

House rules. Pure. What is cut is said with how much was left out, and is whole in the JSON. Markup is made here of escaped pieces alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from proxy.ledger.pages.visible import visible

#: Characters of one token that a page shows.
LONGEST = 120
#: Up to so many a token of a list stands in one line.
_SHORT = 16
_PIECES = re.compile(r"( +|\n|\t)")
_SPACE = Markup('<span class="sp">%s</span>')
_LINE = Markup('<span class="nl">⏎</span>\n')
_TAB = Markup('<span class="nl">⇥</span>')
_CUT = Markup('<span class="cut">… {} more characters</span>')
_ID = Markup('<code class="id">#{}</code>')
ENDED = Markup('<span class="ended">ended</span>')
EMPTY = Markup('<span class="ended">empty</span>')
#: A reply has no token there.
ABSENT = Markup('<span class="ended">no token</span>')


def marked(text: str, longest: int = LONGEST) -> Markup:
    """Return a text whose blanks are marked and whose unseen characters are written out; at most ``longest`` characters of it."""
    shown = text if len(text) <= longest else text[:longest]
    pieces = [_piece(one) for one in _PIECES.split(shown) if one]
    if len(shown) < len(text):
        pieces.append(_CUT.format(f"{len(text) - len(shown):,}"))
    return Markup("").join(pieces)


def _piece(text: str) -> Markup:
    if text == "\n":
        return _LINE
    if text == "\t":
        return _TAB
    return _SPACE % text if text.startswith(" ") else escape(visible(text))


def raw(content: bytes) -> Markup:
    """Return bytes that are no whole characters, in hex: ``‹F0 9F›``."""
    return Markup('<span class="hex">‹{}›</span>').format(content[:LONGEST].hex(" ").upper())


def token(one: Mapping[str, Any] | None) -> Markup:
    """Return a token of a list (``id``, ``text``): its text, else its id; one that is nothing throughout is an end without a token."""
    if one is None:
        return ABSENT
    if one["text"]:
        name = "tok" if len(one["text"]) > _SHORT else "tok short"
        return Markup('<bdi class="{}">{}</bdi>').format(name, marked(one["text"], 48).replace("\n", ""))
    if one["text"] is not None:
        return EMPTY
    return ENDED if one["id"] is None else _ID.format(one["id"])
