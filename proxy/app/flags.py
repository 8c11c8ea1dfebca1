"""Flags that several commands share, as a tree of the configuration's shape.

House rules. Pure; what a flag's value means is the configuration's to check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.config_file import ConfigError
from proxy.config_load import check_secret


def engine_flags(
    primary: str | None, shadow: list[str] | None, control: str | None, sample: float | None = None
) -> dict[str, Any]:
    """Return what ``--primary``, ``--shadow [name=]URL``, ``--control`` and ``--sample`` say."""
    flags: dict[str, Any] = {}
    if primary is not None:
        flags["primary"] = {"url": primary}
    if sample is not None:
        flags["sampling"] = {"rate": sample}
    shadows: list[dict[str, Any]] = []
    for number, text in enumerate(shadow or []):
        name, separator, url = text.partition("=")
        if not separator or "/" in name:
            name, url = f"shadow{number + 1}" if number else "shadow", text
        shadows.append({"name": name, "url": url})
    if control is not None:
        shadows.append({"name": "control", "url": control, "role": "control"})
    if shadows:
        flags["shadows"] = shadows
    return flags


def key_of(variable: str | None, environment: Mapping[str, str]) -> str | None:
    """Return the key that ``--api-key-env VARIABLE`` means, None without the option. Raises ConfigError, and quotes neither: the name may be the key itself, given by mistake."""
    if variable is None:
        return None
    key = environment.get(variable, "")
    if not key:
        raise ConfigError(
            "--api-key-env: there is no such environment variable, or it is empty; give the variable's name, never the key itself"
        )
    check_secret(key, "--api-key-env")
    return key
