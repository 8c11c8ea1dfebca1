"""Chains of hops, client to engine: a front, Parhelion, a back; and each front alone, to know what it makes of a vector by itself."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.smuggling import envoy, haproxy, nginx
from tests.smuggling.launch import Routes, free_ports
from tests.smuggling.talk import Outcome, echo, seen, talk
from tests.smuggling.vectors import Vector
from tests.wire.engine import Engine
from tests.wire.proxied import proxied

FOREIGN: dict[str, Callable[[Routes, Path], AbstractContextManager[None]]] = {
    "nginx": nginx.serving,
    "HAProxy": haproxy.serving,
    "Envoy": envoy.serving,
}
FRONTS = ("none", *FOREIGN, "Parhelion")
BACKS = ("engine", *FOREIGN)
ALONE = "alone"  # in place of a back: the front speaks to the engine itself, without us
PATIENCE = 6.0
_AT_ONCE = 4  # vectors of one chain
Chain = tuple[str, str]
Results = dict[Chain, dict[str, Outcome]]


@asynccontextmanager
async def standing(engine: Engine) -> AsyncIterator[dict[Chain, tuple[str, int]]]:
    """All chains to one engine; where each is to be addressed."""
    places: dict[Chain, tuple[str, int]] = {}
    chains = [*itertools.product(FOREIGN, (*BACKS, ALONE))]
    ports = iter(free_ports(len(chains) + len(FOREIGN)))
    backs = {"engine": engine.port} | {name: next(ports) for name in FOREIGN}
    routes: dict[str, dict[int, int]] = {name: {backs[name]: engine.port} for name in FOREIGN}
    async with AsyncExitStack() as stack:
        for back, port in backs.items():
            places["none", back] = await _parhelion(stack, port)
            places["Parhelion", back] = await _parhelion(stack, places["none", back][1])
        for front, back in chains:
            port = next(ports)
            routes[front][port] = engine.port if back == ALONE else places["none", back][1]
            places[front, back] = ("127.0.0.1", port)
        for name, serving in FOREIGN.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="phl")))
            stack.enter_context(serving(routes[name], folder))
        yield places


async def _parhelion(stack: AsyncExitStack, port: int) -> tuple[str, int]:
    state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="phl")))
    proxy = await stack.enter_async_context(proxied(f"http://127.0.0.1:{port}", state, shadows=()))
    return proxy.address


async def play(vectors: list[Vector], pieces: str) -> Results:
    """Every vector through every chain: the chains side by side, a few vectors of each at a time, so that hops share connections among them."""
    results: Results = {}
    async with Engine(echo) as engine, standing(engine) as places:

        async def work(chain: Chain, waiting: list[Vector]) -> None:
            while waiting:
                vector = waiting.pop()
                results[chain][vector.name] = await talk(places[chain], vector, pieces, PATIENCE)

        async with asyncio.TaskGroup() as group:
            for chain in places:
                results[chain] = {}
                waiting = vectors[:]
                for _ in range(_AT_ONCE):
                    group.create_task(work(chain, waiting))
        assert not engine.errors, engine.errors
        for outcome in (one for outcomes in results.values() for one in outcomes.values()):
            outcome.seen = seen(engine, outcome.mark)
    return results


def verdict(vector: Vector, outcome: Outcome, alone: Outcome | None) -> str:
    """What a chain made of a vector: ``rejected``, ``one``, ``two``, ``waits``, ``split``, or ``desync`` and why.

    ``alone`` is what its front makes of the vector without us (None: there is no foreign front). ``split``: the front itself reads what is hidden as a request
    of its own, says so to the client with an answer of its own for it, and every hop behind it agrees.
    """
    closed_early = outcome.closed and outcome.answered == outcome.seen[:-1]
    if outcome.answered != outcome.seen and not closed_early:
        return "desync: answers are not those to the requests that the engine saw, in their order"
    hidden = any("hidden" in one for one in outcome.seen)
    if hidden and not (alone and any("hidden" in one for one in alone.seen)):
        return "desync: the engine saw a request that no hop in front of us had read"
    if hidden:
        return "split"
    if not outcome.answers and not outcome.closed:
        ours = vector.expected == "waits" or (alone is not None and not alone.answers)
        return "waits" if ours else "desync: we wait for bytes that the hop in front of us has sent already"
    match len(outcome.meant):
        case 0:
            return "rejected" if outcome.closed or not outcome.seen or outcome.followed else "desync: refused, and more"
        case 1:
            return "one"
        case 2 if vector.expected.startswith("two"):
            return "two"
        case more:
            return f"desync: {more} requests of one"
