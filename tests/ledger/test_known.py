"""Rules of what is known: read whole or refused, the same in SQL as in Python, kept on disk, changed on the admin port by who may."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.comparison import FlipClass
from proxy.config import Config, Records, Shadow
from proxy.ledger import known, known_file
from proxy.ledger.admin import make_admin
from proxy.ledger.known import KnownError, Match, Rule, Rules
from proxy.ledger.store import Store

NOW = 1_700_000_000.0
DAY = 86400.0
TOKEN = "a-token-of-the-tests"


def rule(name: str = "one", expires: float = NOW + DAY, **match: str) -> Rule:
    return Rule(name, Match(**(match or {"difference": "exact_tie"})), expires, NOW)


def body(**changes: object) -> bytes:
    return json.dumps({"name": "n", "match": {"class": "exact_tie"}, "expires": "1d"} | changes).encode()


@pytest.mark.parametrize(
    ("expires", "end"),
    [
        ("90m", NOW + 5400),
        ("1.5d", NOW + 1.5 * DAY),
        ("2w", NOW + 14 * DAY),
        (NOW + 7, NOW + 7),
        ("2023-11-15", 1_700_006_400.0),
        ("2023-11-15T01:00:00+01:00", 1_700_006_400.0),
    ],
)
def test_an_end_may_be_said_in_several_ways(expires: str | float, end: float) -> None:
    assert known.read(body(expires=expires), NOW).expires == end


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "two words"}, "name: give"),
        ({"name": ""}, "name: give"),
        ({"match": {}}, "match: give at least one of"),
        ({"match": {"shadow": ""}}, "match.shadow"),
        ({"match": {"model": "a\u202eb"}}, "match.model"),
        ({"match": {"finding": "a b"}}, "match.finding"),
        ({"match": {"colour": "red"}}, "colour"),
        ({"match": {"shadow": 3}}, "match.shadow"),
        ({"expires": "soon"}, "expires: give a time"),
        ({"expires": "400d"}, "at most 366 days"),
        ({"expires": NOW}, "expires: give a time"),
        ({"expires": 1e400}, "expires"),
        ({"reason": "x" * 501}, "reason: give at most 500"),
        ({"more": 1}, "more"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_would_be_right(changes: dict[str, object], said: str) -> None:
    with pytest.raises(KnownError, match=said.replace(".", r"\.")):
        known.read(body(**changes).replace(b"Infinity", b"1e400"), NOW)


@given(st.binary(max_size=80))
def test_no_bytes_make_it_fail_in_another_way(data: bytes) -> None:
    with pytest.raises(KnownError):
        known.read(data, NOW)


def test_a_rule_is_in_force_until_it_expires() -> None:
    rules = Rules((rule("past", NOW), rule("now", NOW + 1)))
    assert [one.name for one in rules.in_force(NOW)] == ["now"]


def test_there_are_at_most_two_hundred_and_expired_ones_make_room() -> None:
    full = Rules(tuple(rule(f"r{number}", NOW + 1 + (number > 0)) for number in range(known.MOST_RULES)))
    with pytest.raises(KnownError, match="200 rules already"):
        full.having(rule("more"), NOW)
    assert len(full.having(rule("r7"), NOW).rules) == known.MOST_RULES
    later = full.having(rule("more"), NOW + 1.5)
    assert [one.name for one in later.rules[-2:]] == ["r199", "more"]
    assert "r0" not in {one.name for one in later.rules}


RULES = [
    rule(difference="near_tie"),
    rule(shadow="candidate", difference="genuine"),
    rule(shadow="another"),
    rule(finding="stop_handling"),
    rule(finding="stop"),
    rule(mode="free", outcome="identical"),
    rule(model="m" * 300),
    rule(record="00000001"),
    rule(endpoint="chat_completions"),
]


def test_sql_and_python_say_the_same_of_every_rule(store, make) -> None:
    kinds = [None, FlipClass.NEAR_TIE, FlipClass.GENUINE, FlipClass.GENUINE]
    records = [
        make.record(
            number,
            make.free(kind, findings=("stop_handling",) if number == 3 else ()),
            model="m" * (300 * (number == 0) or 5),
        )
        for number, kind in enumerate(kinds)
    ]
    store.settle([make.compared(record) for record in records])
    stored = list(store.records())
    hits = 0
    for one in RULES:
        terms, values = known.where([one])
        found = {row[0] for row in store.read(f"SELECT id FROM records WHERE {terms}", values)}
        assert found == {record.id for record in stored if known.names([one], record)}, one
        hits += bool(found)
    assert hits == len(RULES) - 2
    terms, values = known.where(RULES[:2])
    assert {row[0] for row in store.read(f"SELECT id FROM records WHERE {terms}", values)} == {
        "00000001",
        "00000002",
        "00000003",
    }
    assert store.read(f"SELECT id FROM records WHERE {known.where([])[0]}") == []


def test_rules_are_kept_and_a_damaged_file_is_neither_used_nor_written_over(tmp_path: Path) -> None:
    config = Config(state=str(tmp_path / "state"))
    assert known_file.load(config) == Rules()
    known_file.save(config, Rules((rule(),)))
    assert known_file.load(config) == Rules((rule(),))
    for damage in (b"{", b'{"rules": [1]}', b"\xff"):
        (tmp_path / "state" / "known.json").write_bytes(damage)
        with pytest.raises(KnownError, match=r"known\.json does not say what is known"):
            known_file.load(config)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name":"all","match":{},"expires":2e9,"created":1}', "match"),
        ('{"name":"all","match":{"shadow":""},"expires":2e9,"created":1}', "match.shadow"),
        ('{"name":"<b>","match":{"shadow":"s"},"expires":2e9,"created":1}', "name"),
        ('{"name":"far","match":{"shadow":"s"},"expires":1e300,"created":1}', "expires"),
        ('{"name":"old","match":{"shadow":"s"},"expires":2e9,"created":-1e300}', "expires"),
    ],
)
def test_a_rule_that_could_not_have_been_asked_for_marks_nothing(tmp_path: Path, text: str, said: str) -> None:
    config = Config(state=str(tmp_path))
    (tmp_path / "known.json").write_text(f'{{"rules":[{text}]}}')
    with pytest.raises(KnownError, match=re.escape(f"known.json: {said}")) as caught:
        known_file.load(config)
    assert caught.value.status == 503


def ask(config: Config, *asked: tuple[str, str, bytes, dict[str, str]]) -> list[tuple[int, dict]]:
    async def asking() -> list[tuple[int, dict]]:
        app = make_admin(config, ready=lambda: True, clock=lambda: NOW)
        async with TestClient(TestServer(app)) as client:
            answers = []
            for method, path, data, headers in asked:
                async with client.request(method, path, data=data or None, headers=headers) as answer:
                    answers.append((answer.status, await answer.json()))
            return answers

    return asyncio.run(asking())


@pytest.fixture
def config(tmp_path: Path, url: str) -> Config:
    return Config(
        state=str(tmp_path / "state"),
        records=Records(url=url),
        shadows=(Shadow("candidate", "http://c"),),
        admin_token=TOKEN,
    )


ME = {"Authorization": f"Bearer {TOKEN}"}


def test_a_rule_is_made_shown_renewed_and_taken_away(config: Config) -> None:
    path = "/api/v1/known"
    answers = ask(
        config,
        ("POST", path, body(reason="seen before"), ME),
        ("POST", path, body(name="other"), ME),
        ("POST", path, body(expires="2d"), ME),
        ("GET", path, b"", {}),
        ("DELETE", f"{path}/other", b"", ME),
        ("DELETE", f"{path}/other", b"", ME),
        ("POST", path, body(name=" "), ME),
    )
    assert [status for status, _ in answers] == [200, 200, 200, 200, 200, 404, 400]
    assert answers[0][1]["rules"] == [
        {
            "name": "n",
            "match": {"class": "exact_tie"},
            "expires": NOW + DAY,
            "created": NOW,
            "reason": "seen before",
            "in_force": True,
        }
    ]
    assert [(one["name"], one["expires"]) for one in answers[3][1]["rules"]] == [
        ("other", NOW + DAY),
        ("n", NOW + 2 * DAY),
    ]
    assert [one["name"] for one in answers[4][1]["rules"]] == ["n"]
    assert answers[5][1]["error"] == "no rule has that name; there are: n"


def test_only_who_has_the_token_and_no_other_page_may_change_one(config: Config) -> None:
    path = "/api/v1/known"
    refused = ask(
        config,
        ("POST", path, body(), {}),
        ("POST", path, body(), {"Authorization": "Bearer wrong"}),
        ("POST", path, body(), ME | {"Origin": "https://evil.example"}),
        ("POST", path, body(), ME | {"Host": "evil.example"}),
        ("DELETE", f"{path}/n", b"", {}),
        ("DELETE", f"{path}/n", b"", ME | {"Origin": "null"}),
        ("GET", path, b"", {"Host": "evil.example"}),
    )
    assert [status for status, _ in refused] == [401, 401, 403, 421, 401, 403, 421]
    assert ask(config, ("GET", path, b"", {})) == [(200, {"schema": "parhelion.known/1", "rules": []})]


def test_a_file_that_cannot_be_read_is_said_and_kept(config: Config) -> None:
    file = Path(config.state) / "known.json"
    file.parent.mkdir()
    file.write_text("mine")
    answers = ask(config, ("GET", "/api/v1/known", b"", {}), ("POST", "/api/v1/known", body(), ME))
    assert [status for status, _ in answers] == [503, 503]
    assert file.read_text() == "mine"


def test_rules_change_nothing_in_the_store(store: Store, make) -> None:
    store.settle([make.compared(make.record(1, make.free(FlipClass.EXACT_TIE)))])
    before = store.counts(), store.tallies()
    assert known.names([rule()], next(iter(store.records()))) == ["one"]
    assert (store.counts(), store.tallies()) == before
