"""JSON that goes through us keeps every byte of what is not changed, and what cannot be changed in place is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic.exact_json import Unreadable, read, rewrite

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
BLANKS = st.text(" \n\t\r", max_size=2)


def spelt(value: Any, draw: Any) -> str:
    """One of the many texts that read as a value: blanks, escapes and numbers as a drawer of lots has it."""
    blank = lambda: draw(BLANKS)  # noqa: E731
    match value:
        case dict():
            members = [
                f"{blank()}{spelt(name, draw)}{blank()}:{blank()}{spelt(one, draw)}" for name, one in value.items()
            ]
            return "{" + f"{blank()},".join(members) + blank() + "}"
        case list():
            return "[" + f"{blank()},".join(f"{blank()}{spelt(one, draw)}" for one in value) + blank() + "]"
        case str():
            plain = json.dumps(value, ensure_ascii=draw(st.booleans()))
            return plain if any(map(_lone, value)) is False else json.dumps(value)
        case float() if draw(st.booleans()):
            return f"{value!r}".replace("e", "E") if "e" in repr(value) else f"{value!r}00"
        case _:
            return json.dumps(value)


def _lone(character: str) -> bool:
    return 0xD800 <= ord(character) < 0xE000


@given(VALUES, st.data())
def test_what_is_not_changed_keeps_its_bytes(value: Any, data: st.DataObject) -> None:
    raw = spelt(value, data.draw).encode()
    assert rewrite(raw, read(raw), read(raw)) is raw


@given(VALUES, VALUES, st.data())
def test_any_change_reads_as_what_was_wanted(before: Any, after: Any, data: st.DataObject) -> None:
    raw = spelt(before, data.draw).encode()
    assert read(rewrite(raw, read(raw), after)) == read(json.dumps(after).encode())


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=6), st.data())
def test_members_taken_out_leave_the_bytes_of_the_others(value: dict[str, Any], data: st.DataObject) -> None:
    gone = {name for name in value if data.draw(st.booleans())}
    rest = {name: one for name, one in value.items() if name not in gone}
    members = {name: f"{spelt(name, data.draw)}: {spelt(one, data.draw)}" for name, one in value.items()}
    raw = ("{" + " , ".join(members.values()) + "}").encode()
    left = ("{" + " , ".join(text for name, text in members.items() if name not in gone) + "}").encode()
    assert rewrite(raw, read(raw), read(json.dumps(rest).encode())) == left


@given(st.lists(VALUES, min_size=1, max_size=6), st.data())
def test_a_list_that_loses_its_end_keeps_the_bytes_of_the_rest(value: list[Any], data: st.DataObject) -> None:
    keep = data.draw(st.integers(1, len(value)))
    texts = [spelt(one, data.draw) for one in value]
    raw = ("[ " + " ,".join(texts) + " ]").encode()
    assert rewrite(raw, read(raw), read(raw)[:keep]) == ("[ " + " ,".join(texts[:keep]) + " ]").encode()


@pytest.mark.parametrize(
    ("came", "after", "goes"),
    [
        (b'{"a":1,"b":2}', {"a": 1, "b": None}, b'{"a":1,"b":null}'),
        (b'{"a": 1e2, "b": 2}', {"b": 2}, b'{"b": 2}'),
        (b'{ "a" : 1e2 , "b":2 }', {"a": 100.0}, b'{ "a" : 1e2 }'),
        (b'{"a":1,"b":2}', {}, b"{}"),
        (b'{"a": 1}', {"a": 1, "b": True}, b'{"a": 1,"b":true}'),
        (b"{ }", {"a": [1]}, b'{ "a":[1]}'),
        (b'{"a": 1}', {"b": 2}, b'{"b":2}'),
        (b'{"a":{"b": [1, 2.50, 3]}}', {"a": {"b": [1, 2.5]}}, b'{"a":{"b": [1, 2.50]}}'),
        (b'{"a":[1]}', {"a": []}, b'{"a":[]}'),
        (b'{"a": 1, "a": 2, "b":0}', {"b": 0}, b'{"b":0}'),
        (b'{"a": [1], "a": 2, "b": {}}', {"a": None, "b": {}}, b'{"a": null, "a": null, "b": {}}'),
        (b'{"a":"\\u00e9\\/", "b":0}', {"a": "é/", "b": None}, b'{"a":"\\u00e9\\/", "b":null}'),
        ('{"é": "ü", "b":0}'.encode(), {"é": "ü"}, '{"é": "ü"}'.encode()),
        (b'{"a":1}', {"a": True}, b'{"a":true}'),
    ],
)
def test_changes_are_made_in_their_place(came: bytes, after: Any, goes: bytes) -> None:
    assert rewrite(came, read(came), after) == goes


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**300])
def test_integers_of_any_size_stay_as_they_are(number: int) -> None:
    raw = b'{"n":%d,"x":{}}' % number
    assert rewrite(raw, read(raw), {**read(raw), "x": None}) == b'{"n":%d,"x":null}' % number


def test_what_only_a_lenient_reader_takes_stays_too() -> None:
    raw = b'{"a":NaN,"b":-Infinity,"c":"\\ud83d","d":[NaN, 1e999],"x":1}'
    value = read(raw)
    assert math.isnan(value["a"])
    del value["x"]
    assert rewrite(raw, read(raw), value) == b'{"a":NaN,"b":-Infinity,"c":"\\ud83d","d":[NaN, 1e999]}'


def test_what_is_nested_too_deeply_to_be_changed_is_refused() -> None:
    raw = b'{"x":1, "a":' + b"[" * 1000 + b"]" * 1000 + b"}"
    value = read(raw)
    with pytest.raises(Unreadable):
        rewrite(raw, read(raw), {"a": value["a"]})


@pytest.mark.parametrize("data", [b"{", b"", b"nope", b"[" * 100_000, b"\xff", b"[1,]"])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read(data)


@pytest.mark.parametrize("data", [b"[NaN]", b'["\\ud83d"]', b"[Infinity, 12345678901234567890]", b"[1,]"])
def test_strict_refuses_what_is_no_json(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read(data, strict=True)
