"""The whole judge over scripted engines: clients' requests mirrored, compared in both modes, settled, stored and reported.

Everything but the processes: engines are asked over HTTP, what the judge knows of them comes from its probe, records and trials go through a store into the report. One primary
may have many shadows, so that many planted faults share a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from aiohttp import ClientSession

from engines.http_fetch import connect
from engines.probe import Probe, probe
from engines.registry import dialect
from proxy.compare.comparison import Comparison, Mode
from proxy.config import Config, Shadow
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.case import Mirrored, ShadowArm
from proxy.judge.examine import Examined, Examiner
from proxy.judge.noise import NoiseBook
from proxy.judge.settle import Policy, settlement
from proxy.judge.stacks import learn
from proxy.judge.trials import Trials
from proxy.ledger.reconcile import SETTLED
from proxy.ledger.record import Settlement
from proxy.ledger.report import build_report
from proxy.ledger.store import Store
from proxy.traffic.shadow_client import Client
from tests.planted import serving

CHAT = "/v1/chat/completions"
Body = dict[str, Any]

#: What the probe says of the healthy engine that speaks a dialect: asked once, it takes a second.
HEALTHY: dict[str, Probe] = {}


class Judged(NamedTuple):
    """What came of it: each shadow's comparisons in the order of the requests, free and forced in turn; and the report."""

    comparisons: dict[str, list[Comparison]]
    report: dict[str, Any]

    def shadow(self, name: str) -> dict[str, Any]:
        """One shadow's part of the report."""
        return next(one for one in self.report["shadows"] if one["name"] == name)

    def of(self, name: str, mode: Mode) -> list[Comparison]:
        """A shadow's comparisons in one mode."""
        return [one for one in self.comparisons[name] if one.mode is mode]


def judged(
    primary: str,
    shadows: Mapping[str, str],
    bodies: Sequence[Body],
    *,
    engines: tuple[str, str] = ("vllm", "vllm"),
    probed: bool = False,
    near_tie: float | None = None,
) -> Judged:
    """Have the requests judged. ``shadows``: scripts by name; one called ``control`` is that.

    ``engines``: the primary's dialect and the shadows'. ``probed``: each arm is known by its own probe; else as a healthy one of its dialect. ``near_tie``: as configured
    (nats), None to learn it.
    """
    return asyncio.run(_judged(primary, shadows, bodies, engines, probed=probed, near_tie=near_tie))


async def arm(name: str, url: str, engine: str, *, probed: bool) -> Arm:
    """One engine as the judge knows it after its probe; not ``probed``: as it knows a healthy one."""
    client = Client(url, api_key=None, connections=4, connect_timeout=5.0, max_bytes=1 << 22)
    made = Arm(name, client, 30.0, asyncio.Semaphore(4))
    if not probed and engine in HEALTHY:
        learn(made, HEALTHY[engine])
    else:
        async with connect(url, timeout=30) as fetch:
            known = await probe(fetch, dialect(engine))
        if name == "primary":
            HEALTHY.setdefault(engine, known)
        learn(made, known)
    made.dialect = dialect(engine)
    return made


async def _judged(
    primary: str,
    shadows: Mapping[str, str],
    bodies: Sequence[Body],
    engines: tuple[str, str],
    *,
    probed: bool,
    near_tie: float | None,
) -> Judged:
    async with contextlib.AsyncExitStack() as stack:
        scripts = {"primary": primary, **shadows}
        arms: dict[str, Arm] = {}
        urls: dict[str, str] = {}
        for name, script in scripts.items():
            engine = engines[name != "primary"]
            urls[name] = await stack.enter_async_context(serving(script, engine))
            arms[name] = await arm(name, urls[name], engine, probed=probed)
            stack.push_async_callback(arms[name].client.aclose)
        mirrored = tuple(ShadowArm(arms[name], _role(name), (Mode.FREE, Mode.FORCED), {}, 20) for name in shadows)
        examiner = Examiner(arms["primary"], mirrored, Policy("none", b""), False, 1 << 20, NoiseBook(near_tie))
        session = await stack.enter_async_context(ClientSession())
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(Store.open(f"sqlite:///{Path(directory) / 'records.db'}"))
        trials = Trials(arms["primary"], mirrored, b"")
        found: dict[str, list[Comparison]] = {name: [] for name in shadows}
        for number, body in enumerate(bodies):
            exchange = await _exchange(session, urls["primary"], number, body)
            examined = await _examined(examiner, exchange)
            store.settle(_settlements(exchange, examined, trials))
            for outcome in examined.outcomes:
                if outcome.comparison is not None:
                    found[outcome.shadow].append(outcome.comparison)
                    examiner.noise.learn("toy", outcome.comparison, control=outcome.role == "control")
        config = Config(shadows=tuple(Shadow(name, "http://s", role=_role(name)) for name in shadows))
        return Judged(found, build_report(config, store, command="judged", now=0.0))


def _role(name: str) -> Any:
    return "control" if name == "control" else "candidate"


async def _exchange(session: ClientSession, url: str, number: int, body: Body) -> Exchange:
    """A client's request, answered by the primary."""
    path = next((path for field, path in _PATHS.items() if field in body), CHAT)
    async with session.post(url + path, json=body) as reply:
        assert reply.status == 200, await reply.text()
        data = await reply.read()
        headers = tuple((name.lower().encode(), value.encode()) for name, value in reply.headers.items())
    return Exchange(
        f"x{number}", "t0", 1000.0 + number, 0.1, "POST", path, (), orjson.dumps(body), 200, headers, ((500, data),), 400, 500, Ended.COMPLETE,
    )  # fmt: skip


_PATHS = {"prompt": "/v1/completions", "documents": "/v1/rerank", "input": "/v1/embeddings"}


async def _examined(examiner: Examiner, exchange: Exchange) -> Examined:
    mirrored: asyncio.Future[Mirrored] = asyncio.get_running_loop().create_future()
    examiner.mirror(exchange, mirrored.set_result)
    return await examiner.judge(await mirrored)


def _settlements(exchange: Exchange, examined: Examined, trials: Trials) -> list[Settlement]:
    """As the desk makes them."""
    outcomes = [
        settlement(exchange, examined.asked, examined.primary, one, examined.context) for one in examined.outcomes
    ]
    return [*outcomes, Settlement("t0", "", "", SETTLED, trials=trials.of(exchange, examined))]
