"""What an engine can do wrong, one small file each: ``async with Engine(FAULTS["hang"]) as engine`` serves it.

A refused connection needs no server: ``refused_url`` gives an address nobody listens on.
"""

from __future__ import annotations

import socket

from tests.faults import (
    cut,
    deaf,
    endless_head,
    endless_stream,
    garbage,
    half_close,
    hang,
    huge_line,
    not_json,
    reset,
    server_error,
    silent_close,
    trickle,
)
from tests.wire.engine import Behaviour

FAULTS: dict[str, Behaviour] = {
    module.__name__.rpartition(".")[2]: module.behave
    for module in (
        cut,
        deaf,
        endless_head,
        endless_stream,
        garbage,
        half_close,
        hang,
        huge_line,
        not_json,
        reset,
        server_error,
        silent_close,
        trickle,
    )
}


def refused_url() -> str:
    """A loopback URL whose port was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"
