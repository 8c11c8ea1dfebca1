"""The work of ``parhelion probes mine``: records in, the primary asked, a file of probes out.

House rules. Reads the store, asks the primary, writes one file. No prompt is printed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from engines.dialect import DialectError
from engines.http_fetch import connect
from engines.registry import detect, dialect
from proxy.app.reporting import since_time
from proxy.config import Config
from proxy.config_file import ConfigError
from proxy.ledger.query import Filter
from proxy.ledger.record import Record
from proxy.ledger.store import Store
from proxy.ledger.store_error import StoreError
from proxy.probes.ask import Subject
from proxy.probes.mine import ASSUMED_FLOOR, TRIES, Spot, floor_of, mined, spots
from proxy.probes.probe import BadProbes, ProbeSet, save

_RECORDS = 20_000  # the newest, as many as a machine reads in seconds
_SECONDS = 60.0


def run(config: Config, out: Path, number: int, since: str | None, longest: int) -> int:
    """Mine and write; return the exit status. Raises ConfigError."""
    records = _records(config, since)
    floor = floor_of(records)
    ties = spots(records, ASSUMED_FLOOR if floor is None else floor, longest)
    found = _whole(config, [one for one in ties if one.model == ties[0].model], number * TRIES)  # a set is of one model
    if not found:
        text = "" if any(one.content for one in records) else "; `records.content: text` keeps what is needed"
        sys.stderr.write(f"parhelion: no near tie in {len(records)} records that could be asked again{text}\n")
        return 1
    try:
        probes, refused = asyncio.run(_asked(config, found, number, ASSUMED_FLOOR if floor is None else floor, longest))
        if probes.probes:
            save(out, probes)
    except DialectError as error:
        raise ConfigError(f"primary: {error.reason}") from None
    except BadProbes as error:
        raise ConfigError(f"--out: {error}") from None
    prompts = len({one.prompt for one in ties})
    said = "assumed: no control has shown it" if floor is None else "the control's"
    sys.stdout.write(
        f"{len(probes.probes)} probes out of {len(ties)} near ties of {prompts} prompts in {len(records)} records; noise floor {probes.floor:.3g} nat ({said})\n"
    )
    for reason, count in sorted(refused.items()):
        sys.stdout.write(f"  {count} not taken: {reason}\n")
    if probes.probes:
        sys.stdout.write(f"written to {out}; it holds prompts of your traffic. Next: parhelion probes run {out} URL\n")
    return 0 if probes.probes else 1


def _records(config: Config, since: str | None) -> list[Record]:
    wanted = Filter(since=since_time(since, time.time()), limit=_RECORDS, newest_first=True)
    try:
        with Store.open_read_only(config.records.url) as store:
            return list(store.records(wanted))
    except StoreError as error:
        raise ConfigError(f"records.url: {error}") from None


def _whole(config: Config, found: list[Spot], enough: int) -> list[Spot]:
    """The first ``enough`` of records that the redaction hook left as they were: any other's ids, told as text, would be what it hid."""
    redacted: dict[str, bool] = {}
    kept: list[Spot] = []
    try:
        with Store.open_read_only(config.records.url) as store:
            for spot in found:
                if spot.record not in redacted:
                    detail = store.detail(spot.record)
                    redacted[spot.record] = detail is not None and detail.redacted
                kept += [] if redacted[spot.record] else [spot]
                if len(kept) >= enough:
                    break
    except StoreError as error:
        raise ConfigError(f"records.url: {error}") from None
    return kept


async def _asked(
    config: Config, found: list[Spot], number: int, floor: float, longest: int
) -> tuple[ProbeSet, dict[str, int]]:
    one = config.primary
    async with connect(one.url, api_key=one.api_key, timeout=_SECONDS) as fetch:
        speaks = dialect(one.engine if one.engine != "auto" else await detect(fetch))
        model = found[0].model or None
        return await mined(
            Subject(fetch, speaks, model), found, number, floor, longest, texts=config.records.redact is None
        )
