"""Which route a request is for: its label, and whether it is inference that may be mirrored.

House rules. Pure, and decided on the raw path: nothing is decoded or normalised, so that what is not recognised as it stands is passed
through and never mirrored. Mirroring the wrong route (weights, cache flush, model load) would do harm; missing one loses a sample.

Engines serve the same routes below a prefix (Azure deployments, gateways) and some without ``/v1`` (llama.cpp ``/chat/completions`` and
``/reranking``, vLLM ``/score`` and ``/rerank``, ``/v2/rerank``), hence the match on the end of the path. ``/responses`` and ``/messages`` count only as
``/v1/responses`` and ``/v1/messages``: elsewhere these words name other things. Ollama's ``/api/chat`` and ``/api/generate`` count as chats; their
streams are lines and no events, so nothing is injected there.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from proxy.counters import ENDPOINTS


class Route(Struct, frozen=True):
    """``index`` into ``ENDPOINTS``; ``mirrored`` when a POST to it is inference.

    ``generates`` when its reply is a token stream that logprobs can be asked for.
    """

    index: int
    mirrored: bool = False
    generates: bool = False

    @property
    def endpoint(self) -> str:
        """The label."""
        return ENDPOINTS[self.index]


def _inference(name: str, *, generates: bool = False) -> Route:
    return Route(ENDPOINTS.index(name), mirrored=True, generates=generates)


_CHAT = _inference("chat_completions", generates=True)
_OLLAMA = _inference("chat_completions")
_OTHER = Route(ENDPOINTS.index("other"))
_TOKENIZE = Route(ENDPOINTS.index("tokenize"))
_MODELS = Route(ENDPOINTS.index("models"))
#: In this order: a chat path ends with "/completions" too.
_ENDINGS = (
    (b"/chat/completions", _CHAT),
    (b"/completions", _inference("completions", generates=True)),
    (b"/api/chat", _OLLAMA),
    (b"/api/generate", _OLLAMA),
    (b"/v1/responses", _inference("responses")),
    (b"/v1/messages", _inference("messages")),
    (b"/embeddings", _inference("embeddings")),
    (b"/rerank", _inference("rerank")),
    (b"/reranking", _inference("rerank")),
    (b"/score", _inference("score")),
    (b"/tokenize", _TOKENIZE),
    (b"/detokenize", _TOKENIZE),
    (b"/v1/models", _MODELS),
)


@lru_cache(maxsize=1024)
def route_of(path: bytes) -> Route:
    """Return the route of a raw path without its query."""
    for ending, route in _ENDINGS:
        if path.endswith(ending):
            return route
    return _MODELS if b"/v1/models/" in path else _OTHER
