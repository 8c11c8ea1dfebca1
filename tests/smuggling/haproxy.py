"""HAProxy (Debian), as lenient as it can be made: invalid requests and replies accepted, connections to the next hop shared by all clients."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from tests import programs
from tests.smuggling.launch import Routes, running

_WHOLE = """
global
  maxconn 500
  tune.bufsize 131072
  tune.http.maxhdr 256
defaults
  mode http
  timeout connect 5s
  timeout client 10s
  timeout server 10s
  timeout http-request 10s
  option accept-invalid-http-request
  option accept-invalid-http-response
  http-reuse always
  retries 0
"""
_ROUTE = """
frontend from{listen}
  bind 127.0.0.1:{listen}
  default_backend to{listen}
backend to{listen}
  server next 127.0.0.1:{upstream}
"""


def serving(routes: Routes, folder: Path) -> AbstractContextManager[None]:
    """One HAProxy for all routes."""
    program = programs.debian("haproxy", "haproxy")
    file = folder / "haproxy.cfg"
    file.write_text(
        _WHOLE + "".join(_ROUTE.format(listen=listen, upstream=upstream) for listen, upstream in routes.items())
    )
    return running([program, "-db", "-f", file], list(routes), folder)
