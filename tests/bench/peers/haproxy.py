"""HAProxy (Debian): one thread, connections to the engine reused, events passed on at once. It has no mirror of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests import programs
from tests.bench.peers.peer import Peer, Setting, free_port, running

_FILE = """
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  option http-no-delay
  http-reuse always
frontend clients
  bind 127.0.0.1:{port} backlog 4096
  default_backend engine
backend engine
  server primary 127.0.0.1:{primary}
"""


@contextlib.contextmanager
def plain(setting: Setting) -> Iterator[Peer]:
    """As above."""
    port = free_port()
    file = setting.folder / "haproxy.cfg"
    file.write_text(_FILE.format(port=port, primary=setting.primary))
    haproxy = programs.debian("haproxy", "haproxy")
    with running([haproxy, "-db", "-f", file], port=port, folder=setting.folder) as pid:
        yield Peer("haproxy", port, pid, mirrors=False)
