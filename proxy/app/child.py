"""Entry of a child process: ``python -m proxy.app.child INCARNATION``, so that a list of processes tells judge from traffic.

House rules. What it is to be and the configuration come on standard input, and so does every later one (``orders``); listening sockets come as inherited descriptors.
A child says ``ready`` on standard output and ends when told, or when its parent dies.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from proxy import logs
from proxy.app.orders import Assignment, Order, Orders, read_assignment
from proxy.app.state import hold_judge
from proxy.config_file import ConfigError
from proxy.switch import mirrored

_PR_SET_PDEATHSIG = 1  # prctl(2)
_OOM_FIRST = 800  # of 1000: when memory runs out the judge goes before anything that answers clients

_PREDECESSOR = (
    60.0  # seconds for a judge whose supervisor was killed to finish: it takes 10 to settle, and the store its own time
)

logger = logging.getLogger("parhelion")


#: Exit status of a child that cannot work with what it was given, and has said why in one line.
SAID = 2


class Unusable(Exception):
    """What this child was given cannot be used; the text is one line for a person."""


def main() -> int:
    """Run one child until it is told to stop."""
    parent = os.getppid()
    try:
        assignment = read_assignment(sys.stdin.fileno())
    except EOFError:
        return 1
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before we asked to be told
        return 1
    # A Ctrl-C at the terminal goes to the supervisor, which stops us in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    logs.set_up()
    logging.getLogger("parhelion").name = f"parhelion.{assignment.incarnation}"
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(assignment))
    except Unusable as error:
        sys.stderr.write(f"parhelion: {error}\n")
        return SAID


async def _run(assignment: Assignment) -> int:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return await (_traffic if assignment.role == "traffic" else _judge)(assignment, stop)


async def _traffic(assignment: Assignment, stop: asyncio.Event) -> int:
    from proxy.traffic.process import Live  # the traffic process never imports the comparison

    assert assignment.descriptor is not None
    sock = socket.socket(fileno=assignment.descriptor)
    try:
        live = Live(mirrored(assignment.config, assignment.switch), assignment.incarnation)
        await _follow(lambda order: live.reconfigure(mirrored(order.config, order.switch)))
        await live.run(sock, _ready, stop)
    except (ValueError, OSError) as error:
        raise Unusable(str(error)) from None
    return 0


async def _judge(assignment: Assignment, stop: asyncio.Event) -> int:
    _stand_back()
    from proxy.judge.process import Judge
    from proxy.ledger.store_error import StoreError

    lock = await _alone(Path(assignment.config.state))
    try:
        judge = Judge(assignment.config, assignment.incarnation, assignment.switch)
    except StoreError as error:
        raise Unusable(f"records.url: {error}") from None
    await _follow(lambda order: judge.reconfigure(order.config, order.switch))
    try:
        return await judge.run(_ready, stop)
    finally:
        os.close(lock)


async def _alone(state: Path) -> int:
    try:
        return await hold_judge(state, _PREDECESSOR)
    except (OSError, ConfigError) as error:
        raise Unusable(str(error)) from None


async def _follow(change: Callable[[Order], None]) -> None:
    """Obey orders from now on; one that cannot be obeyed changes nothing."""

    def obey(order: Order) -> None:
        try:
            change(order)
        except Exception:
            logger.exception("order_refused")
            _say(f"refused {order.number}")
        else:
            _say(f"obeyed {order.number}")

    await asyncio.get_running_loop().connect_read_pipe(lambda: Orders(obey), sys.stdin)


def _ready() -> None:
    _say("ready")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _stand_back() -> None:
    """The judge yields processor and memory to whatever answers clients; where the system forbids it, it runs as it is."""
    try:
        os.nice(10)
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123 - a kernel file, one write
            file.write(str(_OOM_FIRST))
    except OSError:
        logs.say(logger, logging.INFO, "priority_unchanged")


if __name__ == "__main__":
    sys.exit(main())
