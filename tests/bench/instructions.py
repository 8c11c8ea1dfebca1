"""User instructions a request, counted by callgrind: the same to a fraction of a per cent on any machine of one kind, however busy it is.

``python -m tests.bench.instructions`` measures nginx-mirror and Parhelion's traffic process (everything mirrored, the hand-over read by somebody who does
nothing with it), one connection, and prints the ratios; ``--renew`` writes them into ratchet.json; ``--keep FOLDER`` keeps callgrind's files, to be
read with callgrind_annotate.

House rules. Warm-up and start are left out: the counts are set to zero after ``_WARM`` requests and read after the last one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from proxy.app.orders import Assignment, encode
from proxy.config import Config
from proxy.counters import Receipt
from tests import programs
from tests.bench.native import Engine, Reply, Work, engine, load
from tests.bench.payloads import json_reply, request, sse_reply
from tests.bench.peers import nginx
from tests.bench.peers.peer import Setting, free_port

RATCHET = Path(__file__).parent / "ratchet.json"
ROOT = Path(__file__).parents[2]
_START = 240.0  # seconds: an interpreter starts fifty times slower under valgrind, and the machine may be busy
_WARM = 40


@dataclass(frozen=True)
class Case:
    """One workload: so many requests are counted."""

    name: str
    body: bytes
    reply: Reply
    requests: int


CASES = (
    Case("json_1k", request(1024), json_reply(1300), 300),
    Case("sse_128", request(1024, stream=True), sse_reply(128), 100),
)


class Counted:
    """A program under callgrind that serves on ``port``; the context ends it."""

    def __init__(self, words: Sequence[str | Path], port: int, folder: Path, **options: Any) -> None:
        self._out = folder / "callgrind.out"
        self.port = port
        valgrind = [
            str(programs.debian("valgrind", "valgrind")),
            "--tool=callgrind",
            f"--callgrind-out-file={self._out}",
        ]
        self.log = (folder / "valgrind.log").open("wb")
        self.process = subprocess.Popen(
            [*valgrind, *map(str, words)], cwd=folder, stderr=self.log, **({"stdout": self.log} | options)
        )

    def wait(self) -> None:
        """Until it serves: has said so, if it says so, and takes a connection."""
        limit = time.monotonic() + _START
        if self.process.stdout is not None:
            heard, _, _ = select.select([self.process.stdout], [], [], _START)
            said = self.process.stdout.readline() if heard else b"nothing"
            assert said == b"ready\n", f"{said!r}: {self._said()}"
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert self.process.poll() is None, self._said()
            assert time.monotonic() < limit, f"nothing serves on port {self.port} after {_START} s"
            time.sleep(0.1)

    def _said(self) -> str:
        return Path(self.log.name).read_text(errors="replace")

    def _control(self, what: str) -> None:
        done = subprocess.run(
            ["callgrind_control", what, str(self.process.pid)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr or done.stdout

    def count(self, case: Case) -> float:
        """Instructions a request."""
        _ask(self.port, case, _WARM)
        self._control("--zero")
        _ask(self.port, case, case.requests)
        time.sleep(0.2)  # what is handed over in batches leaves
        self._control("--dump")
        newest = max(self._out.parent.glob("callgrind.out.*"), key=lambda path: path.stat().st_mtime_ns)
        total = re.search(r"^(?:summary|totals): (\d+)", newest.read_text(errors="replace"), re.MULTILINE)
        assert total is not None, f"no total in {newest}"
        newest.rename(newest.with_name(f"{case.name}.callgrind"))
        return int(total[1]) / case.requests

    def end(self) -> None:
        """Stop it; a program that does not end in time is killed."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def _ask(port: int, case: Case, requests: int) -> None:
    took = load(port, Work(case.body, connections=1, seconds=_START, requests=requests, grace=5))
    assert (took["done"], took["bad_status"]) == (requests, 0), took


