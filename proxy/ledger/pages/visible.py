"""Foreign text and numbers, made fit for a page: every value that a template prints passes through here.

House rules. Pure. Nothing that is not seen is left in a text: control characters, marks that turn the writing direction round, and what has no shape are written as
what they are. Line ends stay. A number that is not there is a dash and never 0.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

NOTHING = "–"
#: Control, format (bidirectional marks, joiners), surrogate, private use, unassigned, line and paragraph separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: Marks that are drawn onto the character before them: more than so many of them reach into other lines.
_ADDED, _STACKED = frozenset({"Mn", "Me"}), 4
_PLAIN = re.compile(r"[\n\x20-\x7e]*")  # what nearly every text is made of
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def visible(text: str) -> str:
    """Return the text with everything unseen written out: C0 as its picture (``␛``), the rest as ``‹U+202E›``."""
    if _PLAIN.fullmatch(text):
        return text
    shown, run = [], 0
    for character in text:
        run = run + 1 if unicodedata.category(character) in _ADDED else 0
        shown.append(_seen(character) if run <= _STACKED else f"‹U+{ord(character):04X}›")
    return "".join(shown)


def _seen(character: str) -> str:
    code = ord(character)
    if character == "\n" or unicodedata.category(character) not in _UNSEEN:
        return character
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹U+{code:04X}›"


def printed(value: Any) -> Any:
    """Return what a template prints for a value: markup of ours as it is, nothing as a dash, a text made visible."""
    if value is None:
        return NOTHING
    if isinstance(value, Markup):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(value) if isinstance(value, str) else value


def shortened(text: object, longest: int = 120) -> str:
    """Return a text cut to so many characters, marked where it is."""
    whole = str(printed(text))
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"


def ending(text: object, longest: int = 8) -> str:
    """Return the end of a text whose beginning is the same in many, cut at its front with an ellipsis."""
    shown = str(printed(text))
    return shown if len(shown) <= longest else f"…{shown[1 - longest :]}"


def count(value: float | None) -> str:
    """Return a whole number with its thousands apart."""
    return NOTHING if value is None else f"{value:,.0f}"


def amount(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits."""
    if value is None:
        return NOTHING
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    shown = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"
    return f"{float(shown):f}".rstrip("0").rstrip(".") if "e" in shown else shown


def share(value: float | None, digits: int = 2) -> str:
    """Return a share as per cent."""
    return NOTHING if value is None else f"{amount(100 * value, digits + 1)} %"


def seconds(value: float | None) -> str:
    """Return a time span in a unit that suits it."""
    if value is None:
        return NOTHING
    if value < 1e-3:
        return f"{amount(value * 1e6)} µs"
    if value < 1:
        return f"{amount(value * 1e3)} ms"
    if value < 120:
        return f"{amount(value)} s"
    if value < 7200:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.0f} h" if value < 172_800 else f"{value / 86_400:.0f} d"


def size(value: float | None) -> str:
    """Return bytes in a unit that suits them."""
    if value is None:
        return NOTHING
    for unit in _UNITS[:-1]:
        if abs(value) < 1024:
            return f"{amount(value)} {unit}"
        value /= 1024
    return f"{amount(value)} {_UNITS[-1]}"


def moment(value: float | None) -> Markup:
    """Return Unix seconds as a ``<time>`` in UTC, to the second."""
    if value is None:
        return Markup("–")
    try:
        when = datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError, TypeError):  # of a damaged file, or a clock gone wrong
        return Markup.escape(shortened(f"{value}", 24))
    template = Markup('<time datetime="{}">{}</time>')
    return template.format(when.isoformat(timespec="seconds"), when.strftime("%Y-%m-%d %H:%M:%S"))


FILTERS = {one.__name__: one for one in (visible, shortened, ending, count, amount, share, seconds, size, moment)}
