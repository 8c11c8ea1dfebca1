"""Reading the configuration again while serving: when, what of it takes effect, and what it comes to when it is wrong.

House rules. A configuration takes effect whole or not at all, and a wrong one leaves the old one in force. What only a restart can change keeps its
value and is named in the log. Nothing here touches a process: who does is handed in as ``apply``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from proxy import logs
from proxy.config import Config
from proxy.config_file import ConfigError
from proxy.config_load import checked

logger = logging.getLogger("parhelion")

#: What is bound, opened or started once in the life of a replica.
NEEDS_RESTART = ("listen", "admin", "processes", "state", "handoff", "records.url", "spool")
_LOOK_EVERY = 0.5  # seconds; a changed file is read when two looks have found it the same
_Signature = tuple[int, int, int] | None


def taken_over(old: Config, new: Config) -> tuple[Config, list[str], list[str]]:
    """The configuration to work by from now on, the keys that change, and those that would need a restart. Raises ConfigError.

    What needs a restart keeps its old value, and the mixture must hold too.
    """
    waiting = [key for key in NEEDS_RESTART if _at(old, key) != _at(new, key)]
    for key in waiting:
        new = _with(new, key, _at(old, key))
    changed = [name for name, value in asdict(new).items() if value != getattr(old, name)]
    return checked(new), changed, waiting


def _at(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = getattr(config, part, None)  # a section that may be null has no keys then
    return config


def _with(config: Config, key: str, value: Any) -> Config:
    section, _, part = key.partition(".")
    if not part:
        return replace(config, **{section: value})
    below = getattr(config, section)
    return config if below is None else replace(config, **{section: replace(below, **{part: value})})


def _signature(path: Path) -> _Signature:
    """What changes with a file's content, a symbolic link to elsewhere included (as Kubernetes swaps its volumes); None without a file."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_ino


@dataclass(slots=True)
class Reload:
    """When to read again, and what came of it.

    ``load`` reads all sources anew and raises ConfigError; ``apply`` has a configuration take effect and tells whether every process took it;
    ``path`` is the file to look at, None without one. ``failed`` and ``succeeded`` (Unix seconds) are for the metrics.
    """

    config: Config
    load: Callable[[], Config]
    apply: Callable[[Config], Awaitable[bool]]
    path: Path | None = None
    failed: bool = False
    succeeded: float = field(default_factory=time.time)
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        """Read again soon (SIGHUP)."""
        self._wanted.set()

    async def run(self) -> None:
        """Read again whenever asked, or when the file has changed."""
        seen = before = _signature(self.path) if self.path is not None else None
        while True:
            asked = await self._asked()
            now = _signature(self.path) if self.path is not None else None
            settled, before = now == before, now
            if asked or (settled and now is not None and now != seen):
                seen = now
                await self.again()

    async def _asked(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_EVERY if self.path is not None else None):
                await self._wanted.wait()
        asked = self._wanted.is_set()
        self._wanted.clear()
        return asked

    async def again(self) -> None:
        """Read again now."""
        try:
            if self.path is not None and self.path.exists() and not self.path.is_file():
                raise ConfigError(f"{self.path}: is not a plain file, and cannot be read again")  # a pipe would hold us
            config, changed, waiting = taken_over(self.config, self.load())
            if waiting:
                logs.say(logger, logging.WARNING, "config_needs_restart", keys=waiting)
            if changed and not await self.apply(config):
                raise ConfigError("a process could not take it; the log above says which and where")
        except ConfigError as error:
            self.failed = True
            logs.say(
                logger, logging.ERROR, "config_refused", error=str(error), remedy="mend it; the old one is in force"
            )
            return
        self.config, self.failed, self.succeeded = config, False, time.time()
        logs.say(logger, logging.INFO, "config_reloaded", changed=changed)
