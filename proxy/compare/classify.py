"""Why two arms differ at a token, and which of exactly tied tokens an arm chose.

House rules. The four classes of a flip and nothing else; equality is equality of the reported values, never closeness.
What the lists leave open is ``unknown``: whatever class is given is the one that the whole vocabulary would give. The chosen token is taken from the token, never from a place in the list: among
tied tops the order of a list means nothing.
"""

from __future__ import annotations

from proxy.compare.comparison import Flip, FlipClass, Pick, SeenBy, Tie, TokenRef
from proxy.compare.identity import Named, same
from proxy.compare.near_tie import Tau
from proxy.compare.row import Row, value
from proxy.compare.token_stream import Token

#: Each of a tied set is looked for in all of the other list; an engine whose whole vocabulary is tied would cost the square of it.
_LOOKED_UP = 64
#: Tied sets are of two tokens, rarely three; the ids of a larger one are not worth their place in a record.
_KEPT = 8


def pick(row: Row, token: Token, other: Row | None = None) -> Pick | None:
    """Say which member of its tied set an arm chose, by token id.

    None without a tie, when the chosen token is not in the set (it was sampled, or biased), when the list may have been
    cut within the set, and when an id is missing. Ids that this arm does not report are taken from the ``other`` arm's row
    at the same position, where exactly one entry there is the same token, and not for sets of more than ``_LOOKED_UP``.
    """
    known = _tied_ids(row, other)
    mine = _id(token, None if len(known) > _LOOKED_UP else other)
    if mine is None or mine not in known:
        return None
    if mine == known[0]:
        return Pick.LOWEST
    return Pick.HIGHEST if mine == known[-1] else Pick.OTHER


def _tied_ids(row: Row, other: Row | None) -> list[int]:
    """Return the ids of the tied set, ascending; empty without a tie, where one is missing, and where the list may end within the set."""
    tops = row.tops
    if len(tops) < 2 or not row.ties_whole:
        return []
    if len(tops) > _LOOKED_UP:
        other = None
    ids = [_id(entry, other) for entry in tops]
    known = [number for number in ids if number is not None]
    return sorted(known) if len(known) == len(ids) else []


def _id(token: Named, other: Row | None) -> int | None:
    if token.id is not None or other is None:
        return token.id
    found = [entry.id for entry in other.entries if entry.id is not None and same(entry, token)]
    return found[0] if len(found) == 1 else None


def tie(index: int, arm: str, row: Row, picked: Pick | None, other: Row | None = None) -> Tie | None:
    """Return the exact tie at the top of an arm's list, if there is one; ids that it lacks as in ``pick``."""
    size = len(row.tops)
    if size < 2:
        return None
    ids = tuple(_tied_ids(row, other)) if size <= _KEPT else ()
    return Tie(index=index, arm=arm, size=size, pick=picked, ids=ids)


def classify(
    index: int,
    tokens: tuple[Named | None, Named | None],
    rows: tuple[Row, Row],
    tau: Tau,
    *,
    picks: tuple[Pick | None, Pick | None] = (None, None),
    chose: bool,
) -> Flip:
    """Classify one difference between two tokens at the same prefix; both pairs are (primary's, shadow's).

    A token that is None stands for an arm that had ended without reporting an end token. ``chose`` is true where both
    tokens were chosen (``free``), false where they are the heads of two lists (``forced``); ``picks`` say which member of
    its own tied set each arm chose.
    """
    primary, shadow = tokens
    ours = _pair(rows[0], primary, shadow)
    theirs = _pair(rows[1], shadow, primary)
    seen_by = _seen_by(ours, theirs)
    least = _at_least(rows[0], primary, shadow) if ours is None else None
    return Flip(
        index=index,
        primary=_ref(rows[0], primary),
        shadow=_ref(rows[1], shadow),
        kind=_kind(seen_by, ours, least, tau),
        gap=ours,
        gap_at_least=least,
        shadow_gap=theirs,
        tie_seen_by=seen_by,
        primary_pick=picks[0] if seen_by in (SeenBy.BOTH, SeenBy.PRIMARY) else None,
        shadow_pick=picks[1] if seen_by in (SeenBy.BOTH, SeenBy.SHADOW) else None,
        lowest=_lowest(primary, shadow) if chose else None,
        tie_break_mismatch=chose and seen_by is SeenBy.BOTH,
    )


def _kind(seen_by: SeenBy | None, gap: float | None, least: float | None, tau: Tau) -> FlipClass:
    if seen_by is not None:
        return FlipClass.EXACT_TIE
    if gap is None:
        return FlipClass.UNKNOWN if least is None or tau.covers(least) else FlipClass.GENUINE
    return FlipClass.NEAR_TIE if tau.covers(gap) else FlipClass.GENUINE


def _pair(row: Row, mine: Named | None, other: Named | None) -> float | None:
    """Return an arm's own gap between two tokens, mine minus other's."""
    if mine is None or other is None:
        return None
    first, second = value(row, mine), value(row, other)
    return None if first is None or second is None else first - second


def _at_least(row: Row, mine: Named | None, other: Named | None) -> float | None:
    """Return how far an arm puts its token above another that its list does not hold: an unlisted one is at most as likely as the least of the list's true head.

    None where that says nothing: no value of its own token, one below the list's end, a list of which nothing is certain, or one that may hold the other under a name that cannot be told.
    """
    if mine is None or other is None or not row.certain:
        return None
    first = value(row, mine)
    if first is None or any(same(entry, other) is not False for entry in row.entries):
        return None
    least = first - row.entries[row.certain - 1].logprob
    return least if least > 0.0 else None


def _seen_by(ours: float | None, theirs: float | None) -> SeenBy | None:
    match (ours == 0.0, theirs == 0.0):
        case (True, True):
            return SeenBy.BOTH
        case (True, False):
            return SeenBy.PRIMARY
        case (False, True):
            return SeenBy.SHADOW
        case _:
            return None


def _ref(row: Row, token: Named | None) -> TokenRef:
    return TokenRef() if token is None else TokenRef(token.id, token.text, value(row, token))


def _lowest(primary: Named | None, shadow: Named | None) -> str | None:
    if primary is None or shadow is None or primary.id is None or shadow.id is None:
        return None
    return "primary" if primary.id < shadow.id else "shadow"
