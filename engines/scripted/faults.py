"""Which request fails, and how: the script's faults, counted.

House rules. No I/O: the edge asks ``Ailments.next`` once a request and does what it says.
"""

from __future__ import annotations

from dataclasses import dataclass

from engines.scripted.script import Fault, Faults

#: Routes that generate: what ``paths`` means when it is empty.
GENERATING = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/v1/rerank",
        "/v1/score",
        "/completion",
        "/generate",
        "/generate_stream",
        "/api/chat",
        "/api/generate",
    }
)


@dataclass(slots=True)
class Ailments:
    """Counts the requests that the script's faults are about."""

    faults: Faults
    seen: int = 0

    def next(self, path: str) -> Fault:
        """Say what befalls this request."""
        about = path in self.faults.paths if self.faults.paths else path in GENERATING
        if self.faults.kind == "none" or not about:
            return "none"
        place = self.seen - self.faults.after
        self.seen += 1
        if place < 0 or (self.faults.times is not None and place >= self.faults.times):
            return "none"
        return self.faults.kind
