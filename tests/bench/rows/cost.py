"""Goals 4 and 5: user instructions and system calls a request."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import programs
from tests.bench import instructions, processes
from tests.bench.measure import wait_read
from tests.bench.native import Work, load
from tests.bench.payloads import json_reply, request, sse_reply
from tests.bench.peers import nginx, parhelion
from tests.bench.peers.peer import Start
from tests.bench.ratio import Verdict
from tests.bench.stand import Stand
from tests.bench.table import Result

_INSTRUCTIONS = {"json_1k": ("1 KB", 2.5), "sse_128": ("128 events", 3.0)}
#: Calls that move bytes, wait for them or look after sockets; those of the store's file are not what is asked for.
_CALLS = {
    "read",
    "write",
    "readv",
    "writev",
    "recvfrom",
    "sendto",
    "recvmsg",
    "sendmsg",
    "accept",
    "accept4",
    "connect",
    "socket",
    "shutdown",
    "close",
    "epoll_wait",
    "epoll_pwait",
    "epoll_ctl",
    "poll",
    "setsockopt",
    "getsockopt",
    "getpeername",
    "getsockname",
    "ioctl",
    "timerfd_settime",
    "eventfd2",
    "io_uring_enter",
}


def user_instructions(stand: Stand) -> Iterator[Result]:
    """Goal 4: user instructions of the process that answers clients; exact to a fraction of a per cent, so there are no pairs."""
    with tempfile.TemporaryDirectory(dir=stand.folder) as folder:
        Path(folder).chmod(0o755)
        found = instructions.measured(Path(folder))
    for name, (title, bound) in _INSTRUCTIONS.items():
        one = found[name]
        verdict = Verdict.MET if one["ratio"] <= bound else Verdict.NOT_MET
        note = f"{one['parhelion']:,.0f} / {one['nginx-mirror']:,.0f} instructions"
        row = f"user instructions a request, {title}, live path / nginx-mirror"
        yield Result(4, row, f"<= {bound:g}", verdict, figure=f"{one['ratio']:.2f}", note=note)


def system_calls(stand: Stand) -> Iterator[Result]:
    """Goal 5: system calls of all processes, without those for the store's files."""
    cases = (
        ("a mirrored request", 9.0, Work(request(1024), connections=1, seconds=30, requests=300), json_reply(1300), 1),
        (
            "a chunk of 5 ms, both streams",
            5.0,
            Work(request(1024, stream=True), connections=4, seconds=30, requests=24),
            sse_reply(16, pace=5000),
            16,
        ),
    )
    for title, bound, work, reply, parts in cases:
        stand.engine.answer(reply)
        ours, theirs = (_calls(stand, start, work) for start in (parhelion.all_mirrored, nginx.mirror))
        stand.engine.answer(json_reply(1300))
        each = ours / work.requests / parts
        verdict = Verdict.MET if each <= bound else Verdict.NOT_MET
        note = f"nginx-mirror {theirs / work.requests / parts:.1f}"
        yield Result(5, f"system calls {title}", f"<= {bound:g}", verdict, figure=f"{each:.1f}", note=note)


def _calls(stand: Stand, start: Start, work: Work) -> int:
    peer = stand.peer(start)
    assert peer is not None
    load(peer.port, Work(work.body, connections=1, seconds=5, requests=4))
    processes.settled(peer.pid)
    stand.engine.clear()
    with tempfile.NamedTemporaryFile(dir=stand.folder) as file:
        words = [str(programs.debian("strace", "strace")), "-f", "-c", "-U", "name,calls", "-o", file.name]
        for pid in processes.tree(peer.pid):
            words += ["-p", str(pid)]
        tracer = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        time.sleep(1.0)
        load(peer.port, work)
        wait_read(stand.engine)
        processes.settled(peer.pid)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(30)
        counted = re.findall(r"^\s*(\w+)\s+(\d+)\s*$", Path(file.name).read_text(), re.MULTILINE)
    return sum(int(calls) for name, calls in counted if name in _CALLS)
