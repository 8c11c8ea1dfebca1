"""The listening sockets of the live path: made once by the supervisor, inherited by every incarnation of a traffic process.

House rules. The supervisor never accepts; it keeps the sockets open so that connections wait in the queue while a process is replaced.
"""

from __future__ import annotations

import errno
import socket

from proxy.config_file import ConfigError
from proxy.config_load import address

_BACKLOG = 4096  # Envoy's and HAProxy's order; the kernel caps it at net.core.somaxconn


def listen(listen_on: str, processes: int) -> list[socket.socket]:
    """One socket per process on the same address. Raises ConfigError naming the key."""
    host, port = address(listen_on, "listen")
    first = _bind(host, port, shared=False)
    if processes == 1:
        first.listen(_BACKLOG)
        return [first]
    port = first.getsockname()[1]
    first.close()  # it only proved that nobody else has the port: SO_REUSEPORT would let two parhelions share it unseen
    sockets = [_bind(host, port, shared=True) for _ in range(processes)]
    for sock in sockets:
        sock.listen(_BACKLOG)
    return sockets


def _bind(host: str, port: int, *, shared: bool) -> socket.socket:
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        raise ConfigError(f"listen: {host!r} is not an address of this machine") from None
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind(where)
    except OSError as error:
        sock.close()
        raise ConfigError(f"listen: {host}:{port} {why(error)}") from None
    sock.setblocking(False)
    return sock


def why(error: OSError) -> str:
    """What keeps an address from being listened on, and what to do, for a person."""
    match error.errno:
        case errno.EADDRINUSE:
            return "is in use; stop what listens there, or choose another port"
        case errno.EACCES:
            return "needs a privilege; choose a port above 1023"
        case errno.EADDRNOTAVAIL:
            return "is not an address of this machine; use 0.0.0.0 or one of its addresses"
        case _:
            return f"cannot be bound: {error.strerror}"
