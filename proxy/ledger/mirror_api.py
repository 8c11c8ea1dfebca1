"""The kill switch on the admin port: ``GET`` says what is mirrored, ``POST`` stops or starts it.

House rules. A request is understood whole or refused with what would be right; who may ask is decided before (``access``).
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from proxy.config import Config
from proxy.ledger.operation import Operation
from proxy.switch import Switch

#: A change is one short object.
MAX_BODY = 4096
_EXAMPLE = '{"enabled": false} or {"enabled": false, "shadow": "NAME"}'


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked: of one shadow, or of all that is mirrored."""

    enabled: bool
    shadow: str | None = None


class ChangeError(Exception):
    """It cannot be done; the text says what would be right."""


def position(config: Config, switch: Switch) -> dict[str, Any]:
    """What is mirrored, as JSON."""
    return {
        "schema": "parhelion.mirror/1",
        "enabled": switch.enabled,
        "shadows": {shadow.name: switch.on(shadow.name) for shadow in config.shadows},
    }


async def change(operation: Operation, body: bytes, asking: asyncio.Lock) -> dict[str, Any]:
    """Do what ``body`` asks. Raises ChangeError. One change at a time, each of the position that the one before left."""
    try:
        wanted = msgspec.json.decode(body, type=Change)
    except msgspec.DecodeError:
        raise ChangeError(f"the body must be a JSON object such as {_EXAMPLE}") from None
    async with asking:
        names = [shadow.name for shadow in operation.config.shadows]
        if wanted.shadow is not None and wanted.shadow not in names:
            raise ChangeError(f"no shadow has that name; configured are: {', '.join(names) or 'none'}")
        kept = await operation.turn(operation.switch.turned(enabled=wanted.enabled, shadow=wanted.shadow))
        return position(operation.config, operation.switch) | {"survives_restart": kept}
