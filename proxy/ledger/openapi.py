"""The OpenAPI 3.1 description of the admin port, made of the table that its router is made of.

House rules. Pure. Pages and static files are left out: they are for people.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proxy.ledger.endpoint import Endpoint, Guard
from proxy.ledger.schemas import ERROR

_REFUSALS = {
    400: "something of the request is not understood; the text names it",
    401: "a token is needed",
    403: "not from there, or not while no token is configured",
    421: "on loopback only loopback names are answered",
    429: "too many wrong tokens came from this address",
}


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """Return the description, JSON-ready."""
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        if described(one):
            paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Parhelion admin API",
            "version": version,
            "description": "Reading is open on loopback and takes the token elsewhere; changes take it everywhere.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "admin_token"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "parhelion_session",
                    "description": "from /login",
                },
            },
        },
    }


def described(endpoint: Endpoint) -> bool:
    """Whether an address is for programs."""
    return endpoint.media in ("application/json", "text/plain")


def _operation(one: Endpoint) -> dict[str, Any]:
    content = {one.media: {"schema": one.answer or {"type": "string"}}}
    operation: dict[str, Any] = {
        "operationId": f"{one.method.lower()}{one.path.replace('{', '').replace('}', '').replace('/', '_').replace('.', '_')}",
        "summary": one.summary,
        "responses": {"200": {"description": one.summary, "content": content}},
    }
    refusals = one.also if one.guard is Guard.OPEN else _REFUSALS | one.also
    for status, meaning in sorted(refusals.items()):
        error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        plain = {"text/plain": {"schema": {"type": "string"}}}
        operation["responses"][str(status)] = {
            "description": meaning,
            "content": plain if one.guard is Guard.OPEN else error,
        }
    if one.parameters:
        operation["parameters"] = [
            {"name": each.name, "in": each.place, "description": each.text, "schema": each.schema}
            | ({"required": True} if each.place == "path" else {})
            for each in one.parameters
        ]
    if one.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": one.body}}}
    match one.guard:
        case Guard.CHANGE:
            operation["security"] = [{"token": []}, {"session": []}]
        case Guard.READ:
            operation["security"] = [{}, {"token": []}, {"session": []}]
        case Guard.OPEN | Guard.DOOR:
            operation["security"] = []
    return operation
