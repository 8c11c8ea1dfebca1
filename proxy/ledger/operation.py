"""What the admin port knows and may change of the replica that serves it.

House rules. Values and a Protocol alone: the supervisor is one, and nothing here knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from proxy.config import Config
from proxy.switch import Switch


class Standing(Struct, frozen=True):
    """How it is operated now. ``mirrored``: by shadow; ``configured_at``: when the configuration in force was read (Unix seconds)."""

    mirrored: Mapping[str, bool]
    reload_failed: bool
    configured_at: float


class Operation(Protocol):
    """A running replica."""

    @property
    def config(self) -> Config:
        """The configuration in force."""
        ...

    @property
    def switch(self) -> Switch:
        """The kill switch's position."""
        ...

    def ready(self) -> bool:
        """Whether clients can be served now."""
        ...

    def standing(self) -> Standing:
        """How it is operated now."""
        ...

    async def turn(self, switch: Switch) -> bool:
        """Turn the kill switch; returns when every process has. False when the new position could not be kept for the next start."""
        ...
