"""One exchange to its settlements: whatever fails, every shadow and mode has exactly one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engines.registry import dialect
from proxy.compare.comparison import Mode
from proxy.compare.trial import Result
from proxy.config import Config, Primary, Records, Rule, Sampling, Shadow
from proxy.config import Match as RuleMatch
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm, Refused
from proxy.judge.case import Mirrored, ShadowArm
from proxy.judge.desk import Desk, Done
from proxy.judge.examine import Examined, Examiner
from proxy.judge.ledger import Ledger
from proxy.judge.noise import NoiseBook
from proxy.judge.request import read_request
from proxy.judge.settle import Context, Policy
from proxy.judge.trials import Trials
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.store_error import StoreError

EVERYTHING = Sampling(rate=1.0)
ARMS = [("a", "free"), ("a", "forced"), ("b", "free"), ("b", "forced")]


def config(tmp_path: Path, sampling: Sampling = EVERYTHING) -> Config:
    return Config(
        primary=Primary(url="http://p"),
        shadows=(Shadow("a", "http://a"), Shadow("b", "http://b", role="control")),
        state=str(tmp_path),
        sampling=sampling,
        records=Records(url=f"sqlite:///{tmp_path / 'r.db'}"),
    )


def exchange(body: bytes = b"{}", *, offered: bool = False, u: float | None = 0.5) -> Exchange:
    return Exchange(
        "x", "t0", 0.0, u, "POST", "/classify", (), body, 200, (), (), 0, 0, Ended.COMPLETE, offered=offered
    )  # fmt: skip


class Broken:
    """An examiner that fails, at once or when it comes to comparing."""

    inflated = 1 << 20

    def __init__(self, *, later: bool = False) -> None:
        self.later = later

    def mirror(self, exchange: Exchange, then: Callable[[Mirrored], None]) -> int:
        if not self.later:
            raise OverflowError
        then(Mirrored(exchange))
        return 0

    def unanswered(self, _: Mirrored) -> Examined | None:
        return None

    async def judge(self, _: Mirrored) -> Examined:
        raise OverflowError


def work(desk: Desk, one: Exchange) -> Done:
    """Do all that is to be done with an exchange whose shadows answer at once."""
    came: list[Mirrored | Done] = []
    desk.mirror(one, came.append)
    [found] = came
    return found if isinstance(found, Done) else asyncio.run(desk.judge(found))


async def settle(ledger: Ledger, done: Done) -> None:
    """Hand in, and wait until it is in the store."""
    told = asyncio.Event()
    ledger.hand_in(done, exchange(), told.set)
    async with asyncio.timeout(20):
        await told.wait()


def ends(done: Done) -> Counter[tuple[str, str, str, str]]:
    return Counter((one.shadow, one.mode, one.outcome, one.reason) for one in done.settlements)


@pytest.mark.parametrize("later", [False, True])
def test_a_fault_of_ours_is_one_outcome_for_every_arm(tmp_path: Path, later: bool) -> None:
    settings = config(tmp_path)
    done = work(Desk(settings, Broken(later=later)), exchange())  # type: ignore[arg-type]
    assert ends(done) == Counter({(*arm, "incomparable", "judge_error"): 1 for arm in ARMS})


def test_what_was_offered_is_decided_by_its_body_and_counted_once(tmp_path: Path) -> None:
    rules = Sampling(rate=0.0, rules=(Rule(RuleMatch(model="m*"), 1.0),))
    settings = config(tmp_path, rules)
    desk = Desk(settings, Broken())  # type: ignore[arg-type]
    refused = work(desk, exchange(b'{"model": "other"}', offered=True))
    assert ends(refused) == Counter({("", "", "not_sampled", ""): 1})
    chosen = work(desk, exchange(b'{"model": "mine"}', offered=True))
    assert ends(chosen)["", "", "sampled", ""] == 1
    assert len(chosen.settlements) == 5
    unreadable = work(desk, exchange(b"{", offered=True))
    assert ends(unreadable) == Counter({("", "", "not_sampled", ""): 1})


def test_a_key_that_cannot_be_made_counts_as_sampled_and_is_an_error_of_ours(tmp_path: Path) -> None:
    settings = config(tmp_path, Sampling(rate=0.5, by="conversation"))
    deep = b'{"messages": [' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"]}"
    done = work(Desk(settings, Broken()), exchange(deep, offered=True, u=None))  # type: ignore[arg-type]
    found = ends(done)
    assert sum(found[key] for key in found if not key[0]) == 1  # decided, one way or the other


def test_what_was_to_be_learned_cannot_make_it_settle_twice(tmp_path: Path) -> None:
    settings = config(tmp_path)

    async def main() -> None:
        ledger = Ledger(settings, JudgeMetrics(settings))
        writing = asyncio.ensure_future(ledger.run())
        examined = Examined(None, None, None, (), Context(Policy("hash", b"s")))
        desk = Desk(settings, Broken())  # type: ignore[arg-type]

        def fails(_: Any) -> None:
            raise OverflowError

        ledger._take_in = fails  # type: ignore[method-assign]
        await settle(ledger, Done(desk.instead(exchange(), "incomparable", "endpoint").settlements, examined))
        counts = ledger.store.counts()
        assert sum(counts.values()) == 4
        await ledger.close()
        await writing

    asyncio.run(main())


def test_what_is_handed_in_with_nothing_to_count_is_told_all_the_same(tmp_path: Path) -> None:
    settings = config(tmp_path)

    async def main() -> None:
        ledger = Ledger(settings, JudgeMetrics(settings))
        writing = asyncio.ensure_future(ledger.run())
        await settle(ledger, Done(()))
        assert ledger.backlog == 0
        assert ledger.store.counts() == {}
        await ledger.close()
        await writing

    asyncio.run(main())


def test_what_the_store_could_not_take_is_counted_when_it_is_back(tmp_path: Path) -> None:
    settings = config(tmp_path)

    async def main() -> None:
        ledger = Ledger(settings, JudgeMetrics(settings))
        desk = Desk(settings, Broken())  # type: ignore[arg-type]
        real, asked = ledger.store.settle, []

        def away(*_: Any, **__: Any) -> None:
            asked.append(1)
            raise StoreError("locked", tmp_path)

        ledger.store.settle = away  # type: ignore[method-assign]
        writing = asyncio.ensure_future(ledger.run())
        for _ in range(50):
            await settle(ledger, desk.instead(exchange(), "incomparable", "endpoint"))
        assert len(asked) < 5  # not asked for every exchange while it is away
        accounting = asyncio.ensure_future(ledger.reconcile("t0", 50))
        await asyncio.sleep(0.05)
        assert not accounting.done()  # it would take what is owed for lost
        ledger.store.settle = real  # type: ignore[method-assign]
        async with asyncio.timeout(10):
            await accounting
        assert {tuple(key)[:2]: n for key, n in ledger.store.counts().items()} == dict.fromkeys(ARMS, 50)
        await ledger.close()
        await writing

    asyncio.run(main())


YES = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}'
GREEN = b'{"model": "m", "messages": [{"role": "user", "content": "green?"}], "temperature": 0}'


def unready(tmp_path: Path, *modes: Mode) -> Desk:
    """A desk whose shadows are not there."""
    settings = config(tmp_path)
    arms = {name: Arm(name, None, 1.0, asyncio.Semaphore(1)) for name in ("primary", "a", "b")}  # type: ignore[arg-type]  # nobody is asked
    arms["primary"].dialect = dialect("reference")
    shadows = (
        ShadowArm(arms["a"], "candidate", modes or (Mode.FREE,), {}, 5),
        ShadowArm(arms["b"], "control", modes or (Mode.FREE,), {}, 5),
    )
    examiner = Examiner(arms["primary"], shadows, Policy("none", b"salt"), False, 1 << 20, NoiseBook(None))
    return Desk(settings, examiner, Trials(arms["primary"], shadows, b"salt"))


def chat(**changes: Any) -> Exchange:
    return replace(exchange(GREEN), **{"target": "/v1/chat/completions", "pieces": ((1, YES),)} | changes)


def test_an_exchange_that_no_shadow_was_there_for_ends_at_once_and_is_missing(tmp_path: Path) -> None:
    desk = unready(tmp_path)
    came: list[Mirrored | Done] = []
    desk.mirror(chat(offered=True), came.append)
    [done] = came
    assert isinstance(done, Done)  # it never waits for a comparison, so that it cannot be dropped for want of room
    assert ends(done) == Counter(
        {
            ("", "", "sampled", ""): 1,
            ("a", "free", "shed", "shadow_unready"): 1,
            ("b", "free", "shed", "shadow_unready"): 1,
        }
    )
    [trial] = done.trials
    assert (trial.scope.candidate, trial.result, trial.by) == ("a", Result.MISSING, "shadow_unready")
    compared = asyncio.run(unready(tmp_path).judge(mirrored(chat(offered=True))))
    assert (ends(compared), compared.trials) == (ends(done), done.trials)  # as a comparison would have found


def mirrored(one: Exchange) -> Mirrored:
    asked = read_request(one, 1 << 20)
    answers = {name: Refused("shadow_unready", shed=True) for name in ("a", "b")}
    return Mirrored(one, asked, None, greedy=True, answers=answers)


def test_an_exchange_that_may_still_be_asked_about_is_compared(tmp_path: Path) -> None:
    came: list[Mirrored | Done] = []
    unready(tmp_path, Mode.FREE, Mode.FORCED).mirror(chat(), came.append)  # scoring is asked for later
    unready(tmp_path).mirror(chat(status=500), came.append)  # of the primary's own fault no arm is asked
    unready(tmp_path).mirror(chat(request_body=b"{"), came.append)
    assert [type(one) for one in came] == [Mirrored] * 3
    assert unready(tmp_path).examiner.unanswered(mirrored(chat())) is not None
    failed = replace(mirrored(chat()), answers={"a": Refused("shadow_error", shed=False), "b": Refused("shadow_unready", shed=True)})  # fmt: skip
    assert unready(tmp_path).examiner.unanswered(failed) is None


def test_a_request_that_was_read_is_not_read_again_to_give_it_up(tmp_path: Path) -> None:
    desk, one = unready(tmp_path), chat()
    read = desk.instead(one, "shed", "compare_busy")
    unread = replace(one, request_body=b"{")
    assert desk.instead(unread, "shed", "compare_busy").trials == ()
    assert desk.instead(unread, "shed", "compare_busy", read_request(one, 1 << 20)).trials == read.trials != ()
