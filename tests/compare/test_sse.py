"""The SSE reader: the WHATWG rules one by one, and for any bytes in any split the same events and not one byte lost."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.sse import Event, SseReader, SseTooLarge, plain_events


def read(*pieces, limit=64 << 20):
    reader = SseReader(limit)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.finish()


def data(*pieces):
    return [event.data for event in read(*pieces) if event.dispatched]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_each_line_end_ends_lines_and_events(end):
    stream = b"data: one" + end + end + b"data: two" + end + b"data: three" + end + end
    assert data(stream) == [b"one", b"two\nthree"]


def test_a_carriage_return_at_the_end_of_a_piece_waits_for_its_line_feed():
    reader = SseReader()
    assert reader.feed(b"data: a\r\n\r") == []
    assert reader.feed(b"\n") == [Event(b"a", b"", b"data: a\r\n\r\n")]
    assert reader.feed(b"data: b\r\r") == []
    assert reader.feed(b"d") == [Event(b"b", b"", b"data: b\r\r")]


def test_only_cr_lf_and_crlf_end_lines():
    assert data("data: a\u2028b\x0bc\x0cd\x85e\n\n".encode()) == ["a\u2028b\x0bc\x0cd\x85e".encode()]


def test_comments_and_stray_blank_lines_are_no_events_but_keep_their_bytes():
    stream = b": ping\n\n\ndata: a\n: inside\n\n"
    events = read(stream)
    assert [(event.raw, event.dispatched) for event in events] == [
        (b": ping\n\n", False),
        (b"\n", False),
        (b"data: a\n: inside\n\n", True),
    ]


def test_byte_order_mark_counts_at_the_start_only():
    assert data(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a"]


def test_fields_one_leading_space_no_colon_event_type_and_unknown_ones():
    events = read(b"event: error\nid: 7\nretry: 5\nnonsense\ndata:  two spaces\ndata\ndata:x\n\ndata: y\n\n")
    assert [(event.event, event.data) for event in events] == [(b"error", b" two spaces\n\nx"), (b"", b"y")]


def test_an_empty_data_line_is_an_event_with_empty_data():
    assert read(b"data:\n\n") == [Event(b"", b"", b"data:\n\n", dispatched=True)]


def test_blanks_before_the_newline_are_cut():
    assert data(b'data: {"a": 1} \n\ndata: [DONE] \t\n\n') == [b'{"a": 1}', b"[DONE]"]


@pytest.mark.parametrize("tail", [b"data: z", b"data: z\n", b"data: z\r"])
def test_no_final_blank_line(tail):
    last = read(b"data: a\n\n" + tail)[-1]
    assert last == Event(b"z", b"", tail, dispatched=True, whole=False)


def test_a_final_pending_carriage_return_completes_the_event():
    assert read(b"data: a\r\r") == [Event(b"a", b"", b"data: a\r\r")]


def test_finish_on_nothing_is_nothing():
    assert read() == []
    assert read(b"") == []


def test_too_large_an_event_is_a_declared_error_after_the_events_before_it():
    for split in (1, 7, 1000):
        stream = b"data: ok\n\ndata: " + b"x" * 100 + b"\n\n"
        reader = SseReader(limit=64)
        seen = []

        def drive(reader=reader, seen=seen, split=split, stream=stream):
            for at in range(0, len(stream), split):
                seen += reader.feed(stream[at : at + split])
            seen += reader.finish()

        with pytest.raises(SseTooLarge, match="64 bytes"):
            drive()
        assert [event.data for event in seen] == [b"ok"]
        with pytest.raises(SseTooLarge):
            reader.feed(b"\n")
        with pytest.raises(SseTooLarge):
            reader.finish()


def test_an_event_of_exactly_the_bound_passes():
    stream = b"data: " + b"x" * 56 + b"\n\n"
    assert len(stream) == 64
    assert len(read(stream, limit=64)) == 1
    with pytest.raises(SseTooLarge):
        read(stream, limit=63)


def test_one_byte_feeds_take_linear_time():
    def seconds(size):
        reader = SseReader()
        started = time.process_time()
        reader.feed(b"data: ")
        for _ in range(size):
            reader.feed(b"x")
        assert len(reader.feed(b"\n\nd")[0].data) == size
        return time.process_time() - started

    seconds(1000)
    # Eight times the bytes: about 8 times the time when linear, 64 times when quadratic.
    assert seconds(160_000) < 30 * max(seconds(20_000), 0.001)


fragments = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"data",
        b":",
        b" ",
        b"data: x",
        b"event: e",
        b": c",
        b"\xef\xbb\xbf",
        b"[DONE]",
        b"\xff",
        b"\x00",
    ]
)
streams = st.one_of(st.lists(fragments, max_size=40).map(b"".join), st.binary(max_size=80))


@given(streams, st.data())
def test_any_split_gives_the_same_events_and_every_byte_back(stream, draw):
    whole = read(stream)
    assert b"".join(event.raw for event in whole) == stream
    assert read(*(bytes([byte]) for byte in stream)) == whole
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    edges = [0, *cuts, len(stream)]
    assert read(*(stream[a:b] for a, b in pairwise(edges))) == whole


@given(streams)
def test_only_the_last_event_can_be_unfinished(stream):
    assert all(event.whole for event in read(stream)[:-1])


_BLOCKS = st.lists(
    st.sampled_from([b"data: ", b"data:", b"a", b" ", b"\t", b"\n", b"\n\n", b"\r", b": c", b"event: x", b"\xef\xbb\xbf"]), max_size=24
).map(b"".join)  # fmt: skip


@given(_BLOCKS)
def test_a_plain_stream_read_at_once_is_what_the_reader_makes_of_it(body):
    found = plain_events(body)
    if found is not None:
        assert found == [Event(event.data, event.event, b"", event.dispatched, event.whole) for event in read(body)]


def test_what_is_plain_and_what_is_not():
    assert plain_events(b"data: a\n\ndata: b \n\n") == [Event(b"a", b"", b""), Event(b"b", b"", b"")]
    for other in (b"", b"data: a\n", b"data: a\r\n\r\n", b": c\n\n", b"data: a\ndata: b\n\n", b"data:a\n\n", b"\n\n"):
        assert plain_events(other) is None
