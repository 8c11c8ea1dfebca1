"""The routes beside chat and completions through the whole judge: what shadows are sent, what comes of it, and that nothing goes uncounted."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import orjson
import pytest
from aiohttp import web

from engines.dialect import Defaults, Endpoint
from engines.registry import dialect
from proxy.compare.comparison import Mode, Source
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.case import Mirrored, ShadowArm
from proxy.judge.examine import Examined, Examiner
from proxy.judge.noise import NoiseBook
from proxy.judge.request import endpoint_of
from proxy.judge.settle import Policy, settlement
from proxy.traffic.shadow_client import Client

PATHS = {"chat_completions": "/v1/chat/completions"} | {
    one: f"/v1/{one}" for one in ("completions", "responses", "messages", "embeddings", "rerank", "score")
}


def response(text: str, **more: Any) -> dict[str, Any]:
    message = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    return {"status": "completed", "output": [message], "usage": {"input_tokens": 4, "output_tokens": 2}} | more


def message(text: str) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 4, "output_tokens": 2},
    }


def embedding(*vector: float) -> dict[str, Any]:
    return {"data": [{"index": 0, "embedding": list(vector)}], "usage": {"prompt_tokens": 3, "total_tokens": 3}}


def scores(*values: float) -> dict[str, Any]:
    return {"results": [{"index": index, "relevance_score": value} for index, value in enumerate(values)]}


class Shadows:
    """A candidate and a control, two paths of one server; what they were sent is in ``got``."""

    def __init__(self, candidate: Any, control: Any) -> None:
        self.answers = {"candidate": candidate, "control": control}
        self.got: dict[str, list[dict[str, Any]]] = {"candidate": [], "control": []}

    async def answer(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.got[name].append(orjson.loads(await request.read()))
        return web.json_response(self.answers[name])


def examine(
    endpoint: str, body: dict[str, Any], primary: Any, candidate: Any, control: Any = None, *, rescore: bool = True
) -> tuple[Exchange, Examined, Shadows]:
    """Have one exchange mirrored and compared; both shadows run both modes, as forced scoring would be possible."""
    shadows = Shadows(candidate, primary if control is None else control)

    async def whole() -> tuple[Exchange, Examined]:
        app = web.Application()
        app.router.add_post("/{name}/{tail:.*}", shadows.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        arms = {name: _arm(name, f"{url}/{name}") for name in ("primary", "candidate", "control")}
        both = tuple(
            ShadowArm(arms[name], name, (Mode.FREE, Mode.FORCED), {"m": f"m-{name}"}, 20)
            for name in ("candidate", "control")
        )
        examiner = Examiner(arms["primary"], both, Policy("text", b"salt"), rescore, 1 << 20, NoiseBook(None))
        exchange = Exchange(
            id="x1", incarnation="t0", started=1000.0, u=0.1, method="POST", target=PATHS[endpoint], request_headers=(),
            request_body=orjson.dumps(body), status=200, response_headers=((b"content-type", b"application/json"),),
            pieces=((500, orjson.dumps(primary)),), head_us=400, end_us=500, ended=Ended.COMPLETE,
        )  # fmt: skip
        try:
            mirrored: asyncio.Future[Mirrored] = asyncio.get_running_loop().create_future()
            examiner.mirror(exchange, mirrored.set_result)
            return exchange, await examiner.judge(await mirrored)
        finally:
            for arm in arms.values():
                await arm.client.aclose()
            await runner.cleanup()

    exchange, examined = asyncio.run(whole())
    return exchange, examined, shadows


def _arm(name: str, url: str) -> Arm:
    client = Client(url, api_key=None, connections=4, connect_timeout=5.0, max_bytes=1 << 22)
    known = {"dialect": dialect("vllm"), "defaults": Defaults(temperature=0.7, top_p=0.9)}
    return Arm(
        name, client, 30.0, asyncio.Semaphore(4), forced=True, logprob_mode="raw", footprint=f"fp-{name}", **known
    )  # type: ignore[arg-type] # spelt once


def comparison(examined: Examined, shadow: str) -> Any:
    [found] = [one for one in examined.outcomes if (one.shadow, one.mode) == (shadow, Mode.FREE)]
    return found.comparison


def why(examined: Examined, mode: Mode) -> set[str | None]:
    """The reasons of all shadows in one mode."""
    return {
        one.incomparable or (one.comparison.incomparable if one.comparison else None)
        for one in examined.outcomes
        if one.mode is mode
    }


CASES = [
    ("responses", {"model": "m", "input": "x", "temperature": 0}, response("Hello"), response("Hullo"), "diverged"),
    (
        "messages",
        {"model": "m", "messages": [], "temperature": 0, "max_tokens": 9},
        message("Hello"),
        message("Hullo"),
        "diverged",
    ),
    ("embeddings", {"model": "m", "input": "x"}, embedding(0.6, 0.8), embedding(0.8, 0.6), "measured"),
    ("rerank", {"model": "m", "query": "x", "documents": ["a", "b"]}, scores(0.1, 0.9), scores(0.9, 0.1), "diverged"),
    ("score", {"model": "m", "text_1": "x", "text_2": ["a", "b"]}, scores(0.1, 0.9), scores(0.2, 0.9), "measured"),
]


@pytest.mark.parametrize(
    ("endpoint", "body", "primary", "candidate", "outcome"), CASES, ids=[case[0] for case in CASES]
)
def test_every_route_is_compared_and_every_shadow_and_mode_settled_once(endpoint, body, primary, candidate, outcome):
    exchange, examined, shadows = examine(endpoint, body, primary, candidate)
    assert comparison(examined, "candidate").outcome == outcome
    assert comparison(examined, "control").outcome == "identical"
    assert (comparison(examined, "candidate").findings, comparison(examined, "control").findings) == ((), ())
    assert examined.source is Source.TEXT
    settled = [
        settlement(exchange, examined.asked, examined.primary, one, examined.context) for one in examined.outcomes
    ]
    assert Counter((one.shadow, one.mode, one.outcome, one.reason) for one in settled) == {
        (name, *end): 1
        for name in ("candidate", "control")
        for end in (("free", "compared", ""), ("forced", "incomparable", "endpoint"))
    }
    assert {one.record.endpoint for one in settled if one.record is not None} == {endpoint}
    assert [len(got) for got in shadows.got.values()] == [1, 1]  # neither is asked again for tokens it has not


@pytest.mark.parametrize(
    ("endpoint", "body", "primary", "candidate", "outcome"), CASES, ids=[case[0] for case in CASES]
)
def test_a_shadow_gets_the_clients_body_less_what_stores_or_identifies(endpoint, body, primary, candidate, outcome):
    del outcome
    identifying = {
        "user": "u",
        "metadata": {"a": 1},
        "store": True,
        "safety_identifier": "s",
        "prompt_cache_retention": "24h",
    }
    _, _, shadows = examine(endpoint, body | identifying, primary, candidate)
    own = {"store": False} if endpoint == "responses" else {}
    assert shadows.got["candidate"] == [body | {"model": "m-candidate"} | own]


@pytest.mark.parametrize(
    ("endpoint", "body", "reason"),
    [
        ("responses", {"input": "x", "temperature": 0, "previous_response_id": "r"}, "stored_conversation"),
        ("responses", {"input": "x", "temperature": 0, "tools": [{"type": "web_search"}]}, "server_tools"),
        ("responses", {"input": "x", "temperature": 1}, "sampled"),
        ("messages", {"messages": []}, "sampled"),  # the primary's default is not greedy
    ],
)
def test_what_is_not_mirrored_says_why_and_asks_nobody(endpoint, body, reason):
    reply = (response if endpoint == "responses" else message)("Hello")
    _, examined, shadows = examine(endpoint, body, reply, reply)
    assert why(examined, Mode.FREE) == {reason}
    forced = why(examined, Mode.FORCED)
    assert forced == {"endpoint" if reason == "sampled" else reason}
    assert shadows.got == {"candidate": [], "control": []}


def test_a_prompt_of_another_length_comes_before_any_distance():
    other = embedding(0.6, 0.8) | {"usage": {"prompt_tokens": 4}}
    _, examined, _ = examine("embeddings", {"input": "x"}, embedding(0.6, 0.8), other)
    found = comparison(examined, "candidate")
    assert (found.incomparable, found.findings) == ("prompt_tokens", ("prompt_tokens",))


def test_tool_calls_of_a_response_are_held_against_the_requests_schema():
    def called(arguments: str) -> dict[str, Any]:
        return response("", output=[{"type": "function_call", "name": "f", "arguments": arguments}])

    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "required": ["a"]}}
    body = {"input": "x", "temperature": 0, "tools": [tool]}
    _, examined, _ = examine("responses", body, called('{"a": 1, "b": 2}'), called('{"b": 2}'), called('{"b":2,"a":1}'))
    assert comparison(examined, "control").outcome == "identical"
    found = comparison(examined, "candidate")
    assert (found.outcome, found.findings) == ("diverged", ("tool_call_arguments",))
    assert [one.calls for one in found.choices[0].shapes] == [("valid",), ("against_schema",)]


def test_the_judge_and_the_live_path_call_a_route_by_the_same_name():
    for name, path in PATHS.items():
        assert endpoint_of(path) == Endpoint(name)
        assert endpoint_of(f"/prefix{path}") == Endpoint(name)
    for path in (
        "/v1/models",
        "/tokenize",
        "/v1/audio/speech",
        "/responses",
        "/v1/messages/count_tokens",
        "/v1/\u4e2d",
    ):
        assert endpoint_of(path) is Endpoint.OTHER
