"""JSON Schemas of what the admin API takes and gives, as OpenAPI 3.1 has them.

House rules. Values only. What is optional is not required here, and nothing is closed: keys are added, never renamed.
"""

from __future__ import annotations

from typing import Any

from proxy.ledger.endpoint import Parameter

Schema = dict[str, Any]


def _object(required: dict[str, Schema], **optional: Schema) -> Schema:
    return {"type": "object", "properties": required | optional, "required": list(required)}


def _or_null(*kinds: str) -> Schema:
    return {"type": [*kinds, "null"]}


_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_INTEGER: Schema = {"type": "integer"}
_FLAG: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
ANY: Schema = {"type": "object"}

_CLASS: Schema = {"type": "string", "enum": ["", "exact_tie", "near_tie", "genuine", "unknown"]}
_OUTCOME: Schema = {
    "type": "string",
    "enum": ["identical", "diverged", "censored", "measured", "scored", "incomparable"],
}
_MODE: Schema = {"type": "string", "enum": ["free", "forced"]}
_ROLE: Schema = {"type": "string", "enum": ["candidate", "control", "unknown"]}

ERROR = _object({"error": _TEXT})
ID = Parameter("id", "the record's id", _TEXT, "path")
PERIOD = (
    Parameter("since", "Unix seconds, or a time such as 2026-01-31T12:00:00Z", _TEXT),
    Parameter("until", "the same; what began at that moment is left out", _TEXT),
)
FILTER = (
    *PERIOD,
    Parameter("shadow", "its name", _TEXT),
    Parameter("mode", "how it was compared", _MODE),
    Parameter("model", "as the client named it", _TEXT),
    Parameter("endpoint", "the route class", _TEXT),
    Parameter("outcome", "how it ended", _OUTCOME),
    Parameter("class", "the gravest difference", _CLASS),
    Parameter("differing", "only those that differ", {"type": "string", "enum": ["yes", "no"], "default": "no"}),
    Parameter("finding", "one that was found", _TEXT),
    Parameter("exchange", "the client's request: one record for each shadow and mode", _TEXT),
    Parameter(
        "known",
        "whether those that a rule marks are left out",
        {"type": "string", "enum": ["show", "hide"], "default": "show"},
    ),
    Parameter("order", "newest first unless oldest", {"type": "string", "enum": ["newest", "oldest"]}),
    Parameter("limit", "how many", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
    Parameter("after", "go on behind this record: `next` of the list before", _TEXT),
)
_TOKEN = _object({"id": _or_null("integer"), "text": _or_null("string")})
_BRIEF = _object(
    {
        "id": _TEXT,
        "time": _NUMBER,
        "exchange": _TEXT,
        "model": _TEXT,
        "endpoint": _TEXT,
        "shadow": _TEXT,
        "role": _ROLE,
        "mode": _MODE,
        "outcome": _OUTCOME,
        "class": _CLASS,
        "incomparable": _or_null("string"),
        "findings": _TEXTS,
        "tokens_compared": _COUNT,
        "flips": _COUNT,
        "first_divergence": {
            "oneOf": [
                {"type": "null"},
                _object({"index": _COUNT, "class": _CLASS, "gap": _or_null("number")}),
            ]
        },
    },
    conversation=_TEXT,
    difference={
        "oneOf": [
            {"type": "null"},
            _object(
                {"choice": _COUNT, "index": _COUNT, "class": _CLASS, "gap": _or_null("number")},
                primary=_TOKEN,
                shadow=_TOKEN,
            ),
        ]
    },
)
LISTING = _object({"records": {"type": "array", "items": _BRIEF}, "next": _or_null("string")})
_TIMING = _object({}, first_token=_or_null("number"), end=_or_null("number"), gaps={"type": "array", "items": _NUMBER})
RECORD = _object(
    {
        "outcome": _OUTCOME,
        "class": _CLASS,
        "id": _TEXT,
        "time": _NUMBER,
        "exchange": _TEXT,
        "conversation": _TEXT,
        "model": _TEXT,
        "endpoint": _TEXT,
        "shadow": _TEXT,
        "role": _ROLE,
        "comparison": _object(
            {"mode": _MODE},
            source=_or_null("string"),
            incomparable=_or_null("string"),
            findings=_TEXTS,
            choices={"type": "array", "items": ANY},
        ),
        "primary_footprint": _TEXT,
        "shadow_footprint": _TEXT,
        "request": ANY,
        "primary_timing": _TIMING,
        "shadow_timing": _TIMING,
        "in_flight": _COUNT,
        "cached_tokens": _or_null("integer"),
        "content": _or_null("object"),
        "schema": _INTEGER,
    }
)
_SHADOW = _object(
    {
        "name": _TEXT,
        "role": _ROLE,
        "footprint": ANY,
        "footprint_differences": {"type": "array", "items": _object({"field": _TEXT, "sure": _FLAG})},
        "findings": {
            "type": "array",
            "items": _object({"finding": _TEXT, "severity": _TEXT, "count": _COUNT, "remedy": _or_null("string")}),
        },
        "modes": {"type": "object", "additionalProperties": _object({"requests": _COUNT})},
        "ties": ANY,
        "latency": ANY,
    },
    verdict=_object(
        {
            "state": {"type": "string", "enum": ["PASS", "FAIL", "KEEP WATCHING"]},
            "alpha": _NUMBER,
            "margin": _NUMBER,
            "conversations": _COUNT,
            "floor": {"type": "string", "enum": ["control", "assumed"]},
        }
    ),
)
REPORT = _object(
    {
        "schema": {"const": "parhelion.report/1"},
        "time": _TEXT,
        "command": _TEXT,
        "records": _COUNT,
        "models": {"type": "object", "additionalProperties": _COUNT},
        "primary": _object({"footprint": ANY, "tokens_source": {"type": "object", "additionalProperties": _COUNT}}),
        "shadows": {"type": "array", "items": _SHADOW},
        "changes": {"type": "array", "items": ANY},
    },
    model=_TEXT,
    requests={"type": "object", "additionalProperties": _INTEGER},
    known=_object({"records": _COUNT, "rules": {"type": "array", "items": ANY}}),
)
MIRROR = _object(
    {
        "schema": {"const": "parhelion.mirror/1"},
        "enabled": _FLAG,
        "shadows": {"type": "object", "additionalProperties": _FLAG},
    },
    survives_restart=_FLAG,
)
CHANGE = _object({"enabled": _FLAG}, shadow=_or_null("string")) | {"additionalProperties": False}
_SIDE = _object(
    {"logprobs": {"type": "array", "items": _or_null("number")}, "total": _COUNT},
    ids={"type": ["array", "null"]},
    texts={"type": ["array", "null"]},
    partial={"type": "array", "items": _object({"index": _COUNT, "data": _TEXT})},
    channels={"type": "array", "items": _object({"start": _COUNT, "channel": _TEXT})},
    listed={"type": "array", "items": _object({"index": _COUNT, "top": {"type": "array", "items": ANY}})},
)
DETAIL = _object(
    {"choices": {"type": "array", "items": _object({"index": _COUNT, "primary": _SIDE, "shadow": _SIDE})}},
    prompt_ids={"type": ["array", "null"]},
    primary=_or_null("object"),
    shadow={"type": "array", "items": _object({"path": _TEXT, "body": _TEXT})},
    redacted=_FLAG,
    schema=_COUNT,
)
REPEAT = _object({"schema": {"const": "parhelion.repeat/1"}, "shell": _TEXT})
_MATCH: Schema = {
    "type": "object",
    "properties": {
        "shadow": _TEXT, "mode": _MODE, "model": _TEXT, "endpoint": _TEXT, "outcome": _OUTCOME, "class": _CLASS, "finding": _TEXT, "id": _TEXT,
    },
    "additionalProperties": False,
    "minProperties": 1,
}  # fmt: skip
_RULE = _object(
    {"name": _TEXT, "match": _MATCH, "expires": _NUMBER, "created": _NUMBER, "in_force": _FLAG}, reason=_TEXT
)
KNOWN = _object({"schema": {"const": "parhelion.known/1"}, "rules": {"type": "array", "items": _RULE, "maxItems": 200}})
NEW_RULE = _object({"name": _TEXT, "match": _MATCH, "expires": {"type": ["string", "number"]}}, reason=_TEXT) | {
    "additionalProperties": False
}
NAME = Parameter("name", "the rule's name", _TEXT, "path")
_ANSWER = _object({"tone": _TEXT, "word": _TEXT})
OVERVIEW = _object(
    {
        "schema": {"const": "parhelion.overview/1"},
        "shadows": {"type": "array", "items": _object({"name": _TEXT, "role": _ROLE})},
        "store_error": _TEXT,
        "primary": _ANSWER,
        "agreement": _ANSWER,
        "mirror": _ANSWER,
        "events": {"type": "array", "items": _object({"time": _NUMBER, "kind": _TEXT, "said": _TEXT})},
        "hours": _or_null("array"),
        "newest": {"oneOf": [{"type": "null"}, _object({"as_of": _NUMBER, "records": _COUNT, "of": _COUNT})]},
        "switch": {"oneOf": [{"type": "null"}, MIRROR]},
    }
)
ONLY = (Parameter("only", "leave out what all engines share", {"type": "string", "enum": ["differences"]}),)
_CELL = _object({"arm": _TEXT, "value": {}, "origin": _TEXT, "differs": _FLAG, "may_differ": _FLAG})
ENGINES = _object(
    {
        "schema": {"const": "parhelion.engines/1"},
        "store_error": _TEXT,
        "arms": {"type": "array", "items": _object({"name": _TEXT, "role": _TEXT, "known": _FLAG})},
        "rows": {
            "type": "array",
            "items": _object({"field": _TEXT, "differs": _FLAG, "cells": {"type": "array", "items": _CELL}}),
        },
        "untold": _TEXTS,
        "changes": {"type": "array", "items": _object({"time": _NUMBER, "confirmed": _NUMBER, "arm": _TEXT})},
        "findings": _or_null("array"),
    }
)
_JUDGED = _object(
    {"name": _TEXT, "said": _TEXT, "to_do": _TEXT, "verdict": _object({"state": _TEXT, "conversations": _COUNT})}
)
VERDICT = _object(
    {
        "schema": {"const": "parhelion.verdict/1"},
        "store_error": _TEXT,
        "controls": _TEXTS,
        "newest": {"oneOf": [{"type": "null"}, _object({"as_of": _NUMBER, "records": _COUNT, "of": _COUNT})]},
        "candidates": {"type": "array", "items": _JUDGED},
    }
)
