"""nginx (Debian): as a plain proxy, and with its mirror. One worker, connections to engines kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests import programs
from tests.bench.peers.peer import Peer, Setting, free_port, running

_PLAIN = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
  access_log off; keepalive_requests 1000000000; client_max_body_size 0; client_body_buffer_size 2m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream primary {{ server 127.0.0.1:{primary}; keepalive 1024; keepalive_requests 1000000000; }}
  upstream shadow {{ server 127.0.0.1:{shadow}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      {mirror}
      proxy_pass http://primary; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off; {buffers}
    }}
    location = /m {{
      internal;
      proxy_pass http://shadow$request_uri; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off; proxy_read_timeout 30s; {buffers}
    }}
  }}
}}
"""
_LARGE = "proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 128k;"


_MIRROR = "mirror /m; mirror_request_body on;"


def configure(setting: Setting, port: int, *, mirrored: bool, buffers: str = "") -> Path:
    """Write its configuration file."""
    file = setting.folder / "nginx.conf"
    file.write_text(
        _PLAIN.format(
            folder=setting.folder,
            primary=setting.primary,
            shadow=setting.shadow,
            port=port,
            mirror=_MIRROR if mirrored else "",
            buffers=buffers,
        )
    )
    return file


@contextlib.contextmanager
def _start(setting: Setting, name: str, *, mirrored: bool, buffers: str = "") -> Iterator[Peer]:
    port = free_port()
    file = configure(setting, port, mirrored=mirrored, buffers=buffers)
    nginx = programs.debian("nginx-light", "nginx")
    with running([nginx, "-p", setting.folder, "-c", file], port=port, folder=setting.folder) as pid:
        yield Peer(name, port, pid, mirrors=mirrored)


@contextlib.contextmanager
def over_tls(setting: Setting, authority: Path) -> Iterator[Peer]:
    """With its mirror, both engines behind TLS and verified, sessions and connections kept."""
    port = free_port()
    file = configure(setting, port, mirrored=True)
    verified = f"proxy_ssl_trusted_certificate {authority}; proxy_ssl_verify on; proxy_ssl_name localhost;"
    text = file.read_text().replace("proxy_pass http://", "proxy_pass https://")
    file.write_text(text.replace("http {", f"http {{ {verified}", 1))
    nginx = programs.debian("nginx-light", "nginx")
    with running([nginx, "-p", setting.folder, "-c", file], port=port, folder=setting.folder) as pid:
        yield Peer("nginx-mirror", port, pid, mirrors=True)


def plain(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """Without a mirror."""
    return _start(setting, "nginx", mirrored=False)


def mirror(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """With its mirror. It closes a mirrored stream right after the reply's head."""
    return _start(setting, "nginx-mirror", mirrored=True)


def mirror_tuned(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """With its mirror and buffers of 64 KiB, for long bodies (with 4 KiB, the default, it reads that much at a time)."""
    return _start(setting, "nginx-mirror-64k", mirrored=True, buffers=_LARGE)
