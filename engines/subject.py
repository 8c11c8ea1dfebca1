"""The engine that is being probed: how the canary and questions like it are put to it.

House rules. Asks through the injected ``fetch`` only; an answer that cannot be used is a ``Reply`` with its error.
"""

from __future__ import annotations

from msgspec import Struct

from engines import canary
from engines.dialect import Call, Dialect, Endpoint, Fetch, Json
from proxy.compare.token_stream import Reply

_PATHS = {Endpoint.CHAT: "/v1/chat/completions", Endpoint.COMPLETIONS: "/v1/completions"}


class Subject(Struct, frozen=True):
    """What every question of a probe needs."""

    fetch: Fetch
    dialect: Dialect
    model: str
    endpoint: Endpoint

    async def send(self, body: Json) -> Reply:
        """Send a body as it is."""
        return self.dialect.read(self.endpoint, body, await self.fetch(Call(_PATHS[self.endpoint], body)))

    async def put(self, question: Json, top: int) -> Reply:
        """Put a question with ``top`` alternatives."""
        return await self.send(self.dialect.ask(self.endpoint, question, top))

    async def ask(self, top: int, *, length: int = canary.LENGTH, temperature: float = 0.0) -> Reply:
        """Put the canary with ``top`` alternatives."""
        asked = canary.question(self.endpoint, self.model, length=length, temperature=temperature)
        return await self.put({**asked, "seed": 1} if temperature else asked, top)
