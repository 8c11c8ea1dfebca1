"""``transformers serve`` is asked nothing it does not know."""

from engines.dialect import Endpoint
from engines.transformers import DIALECT


def test_nothing_is_added_and_nothing_taken_away():
    body = {"model": "m", "stream": True}
    assert DIALECT.ask(Endpoint.CHAT, body, 20) == body
    assert DIALECT.ask(Endpoint.CHAT, body, 20) is not body
    value = {"choices": [{"logprobs": {"content": []}}]}
    assert DIALECT.strip(Endpoint.CHAT, body, value) is value
    assert DIALECT.inject is None
    assert DIALECT.score is None
