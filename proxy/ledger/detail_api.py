"""What is kept beside a record, and the commands that repeat it, for programs.

House rules. Reads alone. What is not there is said with the setting that would have kept it.
"""

from __future__ import annotations

import msgspec
from aiohttp import web

from proxy.config import Config
from proxy.ledger.detail import Detail
from proxy.ledger.record import Record
from proxy.ledger.repeat import RepeatError, shell
from proxy.ledger.site import SITE
from proxy.ledger.store import Store

_encoder = msgspec.json.Encoder()


async def detail(request: web.Request) -> web.Response:
    """Give both arms' tokens of one record."""
    site = request.app[SITE]
    record, found = await site.read(read, site.config, request.match_info["id"])
    if record is None:
        return _nothing("no such record is kept")
    if found is None:
        return _nothing(
            "no tokens are kept beside this record: that takes a difference or finding, or records.content: text"
        )
    return web.Response(body=_encoder.encode(found), content_type="application/json")


async def repeat(request: web.Request) -> web.Response:
    """Give the commands that repeat one record."""
    site = request.app[SITE]
    record, found = await site.read(read, site.config, request.match_info["id"])
    if record is None:
        return _nothing("no such record is kept")
    try:
        return web.json_response({"schema": "parhelion.repeat/1", "shell": shell(record, found, site.config)})
    except RepeatError as error:
        return _nothing(str(error))


def read(config: Config, id: str) -> tuple[Record | None, Detail | None]:  # noqa: A002 - the contract's word
    """Look a record up with its detail. Raises StoreError."""
    with Store.open_read_only(config.records.url) as store:
        return store.record(id), store.detail(id)


def _nothing(why: str) -> web.Response:
    return web.json_response({"error": why}, status=404)
