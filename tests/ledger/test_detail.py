"""A record's detail as a value: looked up by position, packed and read back, bounded whatever an engine sends."""

from __future__ import annotations

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.token_stream import Alternative, Channel
from proxy.ledger import detail
from proxy.ledger.detail import ChoiceDetail, Detail, Listed, Partial, Run, Sent, Side

SIDE = Side(
    logprobs=(-0.1, None, -0.3, -0.4),
    ids=(5, 6, None, 8),
    texts=("a", "", "é", "b"),
    partial=(Partial(1, b"\xc3"), Partial(3, b"\xa9")),
    channels=(Run(0, Channel.REASONING), Run(2, Channel.CONTENT)),
    listed=(Listed(1, (Alternative(-0.2, 6, "", b"\xc3"), Alternative(-0.9, 7, "x", None))),),
    total=9,
)


def test_each_position_is_found_by_its_index() -> None:
    assert [SIDE.channel(index).value for index in range(4)] == ["reasoning", "reasoning", "content", "content"]
    assert [SIDE.data(index) for index in range(4)] == [None, b"\xc3", None, b"\xa9"]
    assert [len(SIDE.top(index)) for index in range(4)] == [0, 2, 0, 0]
    assert SIDE.cut
    assert len(SIDE) == 4


def test_a_side_without_anything_is_content_alone() -> None:
    assert Side().channel(7) is Channel.CONTENT
    assert Side().top(0) == ()
    assert Side().data(0) is None
    assert not Side().cut


def test_what_was_packed_is_read_back() -> None:
    whole = Detail((ChoiceDetail(0, SIDE, Side()),), Sent("/v1/x", "{}"), (Sent("/v1/y", '{"a":1}'),), (1, 2))
    assert detail.unpack(detail.pack(whole)) == whole


@given(st.binary(max_size=64))
def test_what_was_not_packed_is_refused_as_such(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a record's detail"):
        detail.unpack(data)


def test_a_megabyte_a_token_costs_its_texts_and_not_the_disk() -> None:
    text = "x" * (1 << 20)
    top = (Alternative(-0.1, 1, text, None),)
    loud = Side(logprobs=(-0.1,), ids=(1,), texts=("a",), listed=(Listed(0, top * 9),), total=1)
    louder = Side(logprobs=(-0.1,) * 9, ids=(1,) * 9, texts=(text,) * 9, total=9)
    kept = detail.unpack(detail.pack(Detail((ChoiceDetail(0, loud, Side()),))))
    assert kept.choices[0].primary == msgspec.structs.replace(loud, listed=())
    kept = detail.unpack(detail.pack(Detail((ChoiceDetail(0, louder, Side()),), Sent("/", text))))
    assert kept.choices[0].primary == msgspec.structs.replace(louder, texts=None)
    assert kept.primary is None
    asked = detail.unpack(detail.pack(Detail((ChoiceDetail(0, SIDE, SIDE),), Sent("/", "x" * detail.MOST_BYTES))))
    assert asked == Detail((ChoiceDetail(0, SIDE, SIDE),))


def test_a_hundred_long_choices_are_kept_as_far_as_they_can_be_read_again() -> None:
    long = Side((-0.123,) * 4096, tuple(range(100_000, 104_096)), ("x",) * 4096, total=4096)
    many = Detail(tuple(ChoiceDetail(index, long, long) for index in range(128)))
    kept = detail.unpack(detail.pack(many))
    assert [one.index for one in kept.choices] == list(range(64))
    assert kept.choices[63].shadow == msgspec.structs.replace(long, texts=None)


def test_what_inflates_beyond_all_bounds_is_not_read() -> None:
    with pytest.raises(ValueError, match="too large"):
        detail.unpack(zstandard.compress(b"\x90" * (1 << 26)))


WHOLE = Detail((ChoiceDetail(0, SIDE, Side()),), Sent("/v1/x", "{}"), (Sent("/v1/y", '{"a":1}'),), (1, 2))


def kept(store, make, number: int, detail: Detail) -> str:
    one = msgspec.structs.replace(make.compared(make.record(number)), detail=detail)
    store.settle([one])
    return one.record.id


def test_it_comes_and_goes_with_its_record(store, make) -> None:
    first, second = kept(store, make, 1, WHOLE), kept(store, make, 500, msgspec.structs.replace(WHOLE, prompt_ids=None))
    store.settle([make.compared(make.record(3))])
    assert store.detail(first) == WHOLE
    assert store.detail(second).prompt_ids is None
    assert store.detail(make.record(3).id) is None
    assert store.detail("unknown") is None
    assert kept(store, make, 1, Detail()) == first  # settled once more after a crash
    assert store.detail(first) == WHOLE
    store.purge(1_700_000_000.0 + 400, 200, 1 << 30)
    assert store.record(first) is None
    assert [row[0] for row in store.read("SELECT COUNT(*) FROM details")] == [1]
    assert store.detail(second) is not None


def test_a_text_that_is_none_costs_the_detail_and_not_the_record(store, make) -> None:
    broken = Detail((ChoiceDetail(0, Side((-0.1,), texts=("\ud800",), total=1), Side()),))
    id_ = kept(store, make, 1, broken)
    assert store.record(id_) is not None
    assert store.detail(id_) is None


def test_one_that_cannot_be_read_is_as_good_as_none(store, make) -> None:
    id_ = kept(store, make, 1, WHOLE)
    store._connection.execute("UPDATE details SET body = x'00'")
    assert store.detail(id_) is None
