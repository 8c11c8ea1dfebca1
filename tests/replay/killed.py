"""Runs ``parhelion replay`` again and again, each time killed (SIGKILL) after a random while, and at last to its end; prints how often it was killed.

    python -m tests.replay.killed SEED KILLS LONGEST FILE --primary ...

Everything is imported once; each life is a fork.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

from proxy import cli
from proxy.app import replay_run

assert replay_run


def _life(words: list[str]) -> int:
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        sys.argv = ["parhelion", "replay", *words]
        cli.main()
    return child


def main(seed: str, kills: str, longest: str, *words: str) -> None:
    """Kill and begin again, then let it end."""
    draw = random.Random(seed)
    killed = 0
    for _ in range(int(kills)):
        child = _life([*words])
        time.sleep(draw.uniform(0.02, float(longest)))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    status = os.waitstatus_to_exitcode(os.waitpid(_life([*words]), 0)[1])
    print(killed, status, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
