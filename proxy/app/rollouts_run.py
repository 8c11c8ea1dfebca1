"""The work of ``parhelion rollouts``: a file of JSON lines, scored by an engine where no trainer has, compared, shown and held against limits.

House rules. Reads, asks, prints; what is computed is ``proxy.rollouts``. Exit status 0, 1 when a limit is not kept, 2 when nothing can be compared.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from rich.console import Console

from engines.http_fetch import connect
from engines.registry import NAMES
from proxy.app.reporting import heard, write_json
from proxy.config_file import ConfigError
from proxy.config_load import check_url
from proxy.rollouts.gate import Limits, over
from proxy.rollouts.lines import BadFile, rollouts_in
from proxy.rollouts.measured import Settings
from proxy.rollouts.render import render
from proxy.rollouts.rollout import Rollout, Unusable
from proxy.rollouts.scoring import NoScores, scored, scorer
from proxy.rollouts.tally import Tally

_SHOWN = 5  # faults that are told one by one
_SECONDS = 600.0


class Asked(Struct, frozen=True):
    """The engine that scores: its base URL, dialect ("auto": detected), model, how many rollouts at once, and its key."""

    url: str
    engine: str
    model: str | None
    concurrency: int
    api_key: str | None = None


def run(file: Path, settings: Settings, limits: Limits, asked: Asked | None, json: Path | None) -> int:
    """Compare a file of rollouts; return the exit status. Raises ConfigError."""
    if asked is not None:
        check_url(asked.url, "--shadow")
        if asked.engine != "auto" and asked.engine not in NAMES:
            raise ConfigError(f"--engine: {asked.engine!r} is not known; choose one of {', '.join(NAMES)}")
    errors = Console(stderr=True, highlight=False)
    tally = Tally(settings)
    source = _told(rollouts_in(file), tally, errors)
    try:
        if asked is None:
            for _, rollout in source:
                tally.add(rollout)
        else:
            asyncio.run(_score(source, tally, errors, asked))
    except BadFile as error:
        raise ConfigError(str(error)) from None
    measured = tally.measured()
    if json is not None:
        write_json(json, measured.to_dict())
    with heard():
        render(measured, Console(), shlex.join(["parhelion", *sys.argv[1:]]))
    if not measured.rollouts:
        raise ConfigError(f"{file}: no rollout could be compared")
    found = over(measured, limits)
    for line in found:
        errors.print(f"over the limit: {line}", markup=False)
    return 1 if found else 0


def _told(
    source: Iterator[tuple[int, Rollout | Unusable]], tally: Tally, errors: Console
) -> Iterator[tuple[int, Rollout]]:
    """The usable ones; the others are counted, and the first few told with their line."""
    for number, rollout in source:
        if isinstance(rollout, Rollout):
            yield number, rollout
        else:
            _fault(number, rollout, tally, errors)


def _fault(number: int, fault: Unusable, tally: Tally, errors: Console) -> None:
    if sum(tally.unusable.values()) < _SHOWN:
        errors.print(f"line {number}: {fault}", markup=False)
    tally.unusable[fault.reason] += 1


async def _score(source: Iterator[tuple[int, Rollout]], tally: Tally, errors: Console, asked: Asked) -> None:
    try:
        async with connect(asked.url, api_key=asked.api_key, timeout=_SECONDS) as fetch:
            by = await scorer(fetch, asked.engine, asked.model)
            async for number, rollout in scored(source, by, asked.concurrency):
                if isinstance(rollout, Rollout):
                    tally.add(rollout)
                else:
                    _fault(number, rollout, tally, errors)
    except NoScores as error:
        raise ConfigError(f"--shadow: {error}") from None
