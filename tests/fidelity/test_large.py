"""A hundred megabytes up and down: the same bytes, and no process of the product grows by them, though the exchange is sampled."""

from __future__ import annotations

import hashlib
import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.fidelity.sink import PIECE
from tests.running import parhelion, serving

SIZE = 100 << 20
MEGABYTE = 1 << 20


def peaks(session: int) -> dict[int, int]:
    """The most memory each process of a session ever held, in bytes, by process id."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                status = (stat.parent / "status").read_text()
                found[int(stat.parent.name)] = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        except (OSError, ValueError, IndexError):
            continue
    return found


def pieces() -> Iterator[bytes]:
    for _ in range(SIZE // len(PIECE)):
        yield PIECE


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_large_bodies_pass_without_being_held(
    chunked: bool, tmp_path: Path, figure: Callable[[str, str], None]
) -> None:
    shadow = {"name": "candidate", "url": "http://127.0.0.1:9"}
    with serving("tests.fidelity.sink") as engine, parhelion(tmp_path, engine, [shadow]) as proxy:
        connection = http.client.HTTPConnection(urlsplit(proxy.clients).netloc, timeout=120)
        connection.request("POST", "/v1/chat/completions", body=b"{}", headers={"Content-Type": "application/json"})
        assert connection.getresponse().read()
        before = peaks(proxy.session)
        assert len(before) == 3
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(SIZE)}
        connection.request("POST", "/v1/chat/completions", body=pieces(), headers=framing, encode_chunked=chunked)
        assert json.loads(connection.getresponse().read()) == {
            "bytes": SIZE,
            "sha256": hashlib.sha256(PIECE * (SIZE // len(PIECE))).hexdigest(),
        }
        connection.request("GET", f"/{SIZE}")
        reply, told = connection.getresponse(), hashlib.sha256()
        while piece := reply.read(MEGABYTE):
            told.update(piece)
        assert told.hexdigest() == hashlib.sha256(PIECE * (SIZE // len(PIECE))).hexdigest()
        connection.close()
        growth = {pid: (peak - before[pid]) / MEGABYTE for pid, peak in peaks(proxy.session).items()}
        framed = "chunked" if chunked else "with a length"
        figure(
            "row 1",
            f"100 MB up ({framed}) and down, sampled: no process's peak memory grew by more than {max(growth.values()):.1f} MB",
        )
        assert max(growth.values()) < 8 + 12, growth  # a capture may hold its 8 MiB before it is given up
        assert proxy.metric("parhelion_sampled_total") == 2
