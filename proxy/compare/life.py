"""Replies as lives: how many tokens each was watched for, and whether it parted there.

House rules. A life is one token stream of one comparison; the conversation is what lives have in common, and the unit of every interval. A difference of
text alone has no position: it is counted, and its life ends where its tokens do.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from proxy.compare.comparison import ChoiceComparison, Comparison, FlipClass, Mode


class Life(Struct, frozen=True):
    """One token stream: ``exposed`` positions (from 0) were looked at, and where ``parted`` the last of them is the event.

    The event is the first difference in ``free`` mode, the first genuine flip in ``forced`` mode.
    """

    conversation: str
    exposed: int
    parted: bool


def lives(comparisons: Sequence[Comparison], conversations: Sequence[str]) -> list[Life]:
    """Return the lives of all that was compared; ``conversations`` has one key per comparison. Those without exposure are left out."""
    found = (
        life(choice, one.mode, conversation)
        for one, conversation in zip(comparisons, conversations, strict=True)
        if one.incomparable is None
        for choice in one.choices
    )
    return [one for one in found if one.exposed]


def life(choice: ChoiceComparison, mode: Mode, conversation: str) -> Life:
    """Return one token stream's life."""
    match mode:
        case Mode.FREE:
            return Life(conversation, choice.exposed, choice.first is not None)
        case Mode.FORCED:
            index = first_genuine(choice)
            if index is not None:
                return Life(conversation, index + 1, parted=True)
            known = [at for at, agree in zip(indices(choice), choice.top1_agree, strict=False) if agree is not None]
            return Life(conversation, known[-1] + 1 if known else 0, parted=False)


def first_genuine(choice: ChoiceComparison) -> int | None:
    """Return the index of the first genuine flip of a forced comparison, None without."""
    return min((flip.index for flip in choice.flips if flip.kind is FlipClass.GENUINE), default=None)


def indices(choice: ChoiceComparison) -> Sequence[int]:
    """Return the position of each compared one: they run from 0, or are listed."""
    return choice.positions if choice.positions is not None else range(choice.compared)


def without_position(comparisons: Sequence[Comparison]) -> int:
    """Count the differences of text alone, which no position can be given."""
    return sum(
        choice.diverged and choice.first is None
        for one in comparisons
        if one.incomparable is None
        for choice in one.choices
    )
