"""A stream made short says what the whole one says, whatever stands in it."""

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from engines.condense import condensed
from engines.stream import merge
from proxy.compare.sse import SseReader


def read(body):
    reader = SseReader()
    return merge(reader.feed(body) + reader.finish())


def event(text, kind="chat", **choice):
    said = {"delta": {"content": text}} if kind == "chat" else {"text": text}
    return {
        "id": "c",
        "created": 1,
        "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": None, **choice}],
    }


def stream(events, done=True):
    lines = [one if isinstance(one, bytes) else b"data: " + orjson.dumps(one) for one in events]
    return b"".join(line + b"\n\n" for line in [*lines, *[b"data: [DONE]"] * done])


def test_a_run_becomes_one_event():
    head = {"id": "c", "created": 1, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    usage = {"choices": [], "usage": {"completion_tokens": 40}}
    for kind in ("chat", "text"):
        words = [event(f' "{number}"\n', kind) for number in range(40)]
        body = stream([head, *words, event("", kind, finish_reason="stop"), usage])
        short = condensed(body)
        assert short.count(b"\n\n") == 4  # the last of the run is the one with the finish reason
        assert read(short) == read(body)


def test_what_could_mean_something_else_is_left_alone():
    plain = [event("a")] * 9
    before, after = stream([event("@")], done=False).split(b"@")
    for body in (
        stream([event("a", token_ids=[5])] * 9),  # an id in each
        stream([event("a", logprobs={"content": []})] * 9),
        stream([event("a", finish_reason="stop")] * 9),
        stream([event("a", delta={"content": "a", "reasoning": "b"})] * 9),
        stream([{**event("a"), "error": {"code": 500}}] * 9),
        stream([*plain, b"event: error\ndata: {}"], done=False)[:-4] + b"\xff\n\n",
        (before + b"x\\" + after) * 9,  # escapes that the next text would complete
        (before + b"x\\u00" + after) * 9,
        (before + b"x\\ud83d" + after + before + b"\\ude00" + after) * 5,
        (before + b'x","role":"y' + after) * 9,
        (before + b"x" + after[:-2] + b"\nevent: error\n\n") * 9,
        stream(plain).replace(b"\n", b"\r\n"),
        stream(plain).replace(b'"choices"', b'\r"choices"'),
        stream(plain, done=False)[:-2],
        b"",
        b"\n\n",
        b"\n\ndata: ",
    ):
        assert read(condensed(body)) == read(body)
    assert condensed(stream(plain)) != stream(plain)


def test_an_event_of_many_texts_and_two_lines_is_left_alone_at_once():
    odd = b'data: {"a":' + b'"text":"",' * 200_000 + b'"b":1}\n: more\n\n'
    body = b"data: " + b" " * len(odd) + b"\n\n" + odd
    assert condensed(body) is body


PIECES = st.sampled_from(["a", " b", "", '"', "\\", "é", "\n", "}", '"},"', "data: ", "😀", "]}\n\ndata: {"])
EVENTS = st.one_of(
    st.builds(event, PIECES),
    st.builds(event, PIECES, st.just("text")),
    st.builds(event, PIECES, index=st.just(1)),
    st.builds(event, PIECES, finish_reason=st.just("stop")),
    st.builds(event, PIECES, token_ids=st.just([1])),
    st.sampled_from([b"", b": ping", b"event: error", b"data: x", b"data: null", b'data: {"choices":[]}', b"data: {}"]),
)
RUNS = st.lists(st.tuples(EVENTS, st.integers(1, 6)), max_size=6).map(
    lambda runs: [one for one, n in runs for _ in range(n)]
)


@given(st.one_of(RUNS, st.lists(st.builds(event, PIECES), max_size=30)), st.booleans(), st.data())
@example([event("a")] * 9, False, None)
def test_any_stream_says_the_same(events, done, data):
    body = stream(events, done)
    assert read(condensed(body)) == read(body)
    if data is not None and body:  # and one that was damaged
        at = data.draw(st.integers(0, len(body) - 1))
        damage = data.draw(st.sampled_from([b"", b"\n", b"\\", b'"', b"\r", b"}", b"\\ud83d", b"\\ude00", b"\xff"]))
        for damaged in (body[:at] + damage + body[at:], body[:at] + damage + body[at + 1 :], body[:at]):
            assert read(condensed(damaged)) == read(damaged)
