"""``transformers serve`` is asked nothing it does not know, and nothing that it would take for something else."""

import pytest

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


@pytest.mark.parametrize(
    ("client", "asked"),
    [
        ({"frequency_penalty": 0.0}, {}),  # it would put 1.0 in the place of the model's own repetition penalty
        ({"frequency_penalty": 0.3}, {"frequency_penalty": 0.3}),
        ({"max_completion_tokens": 9}, {"max_tokens": 9}),  # overlooked, it would go on to 1,024
        ({"logprobs": True, "top_logprobs": 5, "return_token_ids": True}, {}),  # the last is a 422
        ({"temperature": 0, "top_k": 20, "min_p": 0.1}, {"temperature": 0}),
        (
            {"temperature": 1, "top_k": 20, "repetition_penalty": 1.1},
            {"temperature": 1, "top_k": 20, "repetition_penalty": 1.1},
        ),
        ({"repetition_penalty": 1.0, "presence_penalty": 0, "n": 1}, {}),
    ],
)
def test_the_shadows_copy_is_freed_of_what_says_nothing(client, asked):
    assert DIALECT.ask(Endpoint.CHAT, {"model": "m", **client}, 20) == {"model": "m", **asked}
