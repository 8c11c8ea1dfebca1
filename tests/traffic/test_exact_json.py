"""JSON that goes through us keeps its values, however large, and what cannot be kept is refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic.exact_json import Unreadable, read

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_any_value_comes_back_as_it_was(value: object, strict: bool) -> None:
    data = json.dumps(value).encode()
    found, write = read(data, strict=strict)
    assert found == value
    assert json.loads(write(found)) == value


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**18, 10**19, 10**300])
def test_integers_of_any_size_stay_integers(number: int) -> None:
    value, write = read(b'{"n":%d}' % number)
    assert value == {"n": number}
    assert write(value) == b'{"n":%d}' % number


def test_digits_of_a_fraction_are_no_long_integer() -> None:
    value, write = read(b"[-0.00012345678901234567890123, 1e2]")
    assert write(value) == b"[-0.00012345678901234567,100.0]"


def test_what_only_a_lenient_reader_takes() -> None:
    value, write = read(b'{"a":NaN,"b":-Infinity,"c":"\\ud83d"}')
    assert math.isnan(value["a"])
    assert write(value) == b'{"a":NaN,"b":-Infinity,"c":"\\ud83d"}'


@pytest.mark.parametrize(
    "data", [b"{", b"", b"nope", b'{"a":1e999}', b"[" * 100_000, b"1" * 5000, b"\xff", b"[1e999, 12345678901234567890]"]
)
def test_what_cannot_be_kept_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read(data)


@pytest.mark.parametrize("data", [b"[NaN]", b'["\\ud83d"]', b"[Infinity, 12345678901234567890]", b"[1,]"])
def test_strict_refuses_what_is_no_json(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read(data, strict=True)
