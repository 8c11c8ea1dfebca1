"""Which requests the admin port answers at all, before any page is looked for.

aiohttp takes more for HTTP than a port behind other proxies should: HTTP/0.9 and 2.0 lines, targets that name an authority of their own, chunks in HTTP/1.0,
offers of another protocol. What is refused here is refused with a constant and the end of the connection.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from aiohttp import HttpVersion10, HttpVersion11, web

from proxy.ledger.endpoint import Handler


@runtime_checkable
class Watched(Protocol):
    """A connection with a deadline for what it sends."""

    def head_came(self, *, whole: bool) -> None:
        """Note a whole head; ``whole``: no body is still to come."""

    def answered(self) -> None:
        """Note that the answer to it is made."""


def refusal(request: web.BaseRequest) -> tuple[int, str] | None:
    """Status and constant text for a request that is not answered; None for one that is."""
    if request.version not in (HttpVersion10, HttpVersion11):
        return 505, "only HTTP/1.1 and HTTP/1.0 are spoken here"
    if not request.raw_path.startswith("/"):
        return 400, "the target must be a path on this port"  # in absolute form the client would choose the Host
    if request.version == HttpVersion10 and "Transfer-Encoding" in request.headers:
        return 400, "there are no chunks in HTTP/1.0"
    if "Upgrade" in request.headers and request.body_exists:
        return 400, "no other protocol is spoken here"
    return None


@web.middleware
async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what ``refusal`` says; close where nobody could say where the next request starts."""
    connection: object = request.protocol
    if isinstance(connection, Watched):
        connection.head_came(whole=not request.can_read_body)
    try:
        refused = refusal(request)
        if refused is not None:
            status, text = refused
            response: web.StreamResponse = web.json_response({"error": text}, status=status)
            response.force_close()
            return response
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.force_close()
            raise
        if request.can_read_body or "Upgrade" in request.headers:
            response.force_close()
        return response
    finally:
        if isinstance(connection, Watched):
            connection.answered()
