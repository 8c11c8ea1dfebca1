"""How far the values are apart along a reply, as a strip: one bar for each position (or for each few), differences marked with the letter of their class.

House rules. Pure: values in, SVG out. Colours are custom properties. The height is logarithmic, for errors span five decades; what was not measured has no bar.
"""

from __future__ import annotations

import math

from markupsafe import Markup

from proxy.ledger.pages.strands import Choice, error

WIDTH, HEIGHT, BARS = 960, 72, 240
_FLOOR, _DECADES = 1e-4, 5.0  # nats: what two runs of one engine often differ by, and from there up to 10
_LETTERS = {"genuine": "G", "near_tie": "N", "exact_tie": "T", "unknown": "?"}
_NAMES = {kind: f"var(--c-{kind.replace('_', '-')})" for kind in _LETTERS}
_BAR = Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="var(--c-band)"/>')
_MARK = Markup(
    '<g fill="{0}"><rect x="{1}" y="12" width="2" height="{2}"/><text x="{3}" y="10" font-size="11" text-anchor="{4}">{5}</text></g>'
)
_SVG = Markup(
    '<svg class="strip" viewBox="0 0 {} {}" role="img" aria-labelledby="strip-t strip-d">'
    '<title id="strip-t">Error by position</title><desc id="strip-d">{}</desc>{}</svg>'
)


def height(value: float) -> float:
    """Return the share of the strip's height that an error (nats) takes."""
    return min(1.0, max(0.02, math.log10(max(value, _FLOOR) / _FLOOR) / _DECADES))


def strip(choice: Choice) -> Markup | None:
    """Return the strip; None where nothing was measured."""
    compared = choice.compared
    places = compared.positions if compared.positions is not None else range(compared.compared)
    errors = [(place, value) for place in places if (value := error(choice, place)) is not None]
    if not errors:
        return None
    length = max(choice.length("primary"), errors[-1][0] + 1)
    each = max(1, math.ceil(length / BARS))
    tallest: dict[int, float] = {}
    for place, value in errors:
        tallest[place // each] = max(tallest.get(place // each, 0.0), value)
    wide = WIDTH / math.ceil(length / each)
    bars = [_bar(at * wide, wide, value) for at, value in sorted(tallest.items())]
    first = () if compared.first is None else (compared.first,)
    marks = [_mark(flip.index / each * wide, flip.kind.value) for flip in (*first, *compared.flips)[:BARS]]
    worst = max(errors, key=lambda one: one[1])
    say = (
        f"{len(errors):,} positions with values of both; the largest difference of logprobs is {worst[1]:.3g} nats at token {worst[0]:,}."
        + (f" Each bar is the largest of {each} positions." if each > 1 else "")
    )
    return _SVG.format(WIDTH, HEIGHT, say, Markup("").join([*bars, *marks]))


def _bar(x: float, wide: float, value: float) -> Markup:
    tall = height(value) * (HEIGHT - 14)
    return _BAR.format(f"{x:.1f}", f"{HEIGHT - tall:.1f}", f"{max(0.6, wide * 0.85):.2f}", f"{tall:.1f}")


def _mark(x: float, kind: str) -> Markup:
    anchor = "start" if x < WIDTH / 2 else "end"
    return _MARK.format(
        _NAMES[kind], f"{x:.1f}", HEIGHT - 12, f"{x + (3 if anchor == 'start' else -1):.1f}", anchor, _LETTERS[kind]
    )
