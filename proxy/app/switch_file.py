"""The kill switch's position on disk, in the state directory: it outlives every process, and every supervisor of a replica goes by it.

House rules. What cannot be read stops the start rather than mirror against somebody's will; while serving, the last position known stays in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from proxy import logs
from proxy.config_file import ConfigError
from proxy.ledger.totals import replace_file
from proxy.switch import Switch

logger = logging.getLogger("parhelion")

FILE = "mirror.json"
_LOOK_EVERY = 0.25  # another role's supervisor may have turned it


def load(state: Path) -> Switch:
    """The position; everything on when nobody has turned it yet. Raises ConfigError."""
    path = state / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Switch)
    except FileNotFoundError:
        return Switch()
    except (OSError, msgspec.DecodeError):
        raise ConfigError(
            f"state: {path} does not say what may be mirrored; mend it, or delete it to mirror to every shadow again"
        ) from None


def save(state: Path, switch: Switch) -> None:
    """Keep a position. Raises OSError."""
    replace_file(state / FILE, msgspec.json.encode(switch) + b"\n")


async def follow(state: Path, current: Callable[[], Switch], turn: Callable[[Switch], Awaitable[None]]) -> None:
    """Turn whenever the file has come to say otherwise than ``current``; for as long as it runs."""
    said, seen = False, current()
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        try:
            found = load(state)
        except ConfigError as error:
            if not said:
                logs.say(logger, logging.ERROR, "switch_unreadable", error=str(error))
            said = True
            continue
        said = False
        if found != seen and found != current():  # what could not be kept is not undone by what the file still says
            await turn(found)
        seen = found
