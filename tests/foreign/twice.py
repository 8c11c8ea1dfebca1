"""A foreign client run twice, against an engine and through Parhelion in front of it: what must be equal, and what must have been counted.

What differs from call to call by an engine's own doing, and nothing else, is levelled before the comparison: ids (each replaced by its order of first
appearance, so that the chunks of a stream must still share one), times of creation and llama.cpp's timings.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from proxy.demo.proxy_process import ProxyProcess
from tests.foreign.joined import joined
from tests.running import until

HERE = Path(__file__).parent
SECONDS = 240.0

#: What engines and clients put before the random part of an id.
_CALL_ID = re.compile(
    r"(?:chatcmpl|cmpl|resp|msg|call|rs|fc|embd|lc_run-|run-|item)[-_][\w-]+|[0-9a-f-]{32,36}|[0-9A-Za-z]{32}"
)
_IDS = {"id", "item_id", "call_id", "response_id", "tool_call_id", "request_id"}
_TIMES = {"created", "created_at", "completed_at", "timings"}


@dataclass(frozen=True)
class Front:
    """An engine and the proxy before it, which mirrors everything to ``shadow`` in these ``modes``.

    ``within``: how far the engine's own numbers may be from one call to the next. Nothing for one that takes requests one by one; vLLM puts those that
    come together into a batch, and the last digits depend on who was in it. ``lumps``: a late engine puts several tokens into one event.
    """

    engine: str
    proxy: ProxyProcess
    shadow: str
    modes: tuple[str, ...]
    within: float = 0.0
    lumps: bool = False


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> str:
    """A client's output; fails with its own words when it does."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", **(environment or {})},
    )
    assert done.returncode == 0, f"{command[1]} exited with {done.returncode}:\n{done.stderr[-3000:]}"
    return done.stdout


def results(command: Sequence[str | Path], front: Front, environment: Mapping[str, str] | None = None) -> list[Any]:
    """Direct and through: what a client script prints, for each of the two URLs, on its last line."""
    said = run([*command, front.engine, front.proxy.clients], environment)
    both = [steady(one) for one in json.loads(said.splitlines()[-1])]
    return [joined(one) for one in both] if front.lumps else both


def steady(value: Any) -> Any:
    """The same value without what changes from call to call."""
    return _steady(value, {})


def _steady(value: Any, seen: dict[str, str]) -> Any:
    match value:
        case dict():
            return {key: _field(key, one, seen) for key, one in value.items() if key not in _TIMES}
        case list():
            return [_steady(one, seen) for one in value]
    return value


def _field(key: str, value: Any, seen: dict[str, str]) -> Any:
    if key in _IDS and isinstance(value, str) and _CALL_ID.fullmatch(value):
        return seen.setdefault(value, f"<id {len(seen)}>")
    return _steady(value, seen)


def same(one: Any, other: Any, within: float) -> bool:
    """Equal in everything, but numbers with a fraction need only be as near as ``within`` (0: to the last bit)."""
    match one, other:
        case dict(), dict():
            return list(one) == list(other) and all(same(one[key], other[key], within) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other, repeat(within)))
        case float(), float():
            return one == other or abs(one - other) <= within
    return type(one) is type(other) and bool(one == other)


def counts(front: Front) -> dict[tuple[str, str], float]:
    """Of the mirror's counters, at rest: ``(name, mode)``, with mode empty where a counter has none."""
    proxy = front.proxy
    until(lambda: proxy.open_work() == 0, 150, "the settling")
    found = {(name, ""): proxy.metric(f"parhelion_{name}_total") for name in ("received", "sampled", "not_sampled")}
    for mode in front.modes:
        for name in ("compared", "incomparable", "shed"):
            found[name, mode] = proxy.metric(f"parhelion_{name}_total", shadow=front.shadow, mode=mode)
    return found


def counted(front: Front, before: dict[tuple[str, str], float], calls: int, *, compared: int) -> None:
    """See that the mirror has counted ``calls`` sampled ones, each exactly once a mode, and compared at least ``compared`` of them."""
    proxy = front.proxy
    until(lambda: proxy.metric("parhelion_sampled_total") - before["sampled", ""] >= calls, 30, "the sampling")
    since = {key: value - before[key] for key, value in counts(front).items()}
    print(f"\nmirror: {calls} calls, {since}")
    assert since["sampled", ""] == calls, since
    assert since["received", ""] == since["sampled", ""] + since["not_sampled", ""], since
    for mode in front.modes:
        assert since["compared", mode] + since["incomparable", mode] + since["shed", mode] == calls, since
        assert since["compared", mode] >= compared, since
        assert not since["shed", mode], since
