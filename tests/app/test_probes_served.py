"""``serve`` with ``probes``: each arm is learned, and a change behind the same address that no route shows is an event and a metric within seconds."""

from __future__ import annotations

import urllib.parse
from contextlib import ExitStack
from pathlib import Path

from proxy.ledger.store import Store
from tests.app.test_probes_command import configured, run
from tests.probes.recorded import fill
from tests.running import parhelion, scripted, until


def test_a_change_that_no_route_shows_is_noticed_while_serving(tmp_path: Path) -> None:
    probes, script = tmp_path / "p.json", tmp_path / "s.yaml"
    script.write_text("differences: {noise: 0.02}\n")
    with ExitStack() as first, ExitStack() as second:
        url = first.enter_context(scripted("vllm"))
        fill(url, "vllm", "toy", tmp_path / "s.db", tokens=8)
        assert run("mine", "-c", configured(tmp_path, url), "--out", probes, "--number", 8).returncode == 0
        with parhelion(tmp_path, url, [], probes={"file": str(probes), "every": "1s"}, recheck=3600) as proxy:
            until(lambda: proxy.metric("parhelion_probe_last_run_timestamp_seconds", arm="primary") > 0, 60, "a look")
            assert proxy.metric("parhelion_probe_changes_total", arm="primary") == 0
            assert proxy.metric("parhelion_probe_shift_nats", arm="primary") == 0
            port = urllib.parse.urlsplit(url).port
            assert port is not None
            first.close()
            second.enter_context(scripted("vllm", script, port))
            until(lambda: proxy.metric("parhelion_probe_changes_total", arm="primary") == 1, 60, "a change")
            assert proxy.metric("parhelion_footprint_changes_total", arm="primary") == 0
    with Store.open_read_only(f"sqlite:///{tmp_path}/records.db") as store:
        (event,) = [one for one in store.events() if one.kind == "probe_changed"]
    assert event.detail["probes"] == 8
    assert 0.002 < event.detail["shift_nats"] < 0.2
