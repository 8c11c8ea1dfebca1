"""The admin port as a scraper, a load balancer and a script see it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from proxy.compare.comparison import FlipClass
from proxy.config import Config, Records, Shadow
from proxy.counters import Counters, Slot
from proxy.ledger.admin import make_admin
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.reconcile import Arm
from proxy.ledger.store import Store


@pytest.fixture
def config(tmp_path: Path, url: str) -> Config:
    for folder in ("counters", "judge"):
        (tmp_path / "state" / folder).mkdir(parents=True)
    return Config(state=str(tmp_path / "state"), records=Records(url=url), shadows=(Shadow("candidate", "http://c"),))


def ask(
    config: Config, *paths: str, ready=lambda: True, method="GET", **headers: str
) -> list[tuple[int, dict[str, str], str]]:
    """Ask a fresh admin port; (status, headers, text) of each answer."""

    async def asking() -> list[tuple[int, dict[str, str], str]]:
        app = make_admin(config, ready=ready, clock=lambda: 1_700_000_100.0)
        async with TestClient(TestServer(app)) as client:
            answers = []
            for path in paths:
                async with client.request(method, path, headers=headers) as answer:
                    answers.append((answer.status, dict(answer.headers), await answer.text()))
            return answers

    return asyncio.run(asking())


def one(config: Config, path: str, **more) -> tuple[int, dict[str, str], str]:
    return ask(config, path, **more)[0]


def parsed(config: Config, path: str, **more):
    import json

    status, headers, text = one(config, path, **more)
    assert headers["Content-Type"].startswith("application/json")
    return status, json.loads(text)


@pytest.fixture
def lived(config: Config, make):
    """A replica in which a little has happened."""
    counters = Counters.create(Path(config.state) / "counters" / "i1.bin")
    counters.add(Slot.RECEIVED, 5)
    counters.add(Slot.SAMPLED, 5)
    counters.add(Slot.HANDED_OVER, 4)
    counters.add(Slot.SHED_QUEUE, 1)
    records = [
        make.record(number, make.free(kind))
        for number, kind in enumerate([None, FlipClass.NEAR_TIE, FlipClass.GENUINE])
    ]
    with Store.open(config.records.url) as store:
        store.reconcile({}, [Arm("candidate", "free")])
        store.settle([make.compared(record) for record in records])
    metrics = JudgeMetrics(config, clock=lambda: 1_700_000_099.0)
    for record in records:
        metrics.observe_comparison(record)
    metrics.write(Path(config.state))
    yield config
    counters.close()


def test_metrics_in_the_format_that_is_asked_for(lived):
    status, headers, text = one(lived, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert {family.name: family for family in parse_plain(text)}["parhelion_received"].samples[0].value == 5
    status, headers, text = one(lived, "/metrics", Accept="application/openmetrics-text;version=1.0.0,*/*;q=0.1")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    families = {family.name: family for family in parse_openmetrics(text)}
    assert families["parhelion_judge_snapshot_age_seconds"].samples[0].value == 1
    assert families["parhelion_divergences"].samples[0].exemplar.labels["record_id"]


def test_a_bare_replica_answers_everywhere(config):
    answers = ask(config, "/", "/healthz", "/metrics", "/api/v1/report", "/api/v1/records", "/api/v1/records/x")
    assert [status for status, _, _ in answers] == [200, 200, 200, 200, 404, 404]
    assert "parhelion_store_up 0.0" in answers[2][2]
    assert "parhelion serve" in answers[4][2]


def test_readiness_follows_the_callback_and_nothing_else(config):
    assert one(config, "/readyz")[0] == 200
    assert one(config, "/readyz", ready=lambda: False)[0] == 503
    assert one(config, "/healthz", ready=lambda: False)[0] == 200


def test_the_report_is_that_of_the_records(lived):
    status, report = parsed(lived, "/api/v1/report")
    assert status == 200
    assert report["schema"] == "parhelion.report/1"
    assert report["requests"] == {"received": 5, "not_sampled": 0, "sampled": 5, "undecided": 0}
    free = report["shadows"][0]["modes"]["free"]
    assert free["divergences"] == {"exact_tie": 0, "near_tie": 1, "genuine": 1, "unknown": 0}
    assert free["shed"] == {"queue": 1}
    assert free["in_flight"] == 1


def test_the_report_of_a_period_and_of_nonsense(lived):
    status, report = parsed(lived, "/api/v1/report?since=9999-01-01")
    assert status == 200
    assert report["records"] == 0
    assert "requests" not in report  # those are counted over all of time
    for query in ("since=yesterday", "shadow=f32", "since=1&since=2"):
        assert parsed(lived, f"/api/v1/report?{query}")[0] == 400


def test_records_are_paged_newest_first(lived):
    status, page = parsed(lived, "/api/v1/records?limit=2")
    assert status == 200
    assert [record["id"] for record in page["records"]] == ["00000002", "00000001"]
    assert page["records"][0]["class"] == "genuine"
    assert page["records"][0]["first_divergence"] == {"index": 3, "class": "genuine", "gap": None}
    assert page["records"][0]["difference"]["index"] == 3
    assert page["records"][0]["difference"]["class"] == "genuine"
    assert page["next"] == "00000001"
    _, differing = parsed(lived, "/api/v1/records?differing=yes")
    assert [(one["id"], one["class"]) for one in differing["records"]] == [
        ("00000002", "genuine"),
        ("00000001", "near_tie"),
    ]
    assert parsed(lived, "/api/v1/records?differing=perhaps")[0] == 400
    _, page = parsed(lived, f"/api/v1/records?limit=2&after={page['next']}")
    assert [record["id"] for record in page["records"]] == ["00000000"]
    assert page["next"] is None
    _, page = parsed(lived, "/api/v1/records?order=oldest&limit=1")
    assert [record["id"] for record in page["records"]] == ["00000000"]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("class=genuine", ["00000002"]),
        ("outcome=identical&shadow=candidate&mode=free&model=m&endpoint=chat_completions", ["00000000"]),
        ("since=1700000001", ["00000002", "00000001"]),
        ("until=2023-11-14T22:13:21Z", ["00000000"]),
        ("until=2023-11-14T22:13:21", ["00000000"]),
        ("until=0001-01-01", []),
        ("since=0001-01-01", ["00000002", "00000001", "00000000"]),
        ("since=0001-01-01T00:00:00%2B23:59", ["00000002", "00000001", "00000000"]),
        ("since=9999-12-31T23:59:59-23:59", []),
        ("since=1e308&until=-1e308", []),
        ("since=2023-11-14&until=2023-11-15&limit=0001", ["00000002"]),
        ("finding=output_length", []),
        ("exchange=x1", ["00000001"]),
    ],
)
def test_records_are_filtered(lived, query, ids):
    _, page = parsed(lived, f"/api/v1/records?{query}")
    assert [record["id"] for record in page["records"]] == ids


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("limit=0001000000000000", "limit"),
        ("limit=00019999999999999999999999999999", "limit"),
        ("until=infinity", "until"),
        ("since=2020-01-01&since=x", "since: given more than once"),
        ("shadow=a&limit=1&shadow=a", "shadow: given more than once"),
        ("sheep=1&sheep=2", "known are"),
        ("since=yesterday", "since"),
        ("until=nan", "until"),
        ("order=up", "order"),
        ("after=gone", "after"),
        ("sheep=1", "known are"),
    ],
)
def test_a_question_that_is_not_understood_is_refused_by_name(lived, query, named):
    status, answer = parsed(lived, f"/api/v1/records?{query}")
    assert status == 400
    assert named in answer["error"]


def test_one_record_is_whole(lived, make):
    status, record = parsed(lived, "/api/v1/records/00000002")
    assert status == 200
    assert record["comparison"]["choices"][0]["ids"] == [100, 101, 102, 103]
    assert record["class"] == "genuine"


def test_other_addresses_and_methods(lived):
    assert parsed(lived, "/nothing")[0] == 404
    assert parsed(lived, "/metrics", method="POST")[0] == 405
    status, _, text = one(lived, "/metrics", method="HEAD")
    assert (status, text) == (200, "")


def test_every_answer_is_guarded_and_says_nothing_of_versions(lived):
    for status, headers, _ in ask(lived, "/", "/metrics", "/api/v1/records", "/nothing"):
        assert status in {200, 404}
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert "Server" not in headers


def test_rebinding_is_refused(lived):
    status, answer = parsed(lived, "/api/v1/report", Host="evil.example")
    assert status == 421
    assert "loopback" in answer["error"]
    assert one(lived, "/readyz", Host="10.0.0.7:8001")[0] == 200


def test_the_token_guards_what_the_network_may_not_read(lived):
    from msgspec.structs import replace

    open_to_all = replace(lived, admin="0.0.0.0:8001", admin_token="s3cret")
    status, headers, text = one(open_to_all, "/api/v1/report")
    assert status == 401
    assert headers["WWW-Authenticate"] == "Bearer"
    assert "s3cret" not in text
    assert one(open_to_all, "/metrics")[0] == 200
    assert one(open_to_all, "/nothing")[0] == 401
    assert one(open_to_all, "/api/v1/report", Authorization="Bearer s3cret")[0] == 200
    assert one(replace(open_to_all, admin_public=("records",)), "/api/v1/records/00000002")[0] == 200
    assert one(replace(open_to_all, admin_public=()), "/metrics")[0] == 401


def test_a_store_that_cannot_be_read_is_said_and_takes_nothing_else_down(lived, tmp_path):
    (tmp_path / "store.db").write_bytes(b"rubbish" * 1000)
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"store.db{suffix}").unlink(missing_ok=True)
    metrics, report, records, ready = ask(lived, "/metrics", "/api/v1/report", "/api/v1/records", "/readyz")
    assert metrics[0] == 200
    assert "parhelion_store_up 0.0" in metrics[2]
    assert "parhelion_received_total 5.0" in metrics[2]
    assert "parhelion_compared_total{" not in metrics[2]
    assert report[0] == records[0] == 503
    assert "damaged" in records[2]
    assert ready[0] == 200


def test_hostile_output_stays_json(lived, make):
    text = "<script>alert(1)</script>\u202e\x1b[31m"
    with Store.open(lived.records.url) as store:
        store.settle([make.compared(make.record(9, model=text, id="evil"))])
    status, headers, body = one(lived, "/api/v1/records/evil")
    assert status == 200
    assert headers["Content-Type"].startswith("application/json")
    assert "\x1b" not in body
    assert parsed(lived, "/api/v1/records?limit=1")[1]["records"][0]["model"] == text
