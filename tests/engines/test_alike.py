"""What is taken for equal reads the same; what differs in anything that is read does not pass for it."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.alike import Known, read, says_the_same
from engines.dialect import Answer, Endpoint
from engines.registry import dialect

VLLM = dialect("vllm")


def whole(name="c1", text="ab", created=1, model="m", **more):
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    value = {
        "id": name,
        "object": "chat.completion",
        "created": created,
        "model": model,
        **more,
        "choices": [choice],
        "usage": {},
    }
    return Answer(200, (("content-type", "application/json"),), ((0, orjson.dumps(value)),))


def stream(name="c1", texts=("a", "b"), created=1, model="m", ids=None):
    events = [
        {"id": one or name, "created": created, "model": model, "choices": [{"index": 0, "delta": {"content": text}}]}
        for one, text in zip(ids or [None] * len(texts), texts, strict=True)
    ]
    body = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    return Answer(200, (("content-type", "text/event-stream"),), ((0, body),))


@pytest.mark.parametrize("make", [whole, stream])
def test_ids_and_times_make_no_difference(make):
    assert says_the_same(make(), make())
    assert says_the_same(make("chatcmpl-1", created=5), make("chatcmpl-23", created=77))
    for other in (make(model="n"), Answer(500, make().headers, make().pieces), Answer(200, (), make().pieces, "cut")):
        assert not says_the_same(make(), other)
    assert not says_the_same(whole(), stream())


def test_another_text_another_field_and_another_cut_are_differences():
    assert not says_the_same(whole("c1"), whole("c2", text="ax"))
    assert not says_the_same(whole("c1", usage={"prompt_tokens": 1}), whole("c2", usage={"prompt_tokens": 2}))
    assert not says_the_same(whole("c1", error="x"), whole("c2", error=None))
    assert not says_the_same(stream("c1"), stream("c2", texts=("a", "x")))
    assert not says_the_same(stream("c1"), stream("c2", texts=("ab",)))
    assert not says_the_same(stream("c1"), Answer(200, stream().headers, ((0, stream("c2").body[:-14]),)))


def test_what_is_known_is_returned_only_for_the_same_reader_and_echo():
    first = VLLM.read(Endpoint.CHAT, {}, whole())
    known = Known(VLLM, {}, whole(), first)
    assert read(VLLM, Endpoint.CHAT, {}, whole("c2"), known) is first
    assert read(VLLM, Endpoint.CHAT, {"echo": True}, whole("c2"), known) is not first
    assert read(dialect("reference"), Endpoint.CHAT, {}, whole("c2"), known) is not first
    assert read(VLLM, Endpoint.CHAT, {}, whole("c2")) == first


NAMES = st.sampled_from(["c1", "c2", "c12", "", "chatcmpl-3", "data: ", "\n", '"choices":', '{"'])
TEXTS = st.lists(st.sampled_from(["a", "b", '"', "data: {", '"choices":', "c1"]), min_size=1, max_size=4)


@given(NAMES, NAMES, TEXTS, TEXTS, st.booleans(), st.booleans(), st.data())
def test_what_passes_for_equal_reads_the_same(one, other, texts, others, same, streamed, data):
    others = texts if same else others
    left, right = (
        (
            stream(one, texts),
            stream(other, others, ids=data.draw(st.one_of(st.none(), st.tuples(*[NAMES] * len(others))))),
        )
        if streamed
        else (whole(one, "".join(texts)), whole(other, "".join(others)))
    )
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(right.body)))
        right = Answer(200, right.headers, ((0, right.body[:at] + b" " + right.body[at:]),))
    if says_the_same(left, right):
        assert VLLM.read(Endpoint.CHAT, {}, left) == VLLM.read(Endpoint.CHAT, {}, right)
    elif same and not streamed and right.body == whole(other, "".join(texts)).body:
        assert '"choices":' in (one, other)  # nothing else keeps equal replies from being seen as such
