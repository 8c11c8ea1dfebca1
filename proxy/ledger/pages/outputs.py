"""Both outputs as markup: a window of tokens, row by row, each a link to its own panel; or, where no tokens are known, the texts around the place where they part.

House rules. Pure. Markup is made of escaped pieces; colour is never alone: differences carry a letter, errors an underline that grows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from proxy.compare.comparison import Mode
from proxy.ledger.examples import shared
from proxy.ledger.pages.strands import MOST, STEPS, WINDOW, Cell, Choice, Row, rows
from proxy.ledger.pages.strip import strip
from proxy.ledger.pages.token_text import marked, raw
from proxy.ledger.pages.visible import visible
from proxy.ledger.record import Record

#: Characters of a text that are shown on either side of the place where two texts part.
AROUND = 1_200
_LETTERS = {"genuine": "G", "near_tie": "N", "exact_tie": "T", "unknown": "?"}
#: With %, which takes a third of the time of ``format``: there are hundreds on a page.
_TOKEN = Markup('<a class="%s" href="%s" id="%s%d" data-token="%d" data-kind="%s"%s>%s</a>')
_LABEL = Markup(' aria-label="%s"')
_CHANNEL = Markup('<span class="tag channel">{}</span>')
_END = Markup('<span class="ended">end: {}</span>')


def shown(choice: Choice, begin: int, record: str) -> dict[str, Any]:
    """Return what a template needs of a window."""
    lengths = {arm: choice.length(arm) for arm in ("primary", "shadow")}
    window = rows(choice, begin)
    end = window[-1].start + max(len(window[-1].primary), len(window[-1].shadow)) if window else begin
    longest, at = max(lengths.values()), choice.at
    sides = {arm: choice.side(arm) for arm in lengths}
    return {
        "rows": [_row(choice, one, record, begin) for one in window],
        "begin": begin,
        "end": end,
        "lengths": lengths,
        "cut": {arm: side.total for arm, side in sides.items() if side is not None and side.cut},
        "before": None if begin == 0 else link(choice, record, max(0, begin - WINDOW)),
        "after": None if end >= longest else link(choice, record, end),
        "first": None if at is None else link(choice, record, None) + f"#t{at}",
        "at": at,
        "inside": at is not None and begin <= at < end,
        "sampled": choice.mode is Mode.FORCED and choice.compared.positions is not None,
        "strip": strip(choice),
        "steps": STEPS,
        "legend": _legend(),
        "texts": any(side is not None and side.texts is not None for side in sides.values()),
        "kept": choice.detail is not None,
    }


def link(choice: Choice, record: str, begin: int | None, token: int | None = None) -> str:
    """Return the address of a window, or of a token in it."""
    terms = [f"choice={choice.compared.index}"] if choice.compared.index else []
    terms += [f"from={begin}"] if begin is not None else []
    terms += [f"token={token}"] if token is not None else []
    return f"/divergences/{record}" + (f"?{'&'.join(terms)}" if terms else "")


def _row(choice: Choice, row: Row, record: str, begin: int) -> dict[str, Any]:
    return {
        "start": row.start,
        "end": row.start + max(len(row.primary), len(row.shadow)) - 1,
        "primary": _cells(choice, "primary", row, record, begin),
        "shadow": _cells(choice, "shadow", row, record, begin),
        "primary_end": _end(choice, "primary", row),
        "shadow_end": _end(choice, "shadow", row),
    }


def _cells(choice: Choice, arm: str, row: Row, record: str, begin: int) -> Markup:
    cells: tuple[Cell, ...] = getattr(row, arm)
    made: list[Markup] = []
    channel = None
    side = choice.side(arm)
    for one in cells:
        if one.channel != channel and (side is not None and len(side.channels) > 1):
            made.append(_CHANNEL.format(one.channel.value))
        channel = one.channel
        made.append(token_link(one, arm, link(choice, record, begin, one.index)))
    return Markup("").join(made)


def _end(choice: Choice, arm: str, row: Row) -> Markup:
    """Return how a reply ended, behind its last token; nothing elsewhere."""
    cells, side = getattr(row, arm), choice.side(arm)
    reason = choice.compared.finish_reasons[0 if arm == "primary" else 1]
    if side is None or side.cut or reason is None or not cells or cells[-1].index + 1 != choice.length(arm):
        return Markup("")
    return _END.format(marked(reason, MOST))


def token_link(one: Cell, arm: str, address: str) -> Markup:
    """Return a token as a link to its panel."""
    names = ["t"]
    names += [one.kind, "differs"] if one.kind else [f"e{one.step}"] if one.step and not one.after else []
    names += [name for name in ("after", "same", "unscored") if getattr(one, name)]
    text, word = content(one)
    said = _LABEL % _spoken(one, word) if one.kind or not (one.text or "").strip() else ""
    mark, letter = "t" if arm == "primary" else "s", _LETTERS.get(one.kind, "")
    return _TOKEN % (" ".join(names), f"{address}#panel", mark, one.index, one.index, letter, said, text)


def content(one: Cell) -> tuple[Markup, str]:
    """Return a token's own content as markup, and how to speak of it where it has no letters."""
    if one.data is not None and ("\ufffd" in (one.text or "\ufffd") or not one.text):
        return raw(one.data), f"bytes {one.data[:MOST].hex(' ')}"
    if one.text:
        word = one.text if one.text.strip() else {" ": "space", "\n": "line end", "\t": "tab"}.get(one.text, "blanks")
        return marked(one.text, MOST), word[:MOST]
    if one.text == "":
        number = "" if one.id is None else f" #{one.id}"
        return Markup('<span class="ended">empty{}</span>').format(number), f"empty{number}"
    return (
        (Markup('<span class="ended">ended</span>'), "ended")
        if one.id is None
        else (escape(f"#{one.id} "), f"number {one.id}")
    )


def own(one: Cell) -> Markup:
    """Return a token by itself."""
    return Markup('<bdi class="tok">{}</bdi>').format(content(one)[0])


def _spoken(one: Cell, word: str) -> str:
    kind = f", {one.kind.replace('_', ' ')}" if one.kind else ""
    return f"{visible(word)}: token {one.index}{kind}"


def _legend() -> list[tuple[int, str]]:
    ends = [*[f"{one:g}" for one in STEPS], None]
    first = (0, f"below {ends[0]}")
    return [
        first,
        *((at, f"{low} to {high}" if high else f"{low} and more") for at, (low, high) in enumerate(pairwise(ends), 1)),
    ]


def texts(record: Record, index: int) -> dict[str, Any] | None:
    """Return both texts around the place where they part; None where texts are not kept, or there is none."""
    content_, choices = record.content, [one.index for one in record.comparison.choices] or [0]
    if index not in choices:
        return None
    place = choices.index(index)
    if content_ is None or not any(len(one) > place for one in (content_.primary, content_.shadow)):
        return None
    if record.comparison.outcome != "incomparable" and not any(
        one.by_text or one.ids or one.first for one in record.comparison.choices
    ):
        return None
    one, other = (arm[place] if len(arm) > place else "" for arm in (content_.primary, content_.shadow))
    parted = shared(one, other)
    return {
        "same": one == other,
        "at": parted,
        "arms": [_part("primary", one, parted), _part("shadow", other, parted)],
    }


def _part(arm: str, text: str, parted: int) -> dict[str, Any]:
    begin = max(0, parted - AROUND)
    return {
        "arm": arm,
        "length": len(text),
        "left_out_before": begin,
        "before": marked(text[begin:parted], AROUND),
        "here": marked(text[parted : parted + 1]),
        "after": marked(text[parted + 1 :], AROUND),
    }
