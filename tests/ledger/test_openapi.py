"""The description of the API: of everything that is answered, and true of what is answered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from aiohttp.test_utils import TestClient, TestServer
from jsonschema import Draft202012Validator

from proxy.ledger.admin import make_admin
from proxy.ledger.endpoint import ENDPOINTS, Guard
from proxy.ledger.openapi import described, document
from tests.ledger.filled import CANDIDATE, HOSTILE, NOW, fill


@pytest.fixture(scope="module")
def replica(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("described"))


def app_of(replica):
    return make_admin(replica.config, ready=lambda: True, clock=lambda: NOW)


def answers(replica, *asked: tuple[str, str, str | None]) -> list[tuple[int, str, Any]]:
    async def asking():
        found = []
        async with TestClient(TestServer(app_of(replica))) as client:
            for method, path, body in asked:
                async with client.request(method, path, data=body) as answer:
                    text = await answer.text()
                    found.append((answer.status, answer.content_type, text))
        return found

    return asyncio.run(asking())


@pytest.fixture(scope="module")
def description(replica):
    [(status, kind, text)] = answers(replica, ("GET", "/api/v1/openapi.json", None))
    assert (status, kind) == (200, "application/json")
    return json.loads(text)


def test_every_route_is_in_it_and_nothing_else(replica, description):
    app = app_of(replica)
    routes = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.method != "HEAD" and route.resource is not None
    }
    endpoints = {(one.method, one.path): one for one in app[ENDPOINTS]}
    assert routes == endpoints.keys()
    told = {(method.upper(), path) for path, item in description["paths"].items() for method in item}
    assert told == {key for key, one in endpoints.items() if described(one)}
    assert {path for _, path in routes if path.startswith("/api/")} <= description["paths"].keys()


def test_every_parameter_in_a_path_is_described(description):
    for path, item in description["paths"].items():
        for operation in item.values():
            named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_every_schema_is_one(description):
    for item in description["paths"].values():
        for operation in item.values():
            bodies = [*operation["responses"].values(), operation.get("requestBody", {})]
            for body in bodies:
                for content in body.get("content", {}).values():
                    Draft202012Validator.check_schema(content["schema"])
    names = [operation["operationId"] for item in description["paths"].values() for operation in item.values()]
    assert len(set(names)) == len(names)


def test_what_is_answered_is_what_is_described(replica, description):
    """Every address that can be read is asked, with each of its parameters where it has some."""
    places = {"id": HOSTILE}
    asked = []
    for path, item in description["paths"].items():
        if (operation := item.get("get")) is None or path == "/metrics":
            continue
        asked.append((path, path.format(**places), operation))
    found = answers(replica, *[("GET", address, None) for _, address, _ in asked])
    for (path, _, operation), (status, kind, text) in zip(asked, found, strict=True):
        answer = operation["responses"].get(str(status))
        assert answer is not None, (path, status)
        assert kind in answer["content"], path
        if kind == "application/json":
            schema = answer["content"][kind]["schema"]
            jsonschema.validate(
                json.loads(text), schema if "$ref" not in schema else description["components"]["schemas"]["Error"]
            )


def test_lists_are_what_is_described_whatever_is_asked_for(replica, description):
    schema = description["paths"]["/api/v1/records"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    queries = (
        "",
        "?class=genuine",
        f"?shadow={CANDIDATE}&mode=forced",
        "?outcome=incomparable",
        "?order=oldest&limit=3",
    )
    for status, _, text in answers(replica, *[("GET", f"/api/v1/records{query}", None) for query in queries]):
        assert status == 200
        answer = json.loads(text)
        assert answer["records"]
        jsonschema.validate(answer, schema)


def test_a_refusal_is_what_is_described(replica, description):
    for status, _, text in answers(
        replica,
        ("GET", "/api/v1/records?sheep=1", None),
        ("GET", "/api/v1/records/none", None),
        ("POST", "/api/v1/mirror", "{}"),
    ):
        assert status in (400, 403, 404)
        jsonschema.validate(json.loads(text), description["components"]["schemas"]["Error"])


def test_a_change_is_said_to_need_the_token(replica, description):
    for one in app_of(replica)[ENDPOINTS]:
        if described(one) and one.guard is Guard.CHANGE:
            security = description["paths"][one.path][one.method.lower()]["security"]
            assert {} not in security
            assert {"token": []} in security
    assert document([], "1")["paths"] == {}
