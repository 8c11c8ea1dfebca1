"""The rules of what is known on disk: ``known.json`` in the state directory, written whole or not at all.

House rules. What cannot be read marks nothing and is said; it is never written over. One writer at a time: the admin port's lock.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from proxy.config import Config
from proxy.ledger.known import KnownError, Rules, sound
from proxy.ledger.totals import replace_file

FILE = "known.json"


def load(config: Config) -> Rules:
    """Read the rules; none where nobody has made one. Raises KnownError."""
    path = Path(config.state) / FILE
    try:
        rules = msgspec.json.decode(path.read_bytes(), type=Rules)
        for rule in rules.rules:
            sound(rule)
    except FileNotFoundError:
        return Rules()
    except KnownError as error:
        raise KnownError(f"state: {path}: {error}; mend it, or delete it to begin anew", 503) from None
    except (OSError, ValueError):
        raise KnownError(
            f"state: {path} does not say what is known; mend it, or delete it to begin anew", 503
        ) from None
    return rules


def save(config: Config, rules: Rules) -> None:
    """Keep the rules. Raises KnownError."""
    path = Path(config.state) / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(rules) + b"\n")
    except OSError as error:
        raise KnownError(f"state: {path} cannot be written: {error.strerror}", 503) from None
