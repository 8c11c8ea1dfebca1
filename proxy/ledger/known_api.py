"""The rules of what is known on the admin port: ``GET`` lists them, ``POST`` adds or renews one, ``DELETE`` takes one away.

House rules. Who may ask is decided before (``access``). One change at a time, each of what the one before left.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from proxy.config import Config
from proxy.ledger import known_file
from proxy.ledger.known import KnownError, Rule, as_json, read
from proxy.ledger.site import SITE, Site


async def known(request: web.Request) -> web.Response:
    """Say what is known, or change it."""
    site = request.app[SITE]
    try:
        match request.method:
            case "POST":
                return web.json_response(await add(site, read(await request.read(), site.clock())))
            case "DELETE":
                return web.json_response(await forget(site, request.match_info["name"]))
            case _:
                return web.json_response(as_json(await site.read(known_file.load, site.config), site.clock()))
    except KnownError as error:
        return web.json_response({"error": str(error)}, status=error.status)


async def add(site: Site, rule: Rule) -> dict[str, Any]:
    """Add a rule, or renew the one of its name; return all. Raises KnownError."""
    async with site.changing:
        return await asyncio.to_thread(_added, site.config, rule, site.clock())


async def forget(site: Site, name: str) -> dict[str, Any]:
    """Take a rule away; return the rest. Raises KnownError."""
    async with site.changing:
        return await asyncio.to_thread(_forgotten, site.config, name, site.clock())


def _added(config: Config, rule: Rule, now: float) -> dict[str, Any]:
    rules = known_file.load(config).having(rule, now)
    known_file.save(config, rules)
    return as_json(rules, now)


def _forgotten(config: Config, name: str, now: float) -> dict[str, Any]:
    rules = known_file.load(config).without(name)
    known_file.save(config, rules)
    return as_json(rules, now)
