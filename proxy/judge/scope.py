"""Requests whose replies no other engine's can be held against, and why: what a reply depends on that only the primary has, or that must not be done twice.

House rules. Pure, over a client's parsed body, which is read leniently. Labels are bounded; each is explained in README.
"""

from __future__ import annotations

from typing import Any

from engines.dialect import Endpoint, Json

#: Tools that run at the client although their type is a provider's (Anthropic's names begin so, a date follows).
_CLIENT_TOOLS = ("bash_", "text_editor_", "computer_", "memory_")
#: Fields of ``/v1/responses`` that name what the primary has stored.
_STORED = ("previous_response_id", "conversation", "prompt")


def out_of_scope(endpoint: Endpoint, body: Json) -> str | None:
    """Return why the request is not mirrored, None when it can be.

    ``echo``: the prompt stands among the output's rows. ``infill``; ``search``: the tokens are those of a search, not of one step after another.
    ``stored_conversation``: the reply continues what only the primary has stored. ``background``: the reply is a promise of one.
    ``server_tools``: the engine itself would search, run code or call out, once more for each shadow.
    """
    match endpoint:
        case Endpoint.CHAT | Endpoint.COMPLETIONS:
            return _of_tokens(body)
        case Endpoint.RESPONSES:
            return _of_responses(body)
        case Endpoint.MESSAGES:
            server = body.get("mcp_servers") or body.get("container") or not _at_client(body.get("tools"))
            return "server_tools" if server else None
        case Endpoint.EMBEDDINGS | Endpoint.RERANK | Endpoint.SCORE | Endpoint.OTHER:
            return None


def _of_tokens(body: Json) -> str | None:
    if body.get("echo"):
        return "echo"
    if body.get("suffix"):
        return "infill"
    if body.get("use_beam_search") or (body.get("best_of") or 1) != 1:
        return "search"
    return None


def _of_responses(body: Json) -> str | None:
    if any(body.get(name) is not None for name in _STORED):
        return "stored_conversation"
    items = body.get("input")
    if isinstance(items, list) and any(
        isinstance(item, dict) and item.get("type") == "item_reference" for item in items
    ):
        return "stored_conversation"
    if body.get("background"):
        return "background"
    return None if _at_client(body.get("tools")) else "server_tools"


def _at_client(tools: Any) -> bool:
    """Whether every offered tool is run by the client."""
    return not isinstance(tools, list) or all(
        kind in (None, "function", "custom") or (isinstance(kind, str) and kind.startswith(_CLIENT_TOOLS))
        for kind in (tool.get("type") for tool in tools if isinstance(tool, dict))
    )
