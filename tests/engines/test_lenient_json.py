"""JSON as engines write it, and no exception but the declared one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lenient_json import NotJson, loads


def test_what_python_writes_is_read():
    assert math.isnan(loads(b'{"a": NaN}')["a"])
    assert loads(b"[Infinity, -Infinity]") == [math.inf, -math.inf]
    assert loads(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_lone_surrogates_become_replacement_characters():
    value = loads(b'{"a\\ud800": ["\\udfff", "\\ud83c\\udf89"]}')
    assert value == {"a\ufffd\ufffd\ufffd": ["\ufffd\ufffd\ufffd", "🎉"]}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b"nope"])
def test_anything_else_is_not_json(data):
    with pytest.raises(NotJson):
        loads(data)


@given(st.binary(max_size=30))
def test_no_bytes_raise_anything_else(data):
    try:
        value = loads(data)
    except NotJson:
        value = None
    assert value is None or isinstance(value, dict | list | str | int | float | bool)
