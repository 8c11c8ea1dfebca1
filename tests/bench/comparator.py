"""Tokens compared per second of processor time: ``PYTHONPATH=. python -m tests.bench.comparator``.

One thread's processor time, parse of both sides included, the best of several rounds (the machine's other work only ever adds). ``read and compare`` is what the
goals are about; ``judged`` is all of the judge's work on an exchange but storing: finding the tokens, the record with its keyed hashes, metrics and noise.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from engines import alike
from engines.alike import Known
from engines.dialect import Answer, Defaults, Endpoint
from engines.registry import dialect
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Comparison, Mode, Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Reply
from proxy.config import Config, Primary, Shadow
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.case import Got, Mirrored, ShadowArm
from proxy.judge.desk import Desk
from proxy.judge.examine import Examiner
from proxy.judge.noise import NoiseBook
from proxy.judge.request import read_request
from proxy.judge.settle import Policy
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.traffic.shadow_client import Client

TOKENS = 128
REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Tell me about halos."}],
    "temperature": 0,
    "max_tokens": TOKENS,
}
TAU = Tau(1e-3, TauOrigin.CONFIGURED)


@dataclass(frozen=True)
class Case:
    """One shape of replies, the primary's and the shadow's, and the goal in tokens a second."""

    name: str
    goal: int | None
    primary: bytes
    shadow: bytes
    stream: bool = False


def cases() -> list[Case]:
    """Every shape that has a goal, and the same streamed."""
    mine, theirs = _rows(0.0, 20), _rows(1e-4, 20)
    plain = [{"text": row["text"]} for row in mine]
    return [
        Case("top-20, as vLLM writes it", 75_000, _whole(_vllm(mine)), _whole(_vllm(theirs))),
        Case("top-20, as vLLM writes it, streamed", None, _events(_vllm(mine)), _events(_vllm(theirs)), stream=True),
        Case("top-20, compact", 120_000, _whole(_compact(mine)), _whole(_compact(theirs))),
        Case("chosen token only", 200_000, _whole(_compact(_rows(0.0, 0))), _whole(_compact(_rows(1e-4, 0)))),
        Case("text, streamed", 700_000, _events(plain), _events(plain, "c2"), stream=True),
        Case("text", None, _whole(plain), _whole(plain, "c2")),
        Case("equal bytes, streamed text", 2_000_000, _events(plain), _events(plain), stream=True),
        Case("equal bytes, top-20 as vLLM", None, _whole(_vllm(mine)), _whole(_vllm(mine), "c2")),
    ]


def _rows(noise: float, top: int) -> list[dict[str, Any]]:
    """Rows of the same tokens, whose values differ by ``noise``."""
    draw = random.Random(7)
    jitter = random.Random(8)
    rows = []
    for number in range(TOKENS):
        ids = draw.sample(range(1000, 50_000), max(1, top))
        logits = sorted((draw.gauss(0.0, 3.0) for _ in ids), reverse=True)
        total = math.log(math.fsum(map(math.exp, logits)) / 0.98)  # the rest of the vocabulary has the other 2 %
        values = [round(logit - total + jitter.gauss(0.0, noise), 5) for logit in logits]
        listed = [(i, f" w{i}", v) for i, v in zip(ids, values, strict=True)]
        rows.append(
            {
                "text": f" w{ids[0]}",
                "id": ids[0],
                "top": listed if top else [],
                "logprob": listed[0][2],
                "number": number,
            }
        )
    return rows


def _vllm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tokens written as ids and with their bytes: what vLLM answers to what its dialect asks."""
    return [
        {
            "text": row["text"],
            "id": row["id"],
            "row": {
                "token": f"token_id:{row['id']}",
                "logprob": row["logprob"],
                "bytes": list(row["text"].encode()),
                "top_logprobs": [
                    {"token": f"token_id:{i}", "logprob": value, "bytes": list(f"token_id:{i}".encode())}
                    for i, _, value in row["top"]
                ],
            },
        }
        for row in rows
    ]


