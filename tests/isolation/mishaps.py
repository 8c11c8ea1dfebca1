"""Something goes wrong every moment, on every side, while good clients are served (row 12); at rest after each round the processes are looked at."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from proxy.demo.proxy_process import ProxyProcess
from tests.faults import FAULTS
from tests.isolation import load
from tests.isolation.soak import CORPUS, Held, steadily
from tests.isolation.stage import Processes, Sick, settled
from tests.running import until

SHADOW_FAULTS = (*sorted(FAULTS), "refuse")
PRIMARY_FAULTS = ("cut", "garbage", "half_close", "reset", "server_error", "silent_close", "refuse")
DISK_FAULTS = ("full", "readonly", "slow 300", "")
ROLES = ("supervisor", "traffic", "judge")
_IDLE = 5.5  # longer than connections to the primary are kept
_WORD = 2.5  # a judge that was just begun says in that time what it knows, and no longer what the one before it knew


class Mishaps:
    """Chooses what goes wrong next, always in the same order for a seed."""

    def __init__(self, proxy: ProxyProcess, primary: Sick, shadow: Sick, disk: Path, seed: int) -> None:
        self._primary, self._shadow, self._disk = primary, shadow, disk
        self._processes = Processes(proxy)
        self._address = load.address_of(proxy.clients)
        self._chance = random.Random(seed)
        self.count = 0

    async def one(self, longest_stop: float) -> None:
        """Something goes wrong that no client may notice."""
        self.count += 1
        match self._chance.randrange(8):
            case 0 | 1 | 2:
                await asyncio.to_thread(self._shadow.become, self._chance.choice(SHADOW_FAULTS))
            case 3:
                await asyncio.to_thread(self._shadow.become, "well")
            case 4 | 5:
                await self._judge(longest_stop)
            case 6:
                self._disk.write_text(self._chance.choice(DISK_FAULTS), encoding="ascii")
            case _:
                await self._clients()

    async def primary(self) -> None:
        """The primary fails for a moment; what clients get then is whatever it is."""
        self.count += 1
        await asyncio.to_thread(self._primary.become, self._chance.choice(PRIMARY_FAULTS))
        await self._clients()
        await asyncio.to_thread(self._primary.become, "well")
        await asyncio.sleep(0.2)

    async def all_well(self) -> None:
        """End whatever is wrong."""
        self._disk.write_text("", encoding="ascii")
        await asyncio.to_thread(self._shadow.become, "well")

    async def _judge(self, longest_stop: float) -> None:
        """A judge that was killed while the disk is full cannot begin again before that has ended: then there is none, or one that dies under our hands."""
        pid = await asyncio.to_thread(self._processes.find, "judge")
        if not pid:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._chance.random() < 0.3:
                os.kill(pid, signal.SIGKILL)
                return
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(self._chance.uniform(0.2, longest_stop))
            os.kill(pid, signal.SIGCONT)

    async def _clients(self) -> None:
        """Some leave at any moment, some send what is no request."""
        loop = asyncio.get_running_loop()
        for _ in range(20):
            request = self._chance.choice(CORPUS)
            cut = self._chance.randrange(1, len(request)) if self._chance.random() < 0.5 else len(request)
            data = request[:cut] if self._chance.random() < 0.8 else b"\x16\x03 no request\r\n\r\n"
            with socket.socket() as sock:
                sock.setblocking(False)
                await loop.sock_connect(sock, self._address)
                with contextlib.suppress(ConnectionError):
                    await loop.sock_sendall(sock, data)
                await asyncio.sleep(self._chance.choice([0.0, 0.001, 0.05]))


@dataclass
class Mixed:
    """What the good clients got, what the processes held at rest after each round, and how everything ended."""

    good: load.Tally = field(default_factory=load.Tally)
    rests: dict[str, Held] = field(default_factory=lambda: {role: Held() for role in ROLES})
    mishaps: int = 0
    received: int = 0
    ended: dict[str, int] = field(default_factory=dict)


def mixed(
    proxy: ProxyProcess,
    primary: Sick,
    shadow: Sick,
    disk: Path,
    *,
    seconds: float,
    rounds: int,
    longest_stop: float,
    per_second: float,
) -> Mixed:
    """Rounds of mishaps, each followed by rest."""
    found, began = Mixed(), time.monotonic()
    wanted = uvloop.run(load.expect(primary.url, CORPUS))
    mishaps = Mishaps(proxy, primary, shadow, disk, seed=20261130)
    processes = Processes(proxy)
    for number in range(1, rounds + 1):
        end = began + seconds * number / rounds - _IDLE
        uvloop.run(_round(proxy.clients, wanted, found.good, mishaps, end, longest_stop, per_second))
        seen = settled(proxy, None, 90)
        until(lambda: processes.pid("judge") > 1)
        time.sleep(_WORD)
        proxy.wait_known(["primary", "cand"], 60)
        for engine in (primary, shadow):
            engine.become("well")  # and its connections are closed: a judge keeps one of each, once it has asked
        time.sleep(_IDLE)
        for role, held in found.rests.items():
            pid = processes.supervisor if role == "supervisor" else processes.pid(role)
            held.look(time.monotonic() - began, pid)
        found.received, found.ended = seen.sum("received_total"), seen.ended("cand")
    found.mishaps = mishaps.count
    return found


async def _round(
    url: str,
    wanted: Sequence[load.Said],
    good: load.Tally,
    mishaps: Mishaps,
    end: float,
    longest_stop: float,
    per_second: float,
) -> None:
    """Good clients come between the moments in which the primary itself fails."""
    while time.monotonic() < end:
        stretch = min(end, time.monotonic() + 6.0)

        def over(until: float = stretch) -> bool:
            return time.monotonic() >= until

        async def go_wrong(over: object = over) -> None:
            while not over():  # type: ignore[operator]
                await mishaps.one(longest_stop)
                await asyncio.sleep(0.5)

        async with asyncio.TaskGroup() as group:
            group.create_task(steadily(url, wanted, good, per_second, over))
            group.create_task(go_wrong())
        await mishaps.primary()
    await mishaps.all_well()
