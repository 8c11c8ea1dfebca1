"""What an exchange says of each candidate, under which keys, and of which stacks."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from engines.dialect import Endpoint
from proxy.compare.comparison import Comparison, Mode
from proxy.compare.trial import Result
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.case import ShadowArm
from proxy.judge.examine import Examined
from proxy.judge.request import asked
from proxy.judge.settle import Context, Outcome, Policy
from proxy.judge.trials import Trials, keys
from proxy.ledger.tallies import Scope

DAY = 86400.0
GREEN: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "green?"}], "temperature": 0}


def exchange(
    body: dict[str, Any] = GREEN, started: float = 10 * DAY + 5, key: bytes | None = None, **more: Any
) -> Exchange:
    headers = ((b"x-parhelion-key", key),) if key else ()
    one = Exchange("x1", "t0", started, 0.5, "POST", "/v1/chat/completions", headers, orjson.dumps(body), 200, (), (), 0, 0, Ended.COMPLETE)  # fmt: skip
    return replace(one, **more)


def found(body: dict[str, Any] = GREEN, salt: bytes = b"salt", **more: Any) -> tuple[str, str]:
    return keys(exchange(body, **more), asked(Endpoint.CHAT, "/v1/chat/completions", body), salt)


def talk(*turns: str) -> dict[str, Any]:
    roles = ("user", "assistant") * 9
    return GREEN | {"messages": [{"role": role, "content": turn} for role, turn in zip(roles, turns, strict=False)]}


def test_the_same_prompt_counts_once_a_day() -> None:
    now = found()
    assert found(started=11 * DAY - 1) == now
    assert found(started=11 * DAY) not in ({now}, now)
    assert not {*found(started=11 * DAY)} & {*now}
    assert found(GREEN | {"temperature": 0.5, "max_tokens": 3})[1] == now[1]  # settings are not part of a prompt
    assert found(GREEN | {"model": "other"})[1] != now[1]


def test_a_conversation_known_by_its_beginning_counts_once_a_day() -> None:
    one, later = found(talk("green?")), found(talk("green?", "yes", "and blue?"))
    assert one[0] == later[0]
    assert one[1] != later[1]
    assert found(talk("green?"), started=11 * DAY)[0] != one[0]


def test_a_conversation_that_its_client_names_counts_once_and_its_prompt_once_a_day() -> None:
    one, other = found(key=b"k1"), found(talk("blue?"), key=b"k1", started=12 * DAY)
    assert one[0] == other[0]
    assert one[1] != other[1]
    assert found(key=b"k2")[0] != one[0]
    assert found(key=b"k2")[1] == one[1]


def test_keys_tell_nothing_without_the_salt() -> None:
    assert not {*found(salt=b"other")} & {*found()}
    assert all("green" not in key for key in found())


def arm(name: str) -> Arm:
    made = Arm(name, None, 1.0, asyncio.Semaphore(1))  # type: ignore[arg-type]  # nobody is asked
    made.footprint = f"fp-{name}"
    return made


def shadow(name: str, role: str = "candidate", *modes: Mode) -> ShadowArm:
    return ShadowArm(arm(name), role, modes or (Mode.FREE,), {}, 5)


def examined(*outcomes: Outcome) -> Examined:
    one = asked(Endpoint.CHAT, "/v1/chat/completions", GREEN)
    return Examined(one, None, None, outcomes, Context(Policy("none", b""), "fp-primary"))


def outcome(name: str, role: str = "candidate", *, error: bool = False) -> Outcome:
    if error:
        return Outcome(name, role, Mode.FREE, incomparable="shadow_error")
    return Outcome(name, role, Mode.FREE, Comparison(mode=Mode.FREE))


def test_each_candidate_is_held_against_the_first_control_that_runs_its_mode() -> None:
    shadows = [
        shadow("a"),
        shadow("c0", "control", Mode.FORCED),
        shadow("c1", "control"),
        shadow("b"),
        shadow("c2", "control"),
    ]
    trials = Trials(arm("primary"), shadows, b"salt")
    made = trials.of(
        exchange(),
        examined(
            outcome("a"), outcome("b", error=True), outcome("c0", "control", error=True), outcome("c1", "control")
        ),
    )
    assert [(one.scope, one.result, one.by) for one in made] == [
        (Scope("a", "fp-primary", "fp-a", "c1", "fp-c1"), Result.NEITHER, ""),
        (Scope("b", "fp-primary", "fp-b", "c1", "fp-c1"), Result.MISSING, "shadow_error"),
    ]
    assert {(one.unit, one.prompt) for one in made} == {keys(exchange(), examined().asked, b"salt")}


def test_a_conversation_that_is_known_is_not_hashed_again() -> None:
    trials = Trials(arm("primary"), [shadow("a")], b"salt")
    (made,) = trials.of(exchange(), examined(outcome("a")))
    assert trials.of(exchange(), examined(outcome("a")), made.unit.partition("@")[0]) == (made,)


def test_without_a_control_a_candidate_stands_alone_and_a_control_is_never_judged() -> None:
    (made,) = Trials(arm("primary"), [shadow("a")], b"").of(exchange(), examined(outcome("a")))
    assert made.scope == Scope("a", "fp-primary", "fp-a")
    trials = Trials(arm("primary"), [shadow("c", "control")], b"")
    assert trials.of(exchange(), examined(outcome("c", "control"))) == ()
    assert trials.given_up(exchange(), "compare_busy") == ()


def test_what_was_given_up_is_missing_but_for_what_no_arm_brought_about() -> None:
    trials = Trials(arm("primary"), [shadow("a"), shadow("c", "control")], b"salt")
    (made,) = trials.given_up(exchange(), "compare_busy")
    assert (made.result, made.by, made.scope.control) == (Result.MISSING, "compare_busy", "c")
    assert trials.given_up(exchange(), "compare_busy") == (made,)  # done again, it is the same
    assert (made.unit, made.prompt) == found()
    large = GREEN | {"messages": [{"role": "user", "content": "green?" * 20_000}]}
    units = [trials.given_up(exchange(large, id=id_), "shutdown")[0].unit for id_ in ("x1", "x1", "x2")]
    assert units[0] == units[1] != units[2]
    assert trials.given_up(exchange(), "kill_switch") == ()
    assert trials.given_up(exchange(ended=Ended.CLIENT_GONE), "shutdown") == ()
    assert trials.given_up(exchange(status=500), "shutdown") == ()
    assert trials.given_up(exchange(request_body=b"{"), "shutdown") == ()
    assert trials.given_up(exchange(large, request_whole=False), "shutdown") == ()
    assert trials.given_up(exchange(GREEN | {"echo": True}), "shutdown") == ()


@pytest.mark.parametrize("reason", ["primary_error", "request_not_json", "endpoint"])
def test_what_says_nothing_of_a_candidate_is_no_trial(reason: str) -> None:
    trials = Trials(arm("primary"), [shadow("a")], b"")
    assert trials.of(exchange(), examined(Outcome("a", "candidate", Mode.FREE, incomparable=reason))) == ()
