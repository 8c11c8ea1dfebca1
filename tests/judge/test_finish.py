"""What is done to settlements last: each record gets its detail once, whatever fails there costs the detail alone, and nothing is held for what is given up."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from engines.dialect import Endpoint
from proxy.compare.comparison import Mode
from proxy.config import Config, Records
from proxy.judge import shown
from proxy.judge.desk import Done
from proxy.judge.examine import Examined
from proxy.judge.finish import Finish
from proxy.judge.request import asked
from proxy.judge.settle import Context, Outcome, Policy, settlements
from proxy.ledger.judge_metrics import JudgeMetrics
from tests.judge.bench import exchange
from tests.judge.test_shown import LONG, Seen, free, reply

ASKED = asked(Endpoint.CHAT, "/v1/chat/completions", {"model": "m", "messages": []})
MINE, ITS = reply(*LONG[:20]), reply(*LONG[:5], *LONG[30:50])


@pytest.fixture
def finish() -> Finish:
    config = Config()
    return Finish(config, JudgeMetrics(config), ThreadPoolExecutor(1))


def done(number: int) -> Done:
    context = Context(Policy("text", b"s"))
    outcomes = (
        Outcome("a", "candidate", Mode.FREE, free(MINE, ITS), shadow_reply=ITS, seen=Seen(MINE, ITS)),
        Outcome("b", "candidate", Mode.FREE, shed="circuit_open", seen=Seen(MINE, ITS)),
        Outcome("c", "candidate", Mode.FREE, incomparable="sampled"),
    )
    made = settlements(exchange(number), ASKED, MINE, outcomes, context)
    return Done(tuple(made), Examined(ASKED, MINE, None, outcomes, context))


def test_a_record_gets_what_it_was_made_of_and_nothing_is_held_after(finish: Finish) -> None:
    one = done(1)
    finish.take(one, exchange(1))
    written = finish.finished(one.settlements)
    assert [settlement.detail is not None for settlement in written] == [True, False, False]
    assert written[0].detail == shown.detail(free(MINE, ITS), Seen(MINE, ITS), "text")
    assert [replace(settlement, detail=None) for settlement in written] == list(one.settlements)
    assert finish._seen == {}


def test_what_is_given_up_is_forgotten(finish: Finish) -> None:
    one = done(1)
    finish.take(one, exchange(1))
    finish.give_up(one.settlements)
    assert finish._seen == {}
    finish.take(Done(one.settlements), exchange(1))
    assert finish._seen == {}


def test_a_fault_of_ours_costs_the_detail_alone(finish: Finish, monkeypatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    one = done(1)
    finish.take(one, exchange(1))
    monkeypatch.setattr(shown, "detail", broken)
    with caplog.at_level(logging.ERROR):
        assert finish.finished(one.settlements) == list(one.settlements)
    assert [record.message for record in caplog.records] == ["detail_failed"]


HOOK = """
def hide(kind, value):
    return None
"""


def test_what_is_under_way_is_shown_to_the_hook_when_no_text_is_kept_any_more(tmp_path, monkeypatch) -> None:
    (tmp_path / "hidesall.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = Config(records=Records(content="text", redact="hidesall:hide"))
    finish = Finish(config, JudgeMetrics(config), ThreadPoolExecutor(1))
    try:
        one = done(4)
        assert one.settlements[0].record.content.request
        finish.take(one, exchange(4))
        finish.configure(Config(records=Records(content="none", redact="hidesall:hide")))
        (written, *_) = finish.finished(one.settlements)
        assert set(written.record.content.primary) == {""}
        assert written.record.content.request == ""
        assert written.detail.primary is None
    finally:
        finish.close()
