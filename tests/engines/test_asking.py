"""One question, one answer: faults are bounded reasons."""

import asyncio

import pytest

from engines.asking import ask_ids, ask_json, ask_text, chosen, with_model
from engines.dialect import Answer, Call, DialectError

CALL = Call("/x")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(0, failure="refused"), "refused"),
        (Answer(500, (), ((0, b"secret prompt"),)), "status_500"),
        (Answer(200, (), ((0, b"secret prompt"),)), "not_json"),
        (Answer(200, (), ((0, b'["secret prompt"]'),)), "unexpected_reply"),
    ],
)
def test_faults_name_the_route_and_never_the_answer(scripted, answer, reason):
    with pytest.raises(DialectError) as error:
        asyncio.run(ask_json(scripted({"/x": answer}), CALL))
    assert error.value.reason == reason
    assert "/x" in str(error.value)
    assert "secret" not in str(error.value)


def test_missing_ids_and_texts(scripted):
    fetch = scripted({"/x": {"tokens": [1, "2"], "content": 3}})
    with pytest.raises(DialectError, match="unexpected_reply"):
        asyncio.run(ask_ids(fetch, CALL))
    with pytest.raises(DialectError, match="unexpected_reply"):
        asyncio.run(ask_text(fetch, CALL, "content"))


def test_bodies():
    assert with_model({}, None) == {}
    assert with_model({}, "m") == {"model": "m"}
    assert chosen({"a": 1, "b": None, "c": 2}, ("a", "b")) == {"a": 1}
