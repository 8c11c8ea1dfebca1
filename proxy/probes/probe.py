"""A set of probes, and its file.

House rules. Frozen values; reading and writing one file. The file holds prompts: it is written for its owner alone. Gaps are in nats, log p(first) - log p(second).
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

SCHEMA: Literal["parhelion.probes/1"] = "parhelion.probes/1"
MOST = 512  # probes of a set


class BadProbes(Exception):
    """A file of probes, or of a baseline, cannot be used; the text names it and says why."""


class Named(Struct, frozen=True):
    """A token as an engine names it."""

    id: int | None = None
    text: str | None = None

    def same(self, id: int | None, text: str | None) -> bool:  # noqa: A002 - the contract's word
        """Say whether it is that token: by id where both have one, else by text."""
        if self.id is not None and id is not None:
            return self.id == id
        return self.text is not None and self.text == text


class Probe(Struct, frozen=True):
    """One question: the next token after ``ids`` (or after ``text``, for engines that take no ids). ``first`` and ``second`` are the most likely, ``gap`` apart."""

    name: str
    ids: tuple[int, ...]
    first: Named
    second: Named
    gap: float
    text: str | None = None


class ProbeSet(Struct, frozen=True):
    """Probes of one model. ``floor``: the noise above which their gaps were chosen, nats; ``made``: Unix seconds; ``engine``: the dialect they were mined with."""

    model: str
    probes: tuple[Probe, ...]
    floor: float
    made: float
    engine: str
    schema: Literal["parhelion.probes/1"] = SCHEMA

    @property
    def id(self) -> str:
        """What the questions are: equal for equal questions, whatever their names."""
        whole = msgspec.json.encode([[one.ids, one.first, one.second] for one in self.probes])
        return blake2b(whole, digest_size=8).hexdigest()


def load(path: Path) -> ProbeSet:
    """Read a set. Raises BadProbes."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ProbeSet)
    except OSError as error:
        raise BadProbes(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError:
        raise BadProbes(f"{path}: not a file of `parhelion probes mine`") from None
    if not 0 < len(found.probes) <= MOST:
        raise BadProbes(f"{path}: {len(found.probes)} probes; from 1 to {MOST} can be asked")
    for one in found.probes:
        if not (one.ids or one.text) or not all(0 <= id_ < 1 << 31 for id_ in one.ids):
            raise BadProbes(f"{path}: a probe has no prompt, or an id that is none of a vocabulary")
    return found


def save(path: Path, value: Struct) -> None:
    """Write a value whole or not at all, for its owner alone. Raises BadProbes."""
    beside = path.with_name(path.name + ".new")
    try:
        beside.unlink(missing_ok=True)  # whoever made it would own, or lead elsewhere, what we write
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
        beside.replace(path)
    except OSError as error:
        raise BadProbes(f"{path} cannot be written: {error.strerror}") from None
