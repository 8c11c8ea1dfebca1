"""One address of the admin port as a value: the router, the guard and the OpenAPI description are all made of the same table of them.

House rules. Values only. What is not in a table is not answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any

from aiohttp import web
from msgspec import Struct

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guard(Enum):
    """Who is answered. ``OPEN``: everybody; ``DOOR``: everybody who asks for this machine's own name (the sign-in); ``READ``, ``CHANGE``: see ``access``."""

    OPEN = "open"
    DOOR = "door"
    READ = "read"
    CHANGE = "change"


class Parameter(Struct, frozen=True):
    """One parameter; ``place``: query or path; ``schema``: JSON Schema."""

    name: str
    text: str
    schema: dict[str, Any]
    place: str = "query"


class Endpoint(Struct, frozen=True):
    """``page``: the name by which ``admin_public`` may open it, "" for none.

    ``answer``: JSON Schema of what 200 brings, None where it is no JSON (then ``media`` says what); ``body`` that of what is sent. ``also``: further statuses
    with what they mean; refusals that any address may give (400, 401, 403, 421, 429) are not listed. ``back``: the page to which a
    browser returns that had to sign in first.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    page: str = ""
    guard: Guard = Guard.READ
    parameters: tuple[Parameter, ...] = ()
    answer: dict[str, Any] | None = None
    body: dict[str, Any] | None = None
    media: str = "application/json"
    also: dict[int, str] = {}
    back: str = "/"

    @property
    def markup(self) -> bool:
        """Whether a browser shows it: refusals are pages then, and a missing sign-in leads to it."""
        return self.media == "text/html"


#: Everything that an application answers, for whoever describes it.
ENDPOINTS: web.AppKey[Iterable[Endpoint]] = web.AppKey("endpoints", Iterable)
