"""What a form of ours sends, read: URL-encoded, short, each field once.

House rules. No other encoding is read: multipart has been the way into too many servers, and no page of ours sends it.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from aiohttp import web

from proxy.ledger.listing import QueryError

_MOST_FIELDS = 20


async def fields(request: web.Request) -> dict[str, str]:
    """Return the fields of a posted form. Raises QueryError."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise QueryError("the form must be URL-encoded (application/x-www-form-urlencoded)")
    try:
        text = (await request.read()).decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise QueryError("the form cannot be read") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise QueryError("a field of the form came more than once")
    return found


def local(address: str) -> str:
    """Return an address on this port as it is, and ``/`` for any that a browser could take for one elsewhere."""
    plain = address.isascii() and address.isprintable() and "\\" not in address
    return address if plain and address.startswith("/") and not address.startswith("//") else "/"
