"""How a request of any compared route is put to an engine, and how its answer is read: by the engine's dialect, or by the route.

House rules. Pure. A dialect knows chat and completions, where engines differ; of the other routes each has one shape that all engines share.
"""

from __future__ import annotations

from engines import alike
from engines.alike import Known
from engines.dialect import Answer, Dialect, Endpoint, Json
from engines.endpoints import messages, ranking, responses, vectors
from proxy.compare.token_stream import Reply


def ask(dialect: Dialect, endpoint: Endpoint, body: Json, top: int) -> Json:
    """Return the body for a shadow: what its dialect adds to be told logprobs and ids; elsewhere a copy that stores nothing."""
    match endpoint:
        case Endpoint.CHAT | Endpoint.COMPLETIONS:
            return dialect.ask(endpoint, body, top)
        case Endpoint.RESPONSES:
            return {**body, "store": False}  # left out it means true
        case Endpoint.MESSAGES | Endpoint.EMBEDDINGS | Endpoint.RERANK | Endpoint.SCORE | Endpoint.OTHER:
            return dict(body)


def read(dialect: Dialect, endpoint: Endpoint, body: Json, answer: Answer, known: Known | None = None) -> Reply:
    """Read the answer to ``body``. Total, as a dialect's ``read`` is. ``known``: one that may say the same, and has been read."""
    match endpoint:
        case Endpoint.CHAT | Endpoint.COMPLETIONS | Endpoint.OTHER:
            return alike.read(dialect, endpoint, body, answer, known)
        case Endpoint.RESPONSES:
            return responses.read(body, answer)
        case Endpoint.MESSAGES:
            return messages.read(body, answer)
        case Endpoint.EMBEDDINGS:
            return vectors.read(body, answer)
        case Endpoint.RERANK | Endpoint.SCORE:
            return ranking.read(body, answer)
