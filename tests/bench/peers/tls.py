"""Engines behind TLS: an nginx on the load's core ends it, with a certificate of our own making; and the two that talk to it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests import programs
from tests.bench import cores
from tests.bench.peers import nginx, parhelion
from tests.bench.peers.peer import Peer, Setting, free_port, running

_FILE = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
  access_log off; keepalive_requests 1000000000; client_max_body_size 0; client_body_buffer_size 2m;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
  proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off;
  upstream primary {{ server 127.0.0.1:{primary}; keepalive 1024; keepalive_requests 1000000000; }}
  upstream shadow {{ server 127.0.0.1:{shadow}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{first} ssl; location / {{ proxy_pass http://primary; }} }}
  server {{ listen 127.0.0.1:{second} ssl; location / {{ proxy_pass http://shadow; }} }}
}}
"""


@contextlib.contextmanager
def _behind(setting: Setting) -> Iterator[tuple[Setting, Path]]:
    """The same engines behind TLS, and the file of the authority that vouches for them."""
    folder = setting.folder / "tls"
    folder.mkdir()
    folder.chmod(0o777)
    authority = _certificates(folder)
    first, second = free_port(), free_port()
    file = folder / "nginx.conf"
    file.write_text(
        _FILE.format(folder=folder, primary=setting.primary, shadow=setting.shadow, first=first, second=second)
    )
    program = programs.debian("nginx-light", "nginx")
    with running([program, "-p", folder, "-c", file], port=second, folder=folder, on=cores.LOAD):
        yield Setting(setting.folder, first, second), authority


def _certificates(folder: Path) -> Path:
    """An authority and a certificate for localhost and 127.0.0.1 that it has signed."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=bench authority")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", *signing, "-out", "server.pem")
    return folder / "ca.pem"


@contextlib.contextmanager
def parhelion_mirror(setting: Setting) -> Iterator[Peer]:
    """Parhelion, all mirrored."""
    with _behind(setting) as (behind, authority):
        before = os.environ.get("SSL_CERT_FILE")
        os.environ["SSL_CERT_FILE"] = str(authority)
        try:
            with parhelion.start(behind, 1.0, "parhelion", scheme="https") as peer:
                yield peer
        finally:
            os.environ.pop("SSL_CERT_FILE")
            if before is not None:
                os.environ["SSL_CERT_FILE"] = before


@contextlib.contextmanager
def nginx_mirror(setting: Setting) -> Iterator[Peer]:
    """nginx with its mirror, verifying as Parhelion does."""
    with _behind(setting) as (behind, authority), nginx.over_tls(behind, authority) as peer:
        yield peer
