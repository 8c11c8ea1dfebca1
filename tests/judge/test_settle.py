"""What could not be compared still says what was found."""

from __future__ import annotations

import orjson
import pytest

from engines.dialect import Endpoint
from proxy.compare.comparison import Mode
from proxy.judge.request import asked
from proxy.judge.settle import Context, Outcome, Policy, prompt, settlement, settlements, shared
from tests.judge.bench import exchange

ASKED = asked(Endpoint.CHAT, "/v1/chat/completions", {"model": "m", "messages": []})
CONTEXT = Context(Policy("none", b""))


@pytest.mark.parametrize(
    ("reason", "findings"),
    [("shadow_error", ("transport_errors",)), ("prompt_tokens", ("prompt_tokens",)), ("no_forced_scoring", ())],
)
def test_a_reason_that_is_a_finding_is_recorded_as_one(reason: str, findings: tuple[str, ...]) -> None:
    settled = settlement(exchange(1), ASKED, None, Outcome("a", "candidate", Mode.FREE, incomparable=reason), CONTEXT)
    assert (settled.outcome, settled.reason) == ("incomparable", reason)
    assert settled.record is not None
    assert settled.record.comparison.findings == findings


def test_our_own_decision_not_to_ask_is_no_finding_and_no_record() -> None:
    settled = settlement(exchange(1), ASKED, None, Outcome("a", "candidate", Mode.FREE, shed="circuit_open"), CONTEXT)
    assert (settled.outcome, settled.record) == ("shed", None)


def keys(*bodies: dict[str, object], salt: bytes = b"s") -> set[str]:
    return {prompt(asked(Endpoint.CHAT, "/v1/chat/completions", {"model": "m"} | one), salt) for one in bodies}


def test_requests_that_ask_the_same_share_a_key_that_tells_nothing_without_the_salt() -> None:
    said = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0}
    alike = keys(said, said | {"stream": True, "user": "me", "max_tokens": 9, "top_logprobs": 5}, said | {"seed": None})
    assert len(alike) == 1
    one = asked(Endpoint.CHAT, "/v1/chat/completions", {"model": "m"} | said)
    settled = settlement(exchange(1), one, None, Outcome("a", "candidate", Mode.FREE, incomparable="sampled"), CONTEXT)
    assert settled.record is not None
    assert settled.record.prompt == prompt(one, CONTEXT.policy.salt)
    others = ({"temperature": 1}, {"tools": [{}]}, {"model": "other"}, {"frequency_penalty": 1}, {"messages": []})
    assert len(keys(said, *(said | one for one in others))) == 1 + len(others)
    assert keys(said, salt=b"other").isdisjoint(alike)


def test_all_records_of_an_exchange_say_the_same_of_it_and_a_body_that_is_not_kept_is_not_written_out() -> None:
    outcomes = [
        Outcome("a", "candidate", Mode.FREE, incomparable="sampled"),
        Outcome("b", "control", Mode.FREE, shed="circuit_open"),
        Outcome("a", "candidate", Mode.FORCED, incomparable="endpoint"),
    ]
    one = asked(Endpoint.CHAT, "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    for policy, wanted in (("none", None), ("text", orjson.dumps(one.body).decode())):
        context = Context(Policy(policy, b"s"))
        together = settlements(exchange(1), one, None, outcomes, context)
        assert together == [settlement(exchange(1), one, None, outcome, context) for outcome in outcomes]
        records = [settled.record for settled in together]
        assert [record is None for record in records] == [False, True, False]
        kept = {None if record.content is None else record.content.request for record in records if record is not None}
        assert kept == {wanted}
        assert shared(exchange(1), one, context).request == (wanted or "")