def _nginx(setting: Setting) -> Counted:
    port = free_port()
    file = nginx.configure(setting, port, mirrored=True)
    words = [programs.debian("nginx-light", "nginx"), "-p", setting.folder, "-c", file, "-g", "master_process off;"]
    return Counted(words, port, setting.folder)


def _traffic(setting: Setting) -> Counted:
    """The traffic process as the supervisor starts it: its assignment on standard input, its socket inherited."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    state = setting.folder / "state"
    state.mkdir()
    _sink(state / "judge.sock")
    config = msgspec.convert(
        {
            "primary": {"url": f"http://127.0.0.1:{setting.primary}"},
            "shadows": [{"name": "shadow", "url": f"http://127.0.0.1:{setting.shadow}"}],
            "sampling": {"rate": 1.0, "salt": "bench"},
            "state": str(state),
            "drain": 1,
        },
        Config,
    )
    assignment = Assignment(config, "traffic", "traffic0-bench", descriptor=listener.fileno())
    counted = Counted(
        [sys.executable, "-P", "-m", "proxy.app.child"],
        listener.getsockname()[1],
        setting.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(listener.fileno(),),
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
    )
    assert counted.process.stdin is not None
    counted.process.stdin.write(encode(assignment))
    counted.process.stdin.flush()  # and left open: later orders would come this way
    listener.close()
    return counted


def _sink(path: Path) -> None:
    """Read whatever is handed over, and do nothing with it; ends with this process."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def drink() -> None:
        while True:
            line, _ = server.accept()
            receipt = Receipt(path.parent / "counters" / "traffic0-bench.bin")
            receipt.count = 1 << 62  # all that will ever come
            receipt.close()
            with line:
                while line.recv(1 << 20):
                    pass

    threading.Thread(target=drink, daemon=True).start()


@contextlib.contextmanager
def _counted(counted: Counted) -> Iterator[Counted]:
    try:
        counted.wait()
        yield counted
    finally:
        counted.end()


def measured(folder: Path, cases: Sequence[Case] = CASES) -> dict[str, dict[str, float]]:
    """For each case: instructions a request of nginx-mirror and of Parhelion, and their ratio."""
    found: dict[str, dict[str, float]] = {case.name: {} for case in cases}
    with engine("primary", "shadow") as fake:
        for name, start in (("nginx-mirror", _nginx), ("parhelion", _traffic)):
            place = folder / name
            place.mkdir(parents=True)
            with _counted(start(Setting(place, fake.port["primary"], fake.port["shadow"]))) as counted:
                for case in cases:
                    _answer(fake, case)
                    found[case.name][name] = counted.count(case)
    for one in found.values():
        one["ratio"] = one["parhelion"] / one["nginx-mirror"]
    return found


def _answer(fake: Engine, case: Case) -> None:
    fake.answer(case.reply)
    fake.clear()


def main() -> int:
    """Measure and print; with ``--renew`` write the ratios down."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.instructions", description=main.__doc__)
    parser.add_argument("--renew", action="store_true", help="write the ratios into ratchet.json")
    parser.add_argument("--keep", type=Path, help="folder for callgrind's files (made anew)")
    said = parser.parse_args()
    committed = json.loads(RATCHET.read_text()) if RATCHET.exists() else {}
    with tempfile.TemporaryDirectory(prefix="parhelion-bench-") as folder:
        if said.keep:
            shutil.rmtree(said.keep, ignore_errors=True)
        found = measured((said.keep or Path(folder)).absolute())
    for name, one in found.items():
        was = f"committed {committed[name]:.3f}" if name in committed else "nothing committed"
        print(
            f"{name:10} parhelion {one['parhelion']:>10,.0f}  nginx-mirror {one['nginx-mirror']:>9,.0f}  ratio {one['ratio']:.3f}  ({was})"
        )
    if said.renew:
        RATCHET.write_text(json.dumps({name: round(one["ratio"], 3) for name, one in found.items()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
