"""Stands between Parhelion and an engine it started, so that no process of the engine outlives the one who asked for it.

``python guard.py GRACE COMMAND...`` starts the command in a session of its own and ends with its exit status. It ends the command, and *every* process that
descends from it, when its own standard input closes (the parent is gone, however it went), or on SIGTERM or SIGINT: SIGTERM to the command, ``GRACE`` seconds,
then SIGKILL to what is left. SIGQUIT skips the grace. As a "child subreaper" it inherits processes whose parent has died, so none escapes by being orphaned.

House rules: standard library only, one thread, no polling; run as a file by any Python. Linux only, as the engines are.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # prctl(2)
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """Run the command under guard; the exit status is the command's, 128 + signal when a signal ended it."""
    grace, command = float(arguments[0]), arguments[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    alarm, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    child = _start(libc, command)
    status = _watch(child, alarm, grace)
    _end_all()
    return status


def _start(libc: ctypes.CDLL, command: list[str]) -> int:
    """Fork and execute; the engine gets no terminal input, and dies with this process should that be killed."""
    child = os.fork()
    if child:
        return child
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.execvp(command[0], command)  # noqa: S606 - the caller's own command, without a shell on purpose
    except OSError as failed:
        sys.stderr.write(f"{command[0]}: {failed.strerror}\n")
    finally:
        os._exit(127)


def _watch(child: int, alarm: int, grace: float) -> int:
    """Wait until the command has ended, by itself or because it was told to; its exit status."""
    sources = [0, alarm]
    limit: float | None = None
    while True:
        if (status := _reap(child)) is not None:
            return status
        left = None if limit is None else limit - time.monotonic()
        if left is not None and left <= 0:
            _kill(child, signal.SIGKILL)
            limit, left = None, None
        readable, _, _ = select.select(sources, [], [], left)
        told: set[int] = set()
        if alarm in readable:
            told = set(os.read(alarm, 1024))
        if 0 in readable and not os.read(0, 1024):
            sources.remove(0)
            told.add(signal.SIGTERM)
        if signal.SIGQUIT in told:
            _kill(child, signal.SIGKILL)
        elif told & {signal.SIGTERM, signal.SIGINT} and limit is None:
            _kill(child, signal.SIGTERM)
            limit = time.monotonic() + grace


def _reap(child: int) -> int | None:
    """Collect every process that has ended; the command's exit status when it is among them."""
    found = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found if found is not None else 0
        if ended == 0:
            return found
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code


def _end_all() -> None:
    """Kill what the command has left behind and wait for its end."""
    while remaining := _children(os.getpid()):
        for process in remaining:
            _kill(process, signal.SIGKILL)
        # Their own children come to us as they die: look again until nobody is left.
        for process in remaining:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)


def _children(parent: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()]


def _kill(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
