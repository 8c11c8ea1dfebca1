"""A book's thresholds are those of what it has learned so far, however often they were asked for before."""

from __future__ import annotations

import msgspec
import pytest

from proxy.compare.comparison import Comparison
from proxy.compare.near_tie import ENOUGH_POSITIONS, Noise, TauOrigin
from proxy.judge.noise import NoiseBook
from tests.compare.test_near_tie import seen

QUARTERS, TEXT = seen([0.25] * 50, [0.25] * 50), seen()


def taught(book: NoiseBook, model: str, one: Comparison) -> None:
    book.learn(model, one, control=True)


def test_what_was_learned_shows_in_the_next_threshold() -> None:
    book = NoiseBook(None)
    for number in range(12):
        before = book.taus("m", "bfloat16")
        assert before == NoiseBook(None, book.encode()).taus("m", "bfloat16"), number
        taught(book, "m", QUARTERS)
        taught(book, "m", TEXT)  # a reply that gave text alone teaches nothing
    assert ENOUGH_POSITIONS < 50 * 12
    assert book.taus("m", "bfloat16").free.origin is TauOrigin.LEARNED
    assert book.taus("m", "bfloat16").forced.origin is TauOrigin.ASSUMED
    assert book.taus("m", "bfloat16") != book.taus("other", "bfloat16")
    assert book.taus("other", "bfloat16") != book.taus("other", "float32")
    book.forget()
    assert book.taus("m", "bfloat16") == book.taus("other", "bfloat16")


def test_models_beyond_the_bound_share_what_they_learn() -> None:
    book = NoiseBook(None)
    for number in range(200):
        book.taus(f"m{number}", "")
        taught(book, f"m{number}", QUARTERS)
    assert len(book._pages) <= 2 * 50 + 2
    assert len(book._known) <= len(book._pages)
    assert book.taus("m150", "").free == book.taus("m199", "").free
    assert book.taus("m199", "").free.origin is TauOrigin.LEARNED


@pytest.mark.parametrize(
    "change",
    [
        lambda page: page.shifts.pop(),
        lambda page: page.multiples.append(1),
        lambda page: page.shifts.__setitem__(0, -1),
    ],
)
def test_counts_in_other_bins_than_those_of_now_are_learned_anew(change) -> None:
    book = NoiseBook(None)
    for _ in range(12):
        taught(book, "m", QUARTERS)
    kept = msgspec.msgpack.decode(book.encode(), type=dict[str, Noise])
    change(kept["free\0m"])
    again = NoiseBook(None, msgspec.msgpack.encode(kept))
    assert again.taus("m", "").free.origin is TauOrigin.ASSUMED
    taught(again, "m", QUARTERS)
    assert NoiseBook(None, again.encode()).taus("m", "") == again.taus("m", "")
