"""Invariant: aligning is total and symmetric; what is called common is the same token by token, and where streams part the tokens differ."""

from __future__ import annotations

from proxy.compare.align import Aligned, Unaligned, align
from proxy.compare.identity import same
from proxy.compare.token_stream import Token, TokenStream
from tests.fuzz.target import Target

_TEXTS = ("a", "b", "ab", "", "\ufffd", "é", " a", "aa")
_BYTES = (b"a", b"b", b"ab", b"", b"\xc3", b"\xc3\xa9", None, b"aa")


def stream(data: bytes) -> TokenStream:
    """A stream of tokens: the first byte says what an engine reports, every other is a token."""
    kind, tokens = data[0] if data else 0, []
    for byte in data[1:]:
        place = byte % 8
        tokens.append(
            Token(
                _TEXTS[place],
                id=byte >> 3 if kind & 1 else None,
                data=_BYTES[place] if kind & 2 else None,
                logprob=-float(byte),
            )
        )
    count = len(tokens) + (kind >> 4 & 1) if kind & 4 else None
    return TokenStream(tokens=tuple(tokens), count=count, rows_missing=kind & 8 == 8)


def check(data: bytes) -> None:
    """The first byte says where the second stream begins."""
    place = data[0] % len(data) if data else 0
    left, right = stream(data[1:place]), stream(data[place:])
    found, other = align(left, right), align(right, left)
    assert found == other
    match found:
        case Unaligned():
            assert found.reason in ("no_tokens", "token_count", "unaligned")
        case Aligned():
            shorter = min(len(left.tokens), len(right.tokens))
            assert 0 <= found.common <= shorter
            pairs = list(zip(left.tokens, right.tokens, strict=False))
            assert all(same(*pair) for pair in pairs[: found.common])
            assert not (found.parted and found.unresolved)
            if found.parted:
                assert same(*pairs[found.common]) is False
            elif found.unresolved:
                assert same(*pairs[found.common]) is None
            else:
                assert found.common == shorter
    itself = align(left, left)
    if isinstance(itself, Aligned) and not itself.unresolved:
        assert itself == Aligned(itself.by, len(left.tokens))


TARGET = Target(
    check,
    seeds=(b"\x05\x03abc\x03abd", b"\x04\x02ab\x00ab", b"\x06\x01aaaa\x01aab", b"\x05\x0fabc\x1fabc"),
    longest=256,
)
