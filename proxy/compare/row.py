"""What one arm shows at one position: its list with the chosen token in it, and how much of the list can be trusted.

House rules. One arm, one position; nothing here knows the other arm. Engines differ in whether the chosen token is in
the list, at which place, and whether it took somebody else's (vLLM lists it first even when it is not among the most
likely, and cuts the list after that): the rest of the list is then still the true head of the distribution.
"""

from __future__ import annotations

from math import exp, inf, isfinite

from msgspec import Struct

from proxy.compare.identity import Named, resolvable, same
from proxy.compare.token_stream import Alternative, Token

#: Probabilities are trusted to this: lists of real fp32 engines sum to 1 with about such an error.
MASS_ERROR = 1e-6


class Row(Struct, frozen=True, gc=False):
    """Every token that an arm shows at a position, by descending logprob, ties by ascending id.

    ``chosen`` is the index of the chosen token in ``entries``, None when the arm gave no value for it. ``certain`` is how
    many leading entries are known to be the most likely tokens of all, in this order (0: the list proves nothing).
    """

    entries: tuple[Alternative, ...] = ()
    chosen: int | None = None
    certain: int = 0

    @property
    def tied(self) -> bool:
        """True when the two most likely tokens are known and share the highest logprob."""
        return self.certain > 0 and len(self.entries) > 1 and self.entries[0].logprob == self.entries[1].logprob

    @property
    def tops(self) -> tuple[Alternative, ...]:
        """The entries that share the highest logprob; empty when the most likely token is not known."""
        if not self.certain:
            return ()
        highest = self.entries[0].logprob
        size = 1
        while size < len(self.entries) and self.entries[size].logprob == highest:
            size += 1
        return self.entries[:size]

    @property
    def gap(self) -> float | None:
        """First minus second logprob in nats, None when the list does not show both."""
        return self.entries[0].logprob - self.entries[1].logprob if self.certain > 1 else None

    @property
    def ties_whole(self) -> bool:
        """True when no token outside the list can share the highest logprob.

        Either the list goes on below the tie, or the probability that it leaves is too small for another such token.
        """
        size = len(self.tops)
        if not size:
            return False
        if size < self.certain:
            return True
        left = 1.0 - sum(exp(entry.logprob) for entry in self.entries)
        return left < exp(self.entries[0].logprob) - MASS_ERROR


def _order(entry: Alternative) -> tuple[float, float]:
    return -entry.logprob, inf if entry.id is None else entry.id


def _is_chosen(entry: Alternative, token: Token) -> bool:
    """Find the chosen token in its own list; where ids are missing an equal value and an equal report must do."""
    if entry.id is not None and token.id is not None:
        return entry.id == token.id
    if entry.logprob == token.logprob and (entry.text == token.text or bool(entry.data and entry.data == token.data)):
        return True
    return same(entry, token) is True


def _certain(entries: tuple[Alternative, ...], chosen: int | None) -> int:
    """Count the leading entries that are the true head of the distribution.

    The others are the engine's most likely tokens, so everything at or above the least of them is; a chosen token below
    all of them may stand anywhere. Alone in its list it is known to be the first when it holds half of the probability.
    """
    if chosen is None:
        return len(entries)
    if len(entries) == 1:
        return int(exp(min(entries[0].logprob, 0.0)) > 0.5 + MASS_ERROR)
    last = len(entries) - 1
    below_all = chosen == last and entries[last].logprob < entries[last - 1].logprob
    return last if below_all else len(entries)


def read_row(token: Token) -> Row:
    """Make the row of one reported token. Values that are not finite are treated as not reported."""
    return _row_in_order(token) or _row_of_any(token)


def _row_of_any(token: Token) -> Row:
    entries = [entry for entry in token.top if isfinite(entry.logprob)]
    if token.logprob is None or not isfinite(token.logprob):
        ordered = tuple(sorted(entries, key=_order))
        return Row(ordered, None, _certain(ordered, None))
    listed = next((entry for entry in entries if _is_chosen(entry, token)), None)
    if listed is not None:
        entries.remove(listed)
    mine = _chosen_entry(token, token.logprob, listed)
    entries.append(mine)
    entries.sort(key=_order)
    ordered = tuple(entries)
    chosen = next(index for index, entry in enumerate(ordered) if entry is mine)
    return Row(ordered, chosen, _certain(ordered, chosen))


def _row_in_order(token: Token) -> Row | None:
    """Make the row of the usual report: finite values in strict order, and the chosen token among them by id, with all that is known of it.

    None where any of this is not so; the result is what the long way gives.
    """
    entries, logprob = token.top, token.logprob
    if logprob is None or token.id is None or len(entries) < 2:
        return None
    chosen = -1
    last = inf
    for index, entry in enumerate(entries):
        if not entry.logprob < last or entry.id is None:
            return None
        last = entry.logprob
        if entry.id == token.id:
            if chosen >= 0:
                return None
            chosen = index
    if chosen < 0 or last == -inf:
        return None
    mine = entries[chosen]
    if mine.text is None or mine.data is None:
        filled = _chosen_entry(token, logprob, mine)
        if filled != mine:
            entries = (*entries[:chosen], filled, *entries[chosen + 1 :])
    return Row(entries, chosen, _certain(entries, chosen)) if isfinite(logprob) else None


def _chosen_entry(token: Token, logprob: float, listed: Alternative | None) -> Alternative:
    """Return the chosen token as an entry: as the list has it (a merged row's text is not its own), the gaps filled in."""
    if listed is None:
        return Alternative(logprob, token.id, token.text, token.data)
    return Alternative(
        listed.logprob,
        token.id if listed.id is None else listed.id,
        token.text if listed.text is None else listed.text,
        token.data if listed.data is None else listed.data,
    )


def value(row: Row, token: Named) -> float | None:
    """Return the logprob (nats) that the arm shows for a token; None when it shows none, or several that could be it."""
    if token.id is not None:
        for entry in row.entries:
            if entry.id == token.id:
                return entry.logprob
    # ``identity.same``, in line: this is one of the innermost loops of a comparison.
    found: float | None = None
    data, text = token.data, token.text if resolvable(token.text) else None
    for entry in row.entries:
        if entry.id is not None and token.id is not None:
            continue  # they were compared above
        if entry.data and data:
            if entry.data != data:
                continue
        elif text is None or entry.text != text:
            continue
        if found is not None:
            return None
        found = entry.logprob
    return found
