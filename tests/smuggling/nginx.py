"""nginx (Debian), as lenient as it can be made: invalid names let through, bodies streamed, connections to the next hop kept."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from tests import programs
from tests.smuggling.launch import Routes, running

_WHOLE = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; client_max_body_size 0; ignore_invalid_headers off; underscores_in_headers on; merge_slashes off;
  large_client_header_buffers 8 100k; client_header_buffer_size 100k; client_header_timeout 10s; client_body_timeout 10s; lingering_close off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  {servers}
}}
"""
_SERVER = """
  upstream to{listen} {{ server 127.0.0.1:{upstream}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{listen};
    location / {{
      proxy_pass http://to{listen}; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off; proxy_buffering off;
      proxy_next_upstream off;
    }}
  }}
"""


def serving(routes: Routes, folder: Path) -> AbstractContextManager[None]:
    """One nginx for all routes."""
    program = programs.debian("nginx-light", "nginx")
    servers = "".join(_SERVER.format(listen=listen, upstream=upstream) for listen, upstream in routes.items())
    file = folder / "nginx.conf"
    file.write_text(_WHOLE.format(folder=folder, servers=servers))
    return running([program, "-p", folder, "-c", file], list(routes), folder)
