import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.align import Aligned, Unaligned, align
from proxy.compare.comparison import By
from proxy.compare.token_stream import Token, TokenStream


def texts(*pieces: str, **more) -> TokenStream:
    return TokenStream(tokens=tuple(Token(piece) for piece in pieces), **{"count": len(pieces), **more})


def raw(*pieces: bytes, **more) -> TokenStream:
    tokens = tuple(Token(piece.decode(errors="replace"), data=piece) for piece in pieces)
    return TokenStream(tokens=tokens, **{"count": len(pieces), **more})


def test_ids_decide_whatever_the_texts_are(make):
    left = make.stream(make.token(1), make.token(2, text="x"))
    right = make.stream(make.token(1, text="other"), make.token(3, text="x"))
    assert align(left, right) == Aligned(By.ID, 1, parted=True)


def test_bytes_where_an_arm_has_no_ids():
    assert align(raw(b"a", b"\xf0\x9f"), raw(b"a", b"\xf0\x9f")) == Aligned(By.BYTES, 2)
    assert align(raw(b"a", b"\xf0\x9f"), raw(b"a", b"\xf0\x9e")) == Aligned(By.BYTES, 1, parted=True)


def test_texts_are_the_last_resort_and_some_say_nothing():
    assert align(texts("a", "b"), texts("a", "b")) == Aligned(By.TEXT, 2)
    assert align(texts("a", "\ufffd", "b"), texts("a", "\ufffd", "c")) == Aligned(By.TEXT, 1, unresolved=True)
    assert align(texts("a", ""), texts("a", "x")) == Aligned(By.TEXT, 1, unresolved=True)


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (TokenStream(text="a"), texts("a"), "no_tokens"),
        (texts("a", count=2), texts("a"), "token_count"),
        (texts("a"), texts("a", rows_missing=True), "token_count"),
    ],
)
def test_what_cannot_be_aligned_says_why(left, right, reason):
    assert align(left, right) == Unaligned(reason)
    assert align(right, left) == Unaligned(reason)


def test_rows_merged_differently_are_not_a_difference_when_nobody_counted():
    merged, split = raw(b"a\xc3\xa9", b"!", count=None), raw(b"a", b"\xc3", b"\xa9", b"!")
    assert align(merged, split) == Unaligned("unaligned")
    assert align(split, merged) == Unaligned("unaligned")


def test_a_longer_token_is_a_difference_when_what_follows_differs_or_both_counted():
    assert align(raw(b"the", b"m", count=None), raw(b"th", b"at")) == Aligned(By.BYTES, 0, parted=True)
    assert align(raw(b"the"), raw(b"th", b"e")) == Aligned(By.BYTES, 0, parted=True)


@given(st.lists(st.integers(0, 5), min_size=1), st.lists(st.integers(0, 5), min_size=1))
def test_alignment_is_the_common_prefix_and_symmetric(make, left, right):
    first, second = (make.stream(*map(make.token, ids)) for ids in (left, right))
    aligned = align(first, second)
    assert isinstance(aligned, Aligned)
    assert aligned == align(second, first)
    assert left[: aligned.common] == right[: aligned.common]
    assert aligned.parted is (left[: min(len(left), len(right))] != right[: min(len(left), len(right))])
    if aligned.parted:
        assert left[aligned.common] != right[aligned.common]
    else:
        assert aligned.common == min(len(left), len(right))
