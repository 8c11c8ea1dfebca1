import pytest

from proxy.compare.comparison import By
from proxy.compare.identity import key, resolvable, same
from proxy.compare.token_stream import Alternative, Token


@pytest.mark.parametrize(
    ("left", "right", "answer"),
    [
        (Token("a", id=1), Token("b", id=1), True),
        (Token("a", id=1), Token("a", id=2), False),
        (Token("a", id=1), Token("a"), True),
        (Token(" the", data=b" the"), Token("?", data=b" the"), True),
        (Token("é", data=b"\xc3"), Token("é", data=b"\xc3\xa9"), False),
        (Token("", data=b""), Token("x", data=b"x"), None),
        (Token("\ufffd"), Token("\ufffd"), None),
        (Token(""), Token(""), None),
        (Token("a"), Alternative(-1.0, id=5, text="a"), True),
        (Token("a"), Alternative(-1.0, id=5), None),
    ],
)
def test_same_goes_by_the_best_that_both_give(left, right, answer):
    assert same(left, right) is answer
    assert same(right, left) is answer


def test_what_identifies_nothing_has_no_key():
    assert [key(Token("a\ufffd", data=b""), by) for by in By] == [None, None, None]
    assert [key(Token("a", id=0, data=b"a"), by) for by in By] == [0, b"a", "a"]
    assert not resolvable(None)
