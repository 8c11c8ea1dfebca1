"""Tokens as columns: what a comparison looks at first, as plain lists; each ``Token`` is made when somebody asks for it.

House rules. A value like a tuple of tokens, equal to one. A reader makes columns only of what is in the usual shape, as ``Columns`` says; it vouches for that,
and whoever compares may rely on it. Nothing here knows an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice, pairwise, repeat
from typing import Any, NamedTuple, overload

from proxy.compare.token_stream import Token


class Lists(NamedTuple):
    """The alternatives of all tokens, one after another: what they are called, their logprobs, and how many each token has.

    Those of one token stand most likely first (not so within ties). Flat, because what is done to all of them at once costs half.
    """

    names: list[str]
    values: list[float]
    sizes: list[int]

    @property
    def width(self) -> int | None:
        """How many each token has, None where they have not all the same."""
        sizes = self.sizes
        if not sizes or sizes.count(sizes[0]) < len(sizes):
            return None
        return sizes[0]

    def places(self) -> Iterator[tuple[int, int]]:
        """From where to where the alternatives of each token stand."""
        return pairwise(accumulate(self.sizes, initial=0))


class Columns(Sequence[Token]):
    """One stream's tokens, all of the channel ``content``.

    ``logprobs``: the chosen tokens'. ``ids``: theirs, or None when the engine gave none. ``names``: what the chosen tokens are called in the lists: their
    labels when ``labelled`` (equal labels are equal ids), else their texts, which then are not empty, whole, and all that is known of a token beside its id and, when
    ``spelled``, its bytes, which are those of the text.
    """

    __slots__ = ("_made", "_token", "ids", "labelled", "lists", "logprobs", "names", "spelled")

    def __init__(
        self,
        names: list[str],
        logprobs: list[float | None],
        lists: Lists,
        *,
        labelled: bool,
        spelled: bool,
        ids: tuple[int, ...] | None,
        token: Callable[[int], Token],
    ) -> None:
        self.names, self.logprobs, self.lists = names, logprobs, lists
        self.labelled, self.spelled, self.ids = labelled, spelled, ids
        self._token = token
        self._made: tuple[Token, ...] | None = None

    def with_ids(self, ids: tuple[int, ...]) -> Columns:
        """Return the same tokens with ids that they did not have."""
        make = self._token

        def named(index: int) -> Token:
            token = make(index)
            return Token(token.text, ids[index], token.data, token.logprob, token.top, token.channel)

        return Columns(
            self.names,
            self.logprobs,
            self.lists,
            labelled=self.labelled,
            spelled=self.spelled,
            ids=ids,
            token=named,
        )

    def rows(self, upto: int) -> Iterator[tuple[list[str], list[float]]]:
        """Names and logprobs of the alternatives of each of the first ``upto`` tokens."""
        names, values, _ = self.lists
        if not values:
            return repeat(([], []), min(upto, len(self)))
        return ((names[at:to], values[at:to]) for at, to in islice(self.lists.places(), upto))

    def all(self) -> tuple[Token, ...]:
        """Every token."""
        if self._made is None:
            self._made = tuple(map(self._token, range(len(self.names))))
        return self._made

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Token]:
        return iter(self.all())

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Token, ...]: ...
    def __getitem__(self, index: int | slice) -> Token | tuple[Token, ...]:
        if self._made is None and isinstance(index, int):
            return self._token(range(len(self.names))[index])
        return self.all()[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Columns):
            return self is other or self.all() == other.all()
        return self.all() == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.all())

    def __repr__(self) -> str:
        return repr(self.all())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self.all(),)
