"""Both arms' tokens of one choice, laid side by side: what stands at each place, how far the values are apart there, what followed a difference.

House rules. Pure: a record and what is kept beside it in, values out; markup is made elsewhere. Without texts (``records.content: hash`` or ``none``, or a record of before
details were kept) tokens are their ids; without ids there is nothing but positions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from msgspec import Struct

from proxy.compare.comparison import ChoiceComparison, Flip, Mode, TokenRef
from proxy.compare.token_stream import Channel
from proxy.ledger.detail import ChoiceDetail, Side

#: Tokens of one window, of each arm; a row of the page; how many stand before what the window was opened for.
WINDOW, ROW, BEFORE = 384, 32, 96
#: Characters of one arm that a window shows; a token counts for at most ``MOST``: the window ends sooner where tokens are long.
CHARACTERS, MOST = 24_000, 120
#: From where on |difference of logprobs| (nats) counts as one step more.
STEPS = (0.01, 0.05, 0.2, 1.0)
_INDEX = attrgetter("index")


class Cell(Struct, frozen=True):
    """One arm's token at one place. ``kind``: class of the difference there, ``""`` for none; ``error``: |difference of logprobs| in nats of the primary's token.

    ``after``: it follows a difference, so both arms speak of something else; ``same``: the shadow scored this token and would have picked it, too;
    ``unscored``: it did not score this place.
    """

    index: int
    id: int | None = None
    text: str | None = None
    data: bytes | None = None
    channel: Channel = Channel.CONTENT
    kind: str = ""
    error: float | None = None
    after: bool = False
    same: bool = False
    unscored: bool = False

    @property
    def step(self) -> int:
        """How many of ``STEPS`` the error reaches."""
        return 0 if self.error is None else sum(self.error >= one for one in STEPS)


class Row(Struct, frozen=True):
    """The same places of both arms."""

    start: int
    primary: tuple[Cell, ...]
    shadow: tuple[Cell, ...]


class Choice(Struct, frozen=True):
    """One choice in one mode, with what is kept beside it."""

    mode: Mode
    compared: ChoiceComparison
    detail: ChoiceDetail | None = None

    @property
    def at(self) -> int | None:
        """Where the first difference is; None without any."""
        if self.compared.first is not None:
            return self.compared.first.index
        return min((flip.index for flip in self.compared.flips), default=None)

    def flip(self, index: int) -> Flip | None:
        """Return the difference at a place."""
        first, flips = self.compared.first, self.compared.flips
        if first is not None and first.index == index:
            return first
        at = bisect_left(flips, index, key=_INDEX)
        return flips[at] if at < len(flips) and flips[at].index == index else None

    def entry(self, index: int) -> int | None:
        """Return where a place stands in the arrays of the comparison; None where it was not compared."""
        positions = self.compared.positions
        if positions is None:
            return index if 0 <= index < self.compared.compared else None
        at = bisect_left(positions, index)
        return at if at < len(positions) and positions[at] == index else None

    def length(self, arm: str) -> int:
        """How many tokens of an arm can be shown."""
        side = self.side(arm)
        if side is not None and len(side):
            first = self.compared.first
            ended = first is not None and first.index == len(side) and not side.cut
            return len(side) + ended  # the place where it had nothing more to say is shown, too
        known = (
            max(self.compared.positions or (self.compared.compared - 1,), default=-1) + 1 if self.compared.ids else 0
        )
        return max(known, (self.at if self.at is not None else -1) + 1)

    def side(self, arm: str) -> Side | None:
        """Return an arm's kept tokens."""
        return None if self.detail is None else getattr(self.detail, arm)


def taken(values: Sequence[float | None], at: int | None) -> float | None:
    """Return an entry of an array that may be shorter than the others, or absent."""
    return values[at] if at is not None and at < len(values) else None


def error(choice: Choice, index: int) -> float | None:
    """Return |difference of logprobs| in nats of the primary's token at a place; None where an arm gave no value."""
    at = choice.entry(index)
    one, other = taken(choice.compared.primary_logprobs, at), taken(choice.compared.shadow_logprobs, at)
    return None if one is None or other is None else abs(other - one)


def cell(choice: Choice, arm: str, index: int) -> Cell:
    """Return what an arm has at a place."""
    flip, first = choice.flip(index), choice.compared.first
    forced = choice.mode is Mode.FORCED
    own = _own(choice, arm, index, flip)
    return Cell(
        index=index,
        id=own.id,
        text=own.text,
        data=None if (side := choice.side(arm)) is None or (forced and flip and arm == "shadow") else side.data(index),
        channel=Channel.CONTENT if side is None else side.channel(index),
        kind="" if flip is None else flip.kind.value,
        error=error(choice, index),
        after=not forced and first is not None and index > first.index,
        same=forced and arm == "shadow" and flip is None and choice.entry(index) is not None,
        unscored=forced and arm == "shadow" and flip is None and choice.entry(index) is None,
    )


def _own(choice: Choice, arm: str, index: int, flip: Flip | None) -> TokenRef:
    """Find a token where it is kept: at a difference the record itself has it."""
    side = choice.side(arm)
    if flip is not None and (choice.mode is Mode.FORCED or side is None or index >= len(side)):
        return flip.primary if arm == "primary" else flip.shadow
    if side is not None and index < len(side):
        ids, texts = side.ids, side.texts
        return TokenRef(
            None if ids is None else ids[index], None if texts is None else texts[index], side.logprobs[index]
        )
    at = choice.entry(index)
    ids = choice.compared.ids
    return TokenRef(ids[at] if at is not None and at < len(ids) else None)


def start(choice: Choice, asked: int | None) -> int:
    """Return where the window begins that shows ``asked``, or else the first difference: on whole rows, so that links keep their windows."""
    longest = max(choice.length("primary"), choice.length("shadow"))
    wanted = asked if asked is not None else max(0, (choice.at or 0) - BEFORE)
    return max(0, min(wanted, max(0, longest - 1))) // ROW * ROW


def rows(choice: Choice, begin: int) -> list[Row]:
    """Return one window, in rows; it ends where it is full."""
    found: list[Row] = []
    lengths = {arm: choice.length(arm) for arm in ("primary", "shadow")}
    left = dict.fromkeys(lengths, CHARACTERS)
    for row in range(begin, min(begin + WINDOW, max(lengths.values())), ROW):
        sides = {
            arm: tuple(cell(choice, arm, at) for at in range(row, min(row + ROW, end))) for arm, end in lengths.items()
        }
        for arm, cells in sides.items():
            left[arm] -= sum(min(MOST, len(one.text or "")) for one in cells)
        found.append(Row(row, sides["primary"], sides["shadow"]))
        if min(left.values()) <= 0:
            break
    return found