def _compact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tokens by text, without bytes."""
    return [
        {
            "text": row["text"],
            "row": {
                "token": row["text"],
                "logprob": row["logprob"],
                "top_logprobs": [{"token": text, "logprob": value} for _, text, value in row["top"]],
            },
        }
        for row in rows
    ]


def _logprobs(pieces: list[dict[str, Any]]) -> dict[str, Any] | None:
    rows = [piece["row"] for piece in pieces if "row" in piece]
    return {"content": rows} if rows else None


def _ids(pieces: list[dict[str, Any]]) -> list[int] | None:
    return [piece["id"] for piece in pieces] if "id" in pieces[0] else None


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}


def _whole(pieces: list[dict[str, Any]], name: str = "c1") -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "".join(piece["text"] for piece in pieces)},
        "logprobs": _logprobs(pieces),
        "finish_reason": "length",
        "token_ids": _ids(pieces),
    }
    return orjson.dumps({"id": name, "object": "chat.completion", "model": "m", "choices": [choice], "usage": _usage()})


def _events(pieces: list[dict[str, Any]], name: str = "c1") -> bytes:
    events = []
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        choice = {
            "index": 0,
            "delta": {"content": piece["text"]},
            "logprobs": _logprobs([piece]),
            "finish_reason": "length" if last else None,
            "token_ids": _ids([piece]),
        }
        events.append({"id": name, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    events.append(
        {"id": name, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": _usage()}
    )
    return b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def answer(case: Case, body: bytes) -> Answer:
    """As the mirror holds it: a stream in one piece for each event, a body in one."""
    kind = "text/event-stream" if case.stream else "application/json"
    parts = [part + b"\n\n" for part in body.split(b"\n\n")[:-1]] if case.stream else [body]
    return Answer(200, (("content-type", kind),), tuple(enumerate(parts)))


def compared(case: Case) -> Callable[[], Comparison]:
    """Read both sides and compare."""
    vllm, request = dialect("vllm"), {**REQUEST, "stream": case.stream}
    mine, theirs = answer(case, case.primary), answer(case, case.shadow)

    def work() -> Comparison:
        body = alike.in_one(mine)
        primary: Reply = vllm.read(Endpoint.CHAT, request, body)
        shadow = alike.read(vllm, Endpoint.CHAT, request, theirs, Known(vllm, request, body, primary))
        source = Source.REPLY if primary.choices[0].tokens else Source.TEXT
        return compare_free(primary, shadow, source=source, tau=TAU, greedy=True)

    return work


def judged(case: Case) -> Callable[[], object]:
    """All that the judge does with an exchange, but storing."""
    config = Config(
        primary=Primary(url="http://p"), shadows=(Shadow("c", "http://c", modes=("free",)),), state="/nonexistent"
    )
    arms = {
        name: Arm(
            name,
            Client(f"http://{name}", api_key=None, connections=1, connect_timeout=1.0, max_bytes=1 << 20),
            1.0,
            asyncio.Semaphore(1),
            dialect=dialect("vllm"),
            defaults=Defaults(temperature=1.0),
            logprob_mode="raw",
        )
        for name in ("primary", "c")
    }
    shadow = ShadowArm(arms["c"], "candidate", (Mode.FREE,), {}, 20)
    noise, metrics = NoiseBook(None), JudgeMetrics(config)
    examiner = Examiner(
        arms["primary"], (shadow,), Policy("hash", b"salt"), rescore=False, capture_bytes=1 << 23, noise=noise
    )
    desk = Desk(config, examiner)
    body = {**REQUEST, "stream": case.stream}
    mine, theirs = answer(case, case.primary), answer(case, case.shadow)
    headers = tuple((name.encode(), value.encode()) for name, value in mine.headers)
    exchange = Exchange(
        "x", "t0", 0.0, 0.5, "POST", "/v1/chat/completions", (), orjson.dumps(body), 200, headers, mine.pieces, 1, 2, Ended.COMPLETE
    )  # fmt: skip
    mirrored = Mirrored(exchange, read_request(exchange, 1 << 23), None, True, {"c": Got(body, theirs)})

    def work() -> object:
        done = desk.judge_now(mirrored)
        assert done.settlements[0].outcome == "compared"
        for one in done.settlements:
            assert one.record is not None
            metrics.observe_comparison(one.record)
            noise.learn("m", one.record.comparison, control=False)
        return done

    return work


def rate(work: Callable[[], object], seconds: float) -> float:
    """Tokens per second of processor time, the best round of those that fit into ``seconds``."""
    work()
    best, spent = float("inf"), 0.0
    while spent < seconds:
        begun = time.thread_time()
        for _ in range(5):
            work()
        took = time.thread_time() - begun
        best, spent = min(best, took / 5), spent + took
    return TOKENS / best


def scale(seconds: float) -> float:
    """How much slower this machine is now than the one of the goals: there orjson parses 232 KB of logprobs in 1,198 us."""
    body = cases()[0].primary
    per_second = rate(lambda: orjson.loads(body), seconds) / TOKENS
    return 1e6 / per_second * 232_000 / len(body) / 1198


def main() -> None:
    """Measure every case and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=1.0, help="processor time for each figure")
    seconds = options.parse_args().seconds
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # as the judge runs
    slower = scale(seconds)
    print(
        f"this machine now: {slower:.2f} times the goals' machine per orjson parse; goals are held against figures times that"
    )
    print(f"{'compared tokens per CPU-second':38} {'goal':>10} {'read and compare':>17} {'of goal':>8} {'judged':>10}")
    for case in cases():
        found, whole = rate(compared(case), seconds), rate(judged(case), seconds)
        goal, share = ("", "") if case.goal is None else (f"{case.goal:,}", f"{found * slower / case.goal:.2f}x")
        print(f"{case.name:38} {goal:>10} {found:>17,.0f} {share:>8} {whole:>10,.0f}")


if __name__ == "__main__":
    main()
