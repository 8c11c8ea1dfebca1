"""What the isolation tests share: a primary, a proxy without shadows beside it, certificates."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.demo.proxy_process import ProxyProcess
from tests.isolation.stage import Sick, sick
from tests.running import parhelion


@pytest.fixture(scope="package")
def primary() -> Iterator[Sick]:
    """An engine that stays well; its streams come event by event, half a millisecond apart."""
    with sick(pace=0.0005) as engine:
        yield engine


@pytest.fixture(scope="package")
def bare(primary: Sick, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    """A proxy without shadows in front of the same primary: what the others are held against."""
    with parhelion(tmp_path_factory.mktemp("bare"), primary.url, []) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``trusted.pem`` and ``untrusted.pem``: key and self-signed certificate for loopback; ``authority.pem`` holds the trusted one alone."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("trusted", "untrusted"):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/key", "-out", f"{folder}/crt"]
        subprocess.run(command, check=True, capture_output=True)
        (folder / f"{name}.pem").write_bytes((folder / "key").read_bytes() + (folder / "crt").read_bytes())
        if name == "trusted":
            (folder / "authority.pem").write_bytes((folder / "crt").read_bytes())
    return folder


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library ``disk.c``, built."""
    source, path = Path(__file__).with_name("disk.c"), tmp_path_factory.mktemp("disk") / "disk.so"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o", str(path), str(source)]
    subprocess.run(command, check=True)
    return path
