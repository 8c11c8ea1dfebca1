"""The baseline: OpenAI's chat completions and completions, and the routes that every compatible engine has beside them.

House rules. Pure. Other writers take ``routes`` and replace what their engine does otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engines.scripted.asked import Asked, Habits, asked
from engines.scripted.engine import Engine, Query, Route, Stream, Whole, Writer
from engines.scripted.refused import Refused
from engines.scripted.writers import conversations, vectors
from engines.scripted.writers.shape import Shape, chat_rows, legacy_rows, stream, whole

Json = dict[str, Any]

HABITS = Habits(most=20)


def generating(chat: bool, habits: Habits, shape: Shape, check: Callable[[Asked], None] = lambda _: None) -> Route:
    """Make the route of chat or completions; ``check`` refuses what this engine does."""

    def route(engine: Engine, query: Query) -> Whole | Stream:
        served(engine, query.body)
        wanted = asked(engine.script, habits, query.body, chat=chat)
        check(wanted)
        if wanted.stream:
            return Stream(stream(engine, wanted, shape))
        value, tokens = whole(engine, wanted, shape)
        return Whole(value, tokens)

    return route


def served(engine: Engine, body: Json) -> None:
    """Refuse a model that is not served. Raises Refused."""
    model = body.get("model")
    if model not in (None, "", engine.script.model):
        raise Refused(f"the model is not served here; {engine.script.model} is", param="model", status=404)


def models(owner: str, **more: Any) -> Route:
    """Make ``/v1/models``."""

    def route(engine: Engine, _: Query) -> Whole:
        entry = {"id": engine.script.model, "object": "model", "created": engine.started, "owned_by": owner, **more}
        return Whole({"object": "list", "data": [entry]})

    return route


def constant(value: Any) -> Route:
    """Make a route that always says the same."""
    return lambda _, __: Whole(value)


def refuse(refused: Refused) -> Json:
    """Write an error."""
    kind = {404: "NotFoundError", 401: "AuthenticationError"}.get(refused.status, "BadRequestError")
    return {"error": {"message": refused.message, "type": kind, "param": refused.param, "code": refused.status}}


def routes(habits: Habits, chat: Shape, completions: Shape, owner: str) -> Mapping[str, Route]:
    """Return the routes that all compatible engines have."""
    return {
        "POST /v1/chat/completions": generating(True, habits, chat),
        "POST /v1/completions": generating(False, habits, completions),
        "GET /v1/models": models(owner),
        "GET /health": constant({}),
        **vectors.routes(),
        **conversations.routes(habits),
    }


def _reply(engine: Engine, *_: Any) -> Json:
    return {"service_tier": "default", "system_fingerprint": f"fp_{engine.digest('fingerprint')[:10]}"}


CHAT = Shape(
    rows=chat_rows,
    first={"role": "assistant", "content": ""},
    message=lambda *_: {"refusal": None, "annotations": []},
    reply=_reply,
    event=_reply,
    apart=True,
)
COMPLETIONS = Shape(rows=legacy_rows, reply=_reply, event=_reply)

WRITER = Writer("openai", HABITS, routes(HABITS, CHAT, COMPLETIONS, "system"), refuse)
