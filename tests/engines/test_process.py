"""Processes under guard: none is left, however its owner goes."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engines import process
from engines.process import ROOT, EngineError

#: Writes the pids of itself, a child and a grandchild that leaves the session and loses its parent; each sleeps for a minute.
FAMILY = """
import os, sys, time
def note():
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
note()
if os.fork() == 0:
    note()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note()
            time.sleep(60)
        os._exit(0)
    time.sleep(60)
    os._exit(0)
if len(sys.argv) > 2:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""
#: Starts an engine through the real code, says the guard is up, and waits to be killed.
OWNER = """
import sys, time
from engines.process import start
engine = start("family", [sys.executable, "-c", sys.argv[1], sys.argv[2]], url="http://127.0.0.1:9")
time.sleep(60)
"""


def family(path, count=3):
    """The pids in the file once there are ``count``."""
    limit = time.monotonic() + 20
    while time.monotonic() < limit:
        pids = [int(line) for line in path.read_text().split()] if path.exists() else []
        if len(pids) == count:
            return pids
        time.sleep(0.02)
    raise AssertionError(f"not all started: {pids}")


def alive(pids):
    return [pid for pid in pids if lives(pid)]


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended, before or while it was looked at
        return False


def gone(pids):
    limit = time.monotonic() + 20
    while time.monotonic() < limit and alive(pids):
        time.sleep(0.02)
    return not alive(pids)


def begin(code, *arguments, log=None, port=9):
    return process.start(
        "toy", [sys.executable, "-c", code, *map(str, arguments)], url=f"http://127.0.0.1:{port}", log=log
    )


@pytest.mark.parametrize("ready", [True, False])
def test_stop_ends_the_whole_family(tmp_path, ready):
    with begin(FAMILY, tmp_path / "pids") as engine:
        pids = family(tmp_path / "pids")
        assert engine.pid == pids[0]
        assert len(alive(pids)) == 3
        engine.ready = ready
        assert engine.stop() == 128 + (signal.SIGTERM if ready else signal.SIGKILL)
        assert not alive(pids)
        assert not engine.running


def test_an_engine_that_ignores_sigterm_is_killed_after_the_grace(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE", 0.3)
    with begin(FAMILY, tmp_path / "pids", "stubborn") as engine:
        pids = family(tmp_path / "pids")
        time.sleep(0.2)  # until the signal is ignored
        engine.ready = True
        assert engine.stop() == 128 + signal.SIGKILL
        assert not alive(pids)


def test_an_engine_that_ends_by_itself_takes_its_family_along(tmp_path):
    ending = FAMILY.rpartition("time.sleep(60)")[0] + "time.sleep(0.5)\nsys.exit(7)\n"
    with begin(ending, tmp_path / "pids") as engine:
        pids = family(tmp_path / "pids")
        assert engine.wait() == 7
        assert not alive(pids)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_an_owner_that_was_killed(tmp_path, number):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, FAMILY, str(tmp_path / "pids")], env=environment)
    try:
        pids = family(tmp_path / "pids")
        owner.send_signal(number)
        owner.wait(20)
        assert gone(pids)
    finally:
        owner.kill()
        owner.wait()


def test_a_killed_guard_takes_the_engine_along(tmp_path):
    with begin(
        "import time, sys, os; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)", tmp_path / "pids"
    ) as engine:
        pids = family(tmp_path / "pids", 1)
        guard = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(guard, signal.SIGKILL)
        assert gone(pids)
        assert engine.stop() == -signal.SIGKILL


def test_output_goes_to_the_log_and_its_end_into_the_error(tmp_path):
    engine = begin(
        "print('first line'); raise SystemExit('cannot find the weights')", log=tmp_path / "logs" / "toy.log"
    )
    with pytest.raises(
        EngineError,
        match=r"toy ended with status 1 before it was ready; the end of its log .*toy.log:\n  first line\n  cannot find the weights",
    ):
        engine.wait_ready(20)
    engine.stop()
    assert "first line" in (tmp_path / "logs" / "toy.log").read_text()


def test_an_engine_that_never_gets_ready_is_stopped(tmp_path):
    engine = begin("import time; time.sleep(60)", port=process.free_port(), log=tmp_path / "toy.log")
    with pytest.raises(EngineError, match="toy was not ready after 0 s"):
        engine.wait_ready(0.3)
    assert not engine.running


def test_a_command_that_does_not_exist(tmp_path):
    engine = process.start("toy", [str(tmp_path / "none")], url="http://127.0.0.1:9", log=tmp_path / "toy.log")
    with pytest.raises(EngineError, match=r"(?s)status 127 .*No such file"):
        engine.wait_ready(20)
    engine.stop()


def test_a_free_port_is_free_and_a_taken_one_is_not():
    port = process.free_port()
    process.require_free("127.0.0.1", port)
    with (
        socket.create_server(("127.0.0.1", port), reuse_port=True),
        pytest.raises(EngineError, match=rf"127\.0\.0\.1:{port}.*choose another --port"),
    ):
        process.require_free("127.0.0.1", port)


def test_environment_and_packages_reach_the_engine(tmp_path):
    code = "import engines.process, os, sys; open(sys.argv[1], 'w').write(os.environ['WORD'])"
    command = [sys.executable, "-c", code, str(tmp_path / "word")]
    engine = process.start("toy", command, url="http://127.0.0.1:9", environment={"WORD": "given"})
    assert engine.wait() == 0
    engine.stop()
    assert (tmp_path / "word").read_text() == "given"
