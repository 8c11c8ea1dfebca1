"""One exchange through the whole judge, against toy engines whose every logit the test can recompute."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web

from engines.dialect import Defaults
from engines.registry import dialect
from proxy.compare.comparison import Mode, Source
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.case import Mirrored, ShadowArm
from proxy.judge.examine import Examined, Examiner
from proxy.judge.noise import NoiseBook
from proxy.judge.settle import Policy
from proxy.traffic.shadow_client import Client
from tests.toy import Server, Toy

TALK = [{"role": "user", "content": "Tell me about halos, the sun's."}]
CHAT = {"model": "toy", "messages": TALK, "max_tokens": 24, "temperature": 0}


@asynccontextmanager
async def serving(toy: Toy) -> AsyncIterator[str]:
    runner = web.AppRunner(Server(toy).application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Bench:
    """A primary, a control and a candidate, each a toy; ``ask`` sends one request to the primary and has it examined."""

    def __init__(self, examiner: Examiner, primary_url: str, toys: dict[str, Toy]) -> None:
        self.examiner, self.url, self.toys = examiner, primary_url, toys

    async def ask(
        self, body: dict[str, Any], path: str = "/v1/chat/completions", *, injected: bool = False, **changes: Any
    ) -> Examined:
        sent = dialect("reference").ask(_endpoint(path), body, 20) if injected else body
        async with ClientSession() as session, session.post(self.url + path, json=sent) as reply:
            data, status = await reply.read(), reply.status
            headers = tuple((name.lower().encode(), value.encode()) for name, value in reply.headers.items())
        fields: dict[str, Any] = {
            "id": "x1", "incarnation": "t0", "started": 1000.0, "u": 0.1, "method": "POST", "target": path, "request_headers": (),
            "request_body": orjson.dumps(body), "status": status, "response_headers": headers, "pieces": ((500, data),),
            "head_us": 400, "end_us": 500, "ended": Ended.COMPLETE, "injected": injected,
        }  # fmt: skip
        mirrored: asyncio.Future[Mirrored] = asyncio.get_running_loop().create_future()
        self.examiner.mirror(Exchange(**(fields | changes)), mirrored.set_result)
        return await self.examiner.judge(await mirrored)


def _endpoint(path: str) -> Any:
    from proxy.judge.request import endpoint_of

    return endpoint_of(path)


def run(
    test: Callable[[Bench], Awaitable[None]],
    *,
    control: bool = True,
    rescore: bool = False,
    ids: bool = True,
    **candidate: Any,
) -> None:
    """Run one test with its engines up."""

    async def whole() -> None:
        toys = {"primary": Toy(ids=ids), "candidate": Toy(**candidate)}
        if control:
            toys["control"] = Toy()
        async with contextlib.AsyncExitStack() as stack:
            urls = {name: await stack.enter_async_context(serving(toy)) for name, toy in toys.items()}
            arms = {name: _arm(name, url) for name, url in urls.items()}
            shadows = tuple(
                ShadowArm(arms[name], name, (Mode.FREE, Mode.FORCED), {}, 20)
                for name in ("candidate", "control")
                if name in arms
            )
            examiner = Examiner(arms["primary"], shadows, Policy("text", b"salt"), rescore, 1 << 20, NoiseBook(None))
            try:
                await test(Bench(examiner, urls["primary"], toys))
            finally:
                for arm in arms.values():
                    await arm.client.aclose()

    asyncio.run(whole())


def _arm(name: str, url: str) -> Arm:
    client = Client(url, api_key=None, connections=4, connect_timeout=5.0, max_bytes=1 << 22)
    known = {"dialect": dialect("reference"), "defaults": Defaults(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0)}
    return Arm(
        name, client, 30.0, asyncio.Semaphore(4), forced=True, logprob_mode="raw", footprint=f"fp-{name}", **known
    )


def of(examined: Examined, shadow: str, mode: Mode) -> Any:
    found = [one for one in examined.outcomes if (one.shadow, one.mode) == (shadow, mode)]
    assert len(found) == 1
    return found[0]


def reason(examined: Examined, shadow: str, mode: Mode) -> str | None:
    one = of(examined, shadow, mode)
    return one.incomparable or (one.comparison.incomparable if one.comparison else None)


ASKED = CHAT | {"logprobs": True, "top_logprobs": 5, "return_token_ids": True}


@pytest.mark.parametrize("stream", [False, True])
def test_reply_with_its_own_tokens_against_an_equal_engine(stream: bool) -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(ASKED | {"stream": stream})
        assert examined.source is Source.REPLY
        for shadow in ("candidate", "control"):
            free = of(examined, shadow, Mode.FREE).comparison
            assert free.outcome == "identical"
            assert free.choices[0].compared == 24
            assert set(free.choices[0].shadow_logprobs) == set(free.choices[0].primary_logprobs)
            forced = of(examined, shadow, Mode.FORCED).comparison
            assert forced.outcome == "scored"
            assert forced.choices[0].compared == 24
            assert not forced.choices[0].flips
            assert forced.choices[0].shadow_logprobs == pytest.approx(forced.choices[0].primary_logprobs, abs=1e-12)

    run(test)


def test_a_noisier_candidate_parts_where_the_toys_do_and_the_control_does_not() -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(ASKED)
        toys = bench.toys
        prompt = toys["primary"].chat_ids(CHAT["messages"])  # type: ignore[arg-type]
        mine, _ = toys["primary"].generate(prompt, CHAT, 0)
        theirs, _ = toys["candidate"].generate(prompt, CHAT, 0)
        first = next(index for index, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b)
        free = of(examined, "candidate", Mode.FREE).comparison
        assert free.outcome == "diverged"
        assert free.choices[0].first.index == first
        assert (free.choices[0].first.primary.id, free.choices[0].first.shadow.id) == (mine[first], theirs[first])
        forced = of(examined, "candidate", Mode.FORCED).comparison.choices[0]
        expected = [toys["candidate"].logprobs(prompt + mine[:index])[token] for index, token in enumerate(mine)]
        assert forced.shadow_logprobs == pytest.approx(expected, abs=1e-12)
        assert of(examined, "control", Mode.FREE).comparison.outcome == "identical"

    run(test, noise=1.5, seed=7)


def test_a_client_that_asks_for_nothing_is_served_by_the_controls_tokens() -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(CHAT)
        assert examined.source is Source.BY_CONTROL
        free = of(examined, "candidate", Mode.FREE).comparison
        assert free.source is Source.BY_CONTROL
        assert free.choices[0].compared == 24
        control = of(examined, "control", Mode.FREE).comparison
        assert control.source is Source.TEXT  # never held against its own tokens
        assert control.outcome == "identical"
        assert not control.choices[0].primary_logprobs
        assert of(examined, "candidate", Mode.FORCED).comparison.outcome == "scored"

    run(test)


def test_injected_tokens_say_so() -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(CHAT, injected=True)
        assert examined.source is Source.INJECT
        assert of(examined, "candidate", Mode.FREE).comparison.outcome == "identical"

    run(test)


def test_rescore_asks_the_primary_again_where_there_is_no_control() -> None:
    async def test(bench: Bench) -> None:
        before = len(bench.toys["primary"].requests)
        examined = await bench.ask(CHAT)
        assert examined.source is Source.RESCORE
        assert len(bench.toys["primary"].requests) == before + 2
        assert of(examined, "candidate", Mode.FREE).comparison.choices[0].compared == 24

    run(test, control=False, rescore=True)


def test_without_control_and_rescoring_only_the_text_is_known() -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(CHAT)
        free = of(examined, "candidate", Mode.FREE).comparison
        assert (free.source, free.outcome, len(bench.toys["primary"].requests)) == (Source.TEXT, "identical", 1)
        assert reason(examined, "candidate", Mode.FORCED) == "no_primary_tokens"
        bench.examiner.shadows[0].arm.forced = False  # then the tokens would not help
        assert reason(await bench.ask(CHAT), "candidate", Mode.FORCED) == "no_forced_scoring"

    run(test, control=False)


def test_sampled_traffic_is_canonical_in_forced_mode_and_incomparable_in_free() -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(CHAT | {"temperature": 0.9, "seed": 5})
        assert reason(examined, "candidate", Mode.FREE) == "sampled"
        assert reason(examined, "control", Mode.FREE) == "sampled"
        assert examined.source is Source.CANONICAL
        forced = of(examined, "candidate", Mode.FORCED).comparison
        assert forced.source is Source.CANONICAL
        assert forced.choices[0].shadow_logprobs == pytest.approx(forced.choices[0].primary_logprobs, abs=1e-12)
        assert not forced.choices[0].flips
        assert reason(examined, "control", Mode.FORCED) == "no_primary_tokens"
        asked = [len(toy.requests) for name, toy in bench.toys.items() if name != "primary"]
        assert max(asked) <= 1  # scored once each, nothing generated

    run(test)


def test_sampled_traffic_whose_client_asked_for_ids_is_scored_as_it_was() -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(ASKED | {"temperature": 0.9, "seed": 5})
        assert examined.source is Source.REPLY
        assert reason(examined, "candidate", Mode.FREE) == "sampled"
        assert of(examined, "candidate", Mode.FORCED).comparison.outcome == "scored"

    run(test)


def test_an_omitted_temperature_is_the_engines_own_default() -> None:
    async def test(bench: Bench) -> None:
        body = {key: value for key, value in ASKED.items() if key != "temperature"}
        assert reason(await bench.ask(body), "candidate", Mode.FREE) == "sampled"
        bench.examiner.primary.defaults = Defaults(temperature=0.0)
        assert of(await bench.ask(body | {"temperature": 0}), "candidate", Mode.FREE).comparison.outcome == "identical"
        bench.examiner.primary.defaults = Defaults()
        assert reason(await bench.ask(body), "candidate", Mode.FREE) == "sampled"  # unknown is never taken for greedy

    run(test)


def test_several_choices_and_several_prompts() -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(ASKED | {"n": 3})
        free = of(examined, "candidate", Mode.FREE).comparison
        assert [choice.index for choice in free.choices] == [0, 1, 2]
        assert len(of(examined, "candidate", Mode.FORCED).comparison.choices) == 3
        body = {
            "model": "toy",
            "prompt": ["one", "two is longer"],
            "max_tokens": 9,
            "temperature": 0,
            "logprobs": 3,
            "n": 2,
            "return_token_ids": True,
        }
        examined = await bench.ask(body, "/v1/completions")
        forced = of(examined, "candidate", Mode.FORCED).comparison
        assert len(forced.choices) == 4
        for choice in forced.choices:
            assert choice.shadow_logprobs == pytest.approx(choice.primary_logprobs, abs=1e-12)

    run(test)


def test_a_prompt_of_token_ids() -> None:
    async def test(bench: Bench) -> None:
        body = {"model": "toy", "prompt": [1, 40, 41, 42], "max_tokens": 9, "temperature": 0, "logprobs": 3}
        examined = await bench.ask(body, "/v1/completions")
        assert of(examined, "candidate", Mode.FREE).comparison.outcome == "identical"
        assert of(examined, "candidate", Mode.FORCED).comparison.outcome == "scored"

    run(test)


def test_another_chat_template_is_a_finding_and_no_divergence() -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(ASKED)
        assert reason(examined, "candidate", Mode.FREE) == "prompt_tokens"
        assert "prompt_tokens" in of(examined, "candidate", Mode.FREE).comparison.findings
        assert of(examined, "control", Mode.FREE).comparison.outcome == "identical"

    run(test, template="[{role}]: {content}\n")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ended": Ended.CLIENT_GONE}, "client_gone"),
        ({"ended": Ended.PRIMARY_CUT}, "primary_cut"),
        ({"ended": Ended.NO_REPLY, "status": 502}, "no_reply"),
        ({"status": 500}, "primary_error"),
        ({"pieces": ((1, b"<html>"),)}, "primary_error"),
        ({"request_body": b"{"}, "request_not_json"),
        ({"request_body": b"{", "request_whole": False, "status": 401}, "primary_error"),
        ({"request_body": b"{", "request_whole": False, "ended": Ended.CLIENT_GONE}, "client_gone"),
        ({"request_body": b"", "request_whole": False}, "request_cut"),
        ({"target": "/classify"}, "endpoint"),
        ({"request_body": b'{"prompt": "x", "echo": true}', "target": "/v1/completions"}, "echo"),
        ({"request_body": b'{"prompt": "x", "suffix": "y"}', "target": "/v1/completions"}, "infill"),
        ({"request_body": b'{"prompt": "x", "best_of": 3}', "target": "/v1/completions"}, "search"),
    ],
)
def test_what_cannot_be_compared_has_one_reason_everywhere(changes: dict[str, Any], expected: str) -> None:
    async def test(bench: Bench) -> None:
        examined = await bench.ask(ASKED, **changes)
        assert len(examined.outcomes) == 4
        assert {one.incomparable for one in examined.outcomes} == {expected}
        asked = [len(toy.requests) for name, toy in bench.toys.items() if name != "primary"]
        assert asked == ([1, 1] if "pieces" in changes else [0, 0])  # nobody reads a reply before asking

    run(test)


def test_a_shadow_that_is_gone_is_an_outcome_and_the_other_is_not_touched() -> None:
    async def test(bench: Bench) -> None:
        gone = next(shadow.arm for shadow in bench.examiner.shadows if shadow.role == "candidate")
        await gone.client.aclose()
        gone.client = Client("http://127.0.0.1:1", api_key=None, connections=1, connect_timeout=1.0, max_bytes=1 << 20)
        examined = await bench.ask(ASKED)
        assert reason(examined, "candidate", Mode.FREE) == "shadow_error"
        assert reason(examined, "candidate", Mode.FORCED) == "shadow_error"
        assert of(examined, "control", Mode.FREE).comparison.outcome == "identical"
        assert gone.errors["refused"] == 2
        # The fifth failure opens it for a second, which a busy machine may take to ask again: then the next ones are shed, for longer.
        sheds = [of(await bench.ask(ASKED), "candidate", Mode.FREE).shed for _ in range(8)]
        assert "circuit_open" in sheds
        await gone.client.aclose()

    run(test)


def test_a_shadow_not_yet_probed_sheds() -> None:
    async def test(bench: Bench) -> None:
        for shadow in bench.examiner.shadows:
            shadow.arm.dialect = None
        examined = await bench.ask(ASKED)
        assert {one.shed for one in examined.outcomes} == {"shadow_unready"}

    run(test)


def test_alternatives_are_bounded_by_what_the_engine_gives() -> None:
    async def test(bench: Bench) -> None:
        arm = bench.examiner.primary
        assert arm.most(50) == 50  # the reference dialect knows no limit
        arm.alternatives = 5
        assert (arm.most(50), arm.most(3)) == (5, 3)
        arm.alternatives, arm.dialect = None, dialect("vllm")
        assert arm.most(50) == 20

    run(test)


def test_a_trial_that_breaks_off_does_not_take_the_shadow_out_for_good() -> None:
    async def test(bench: Bench) -> None:
        arm = next(shadow.arm for shadow in bench.examiner.shadows if shadow.role == "candidate")
        for _ in range(5):
            arm.guard.failed(-10.0)

        async def breaks_off(_: Any) -> None:
            raise RuntimeError

        with pytest.raises(RuntimeError):
            await arm.admitted(breaks_off, "x")
        assert of(await bench.ask(ASKED), "candidate", Mode.FREE).comparison.outcome == "identical"
        assert not arm.guard.circuit_open

    run(test)


def test_a_comparison_that_fails_takes_only_its_own_arm_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from proxy.judge import free

    real = free.compare_free

    def compare(primary: Any, shadow: Any, **more: Any) -> Any:
        if shadow.choices[0].text != primary.choices[0].text:
            raise OverflowError
        return real(primary, shadow, **more)

    monkeypatch.setattr(free, "compare_free", compare)

    async def test(bench: Bench) -> None:
        examined = await bench.ask(ASKED)
        assert reason(examined, "candidate", Mode.FREE) == "judge_error"
        assert of(examined, "candidate", Mode.FORCED).comparison.outcome == "scored"
        assert of(examined, "control", Mode.FREE).comparison.outcome == "identical"

    run(test, noise=1.5, seed=7)
