"""However the demo is ended, nothing of it stays: no engine, no proxy, no file with prompts in it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.engine_fixtures import missing
from tests.running import ROOT, until

pytestmark = [pytest.mark.slow, pytest.mark.llama]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_demo_that_is_stopped_takes_everything_with_it(number: signal.Signals, smollm2_q4: Path) -> None:
    assert smollm2_q4.exists()
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as short:  # a socket's path holds 108 bytes
        check(number, Path(short))


def check(number: signal.Signals, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "proxy.cli", "demo", "--requests", "40"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    )
    assert demo.stdout is not None
    assert demo.stderr is not None
    with demo.stdout, demo.stderr:
        found = next(
            (
                match
                for line in demo.stdout
                if (match := re.search(r"clients http://127.0.0.1:(\d+).*metrics http://127.0.0.1:(\d+)", line))
            ),
            None,
        )
        if found is None:
            said = demo.stderr.read().strip()
            demo.wait()
            missing(said) if "is not installed" in said else pytest.fail(said)
        demo.send_signal(number)
        status = demo.wait(60)
    assert status == (-signal.SIGKILL if number is signal.SIGKILL else 130)
    for port in map(int, found.groups()):
        until(lambda port=port: not listening(port), 30, f"port {port} free")  # type: ignore[misc]
    if number is not signal.SIGKILL:  # nobody can clean up after that
        assert not list(tmp_path.glob("parhelion-demo-*"))


def listening(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
