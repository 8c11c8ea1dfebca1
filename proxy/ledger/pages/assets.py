"""Style, scripts and pictures of the pages, served from memory under a name that holds their content's hash.

House rules. Files of this package alone; a name that is not in the table does not exist. What has such a name never changes: a browser keeps it for a year.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from aiohttp import web
from msgspec import Struct

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}


class Asset(Struct, frozen=True):
    """One file: the name in its address, and what it is."""

    name: str
    kind: str
    content: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return all files by their own name."""
    found = {}
    for file in files(__package__).joinpath("static").iterdir():
        stem, dot, ending = file.name.rpartition(".")
        if (kind := _KINDS.get(dot + ending)) is not None:
            content = file.read_bytes()
            mark = hashlib.sha256(content).hexdigest()[:12]
            found[file.name] = Asset(f"{stem}.{mark}.{ending}", kind, content)
    return found


def asset(name: str) -> str:
    """Return the address of a file. Raises KeyError."""
    return f"/static/{assets()[name].name}"


@cache
def _by_address() -> dict[str, Asset]:
    return {one.name: one for one in assets().values()}


async def static(request: web.Request) -> web.Response:
    """Serve one file."""
    found = _by_address().get(request.match_info["name"])
    if found is None:
        raise web.HTTPNotFound
    return web.Response(body=found.content, content_type=found.kind, charset="utf-8", headers=_KEPT)
