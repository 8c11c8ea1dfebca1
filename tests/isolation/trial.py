"""A proxy that something is done to while clients are served, beside one to which nothing is done: what both clients see, and how everything ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import uvloop

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation import load
from tests.isolation.stage import Processes, Sick, settled

ROUNDS, BLOCK = 10, 200
#: Requests one after the other, to see how long the traffic process's loop keeps somebody waiting.
ALONE = 15

Figure = Callable[[str, str], None]


class Trial:
    """``order`` writes the file that a saboteur or a sick disk obeys; ``load`` asks; ``over`` sums up."""

    def __init__(self, proxy: ProxyProcess, bare: ProxyProcess, order: Path, primary: Sick) -> None:
        self.proxy, self._order = proxy, order
        self._wanted = uvloop.run(load.expect(primary.url))
        self._sides = {"bare": bare.clients, "ill": proxy.clients}
        self.received = 0
        self.processes = Processes(proxy)
        self.tallies: dict[str, load.Tally] = {name: load.Tally() for name in self._sides}
        self.lag: dict[str, load.Tally] = {name: load.Tally() for name in self._sides}

    def order(self, what: str) -> None:
        self._order.write_text(what, encoding="ascii")

    def load(self, rounds: int = ROUNDS) -> None:
        """Blocks of requests through both proxies in turn, and some one after the other."""
        for _ in range(rounds):
            for at_once, count, into in ((8, BLOCK, self.tallies), (1, ALONE, self.lag)):
                found = uvloop.run(load.alternate(self._sides, 1, count, self._wanted, at_once=at_once))
                for name, tally in found.items():
                    _add(into[name], tally)
            self.received += BLOCK + ALONE

    def over(self, figure: Figure, row: str, name: str) -> dict[str, int]:
        """Nobody noticed; how everything ended."""
        seen = settled(self.proxy, self.received, 90)
        ended = seen.ended("cand")
        lag = 1e3 * (load.quantile(self.lag["ill"].first, 0.99) - load.quantile(self.lag["bare"].first, 0.99))
        words = "; ".join(
            f"{side} {one.failed} of {one.asked} failed, {one.in_words()}" for side, one in self.tallies.items()
        )
        figure(row, f"{name}: {words}; one at a time p99 {lag:+.1f} ms of bare; {ended}")
        for tally in (*self.tallies.values(), *self.lag.values()):
            assert (tally.failed, tally.wrong) == (0, [])
        assert lag < 200.0, f"p99 of the primary's path rose by {lag:.0f} ms"  # 20 ms on a quiet machine
        assert sum(ended.values()) == self.received
        return ended


def _add(into: load.Tally, more: load.Tally) -> None:
    into.asked += more.asked
    into.failed += more.failed
    into.first += more.first
    into.total += more.total
    into.wrong += more.wrong
