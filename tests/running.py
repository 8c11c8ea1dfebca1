"""Real processes for tests: toy engines and a whole ``parhelion serve``, each a context manager, none outliving its test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import orjson

from proxy.demo.proxy_process import ProxyProcess

ROOT = Path(__file__).parents[1]


def toy(module: str = "tests.toy", **options: Any) -> AbstractContextManager[str]:
    """One toy engine; its base URL. ``module``: ``tests.toy_routes`` has more routes."""
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return serving(module, *words)


def faulty(name: str) -> AbstractContextManager[str]:
    """An engine with one of the faults of ``tests.faults``; its base URL."""
    return serving("tests.faults", name)


@contextmanager
def serving(module: str, *words: str) -> Iterator[str]:
    """A module that serves and says its URL first, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def scripted(dialect: str, script: Path | None = None, port: int = 0) -> Iterator[str]:
    """A scripted engine as a user would start it; its base URL."""
    words = ["engine", "scripted", "--dialect", dialect, "--port", str(port)]
    words += ["--script", str(script)] if script else []
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "proxy.cli", *words],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        said = process.stdout.readline().decode()
        assert " ready: http://" in said, said
        yield said.split(" ready: ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@contextmanager
def parhelion(directory: Path, engine: str, shadows: list[dict[str, Any]], **settings: Any) -> Iterator[ProxyProcess]:
    """A running proxy on free ports, mirroring everything."""
    whole = {
        "listen": "127.0.0.1:0",
        "admin": "127.0.0.1:0",
        "state": str(directory / "state"),
        "drain": 5,
        "primary": {"url": engine},
        "shadows": shadows,
        "sampling": {"rate": 1.0},
        "spool": {"path": str(directory / "spool")},
        "records": {"url": f"sqlite:///{directory / 'records.db'}", "content": "text"},
    }
    with ProxyProcess(whole | settings, directory) as running:
        yield running


def post(url: str, body: bytes | dict[str, Any], **headers: str) -> tuple[int, dict[str, str], bytes]:
    """One POST; status, headers that identify the reply, body. An error status is an answer too."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    named = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=data, headers=named, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, _stable(reply.headers), reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _stable(error.headers), error.read()


def _stable(headers: Any) -> dict[str, str]:
    return {
        name.lower(): value
        for name, value in headers.items()
        if name.lower() not in {"date", "connection", "keep-alive"}
    }


def until(condition: Callable[[], bool], seconds: float = 30.0, what: str = "it") -> None:
    """Poll until true; fails the test after ``seconds``."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"{what} did not come true within {seconds} s"
        time.sleep(0.05)
