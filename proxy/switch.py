"""The kill switch: which shadows are mirrored to, whatever the configuration says.

House rules. Pure. It names shadows that may not be configured (any more): what was switched off stays off when it comes back.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from proxy.config import Config


class Switch(Struct, frozen=True, forbid_unknown_fields=True):
    """``enabled``: whether anything is mirrored at all; ``off``: shadows that are not, sorted."""

    enabled: bool = True
    off: tuple[str, ...] = ()

    def on(self, shadow: str) -> bool:
        """Whether a shadow is mirrored to."""
        return self.enabled and shadow not in self.off

    def turned(self, *, enabled: bool, shadow: str | None) -> Switch:
        """The switch after one change: of one shadow, or of all that is mirrored (None)."""
        if shadow is None:
            return replace(self, enabled=enabled)
        off = set(self.off) - {shadow} if enabled else {*self.off, shadow}
        return replace(self, off=tuple(sorted(off)))


ON = Switch()


def mirrored(config: Config, switch: Switch) -> Config:
    """The configuration as the live path must see it: without a shadow to mirror to, nothing is sampled."""
    shadows = tuple(shadow for shadow in config.shadows if switch.on(shadow.name))
    return config if len(shadows) == len(config.shadows) else replace(config, shadows=shadows)
