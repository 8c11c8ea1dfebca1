"""A record store as it looks after a week: many varied records, made quickly, kept in a folder for the next run.

House rules. Everything goes through ``Store.settle``, so that what is measured is what a judge would have left. The same seed makes the same store. Numbers of the comparisons are drawn from
a few hundred templates: what a list or a report does with a record does not depend on whether its logprobs have been seen before.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from proxy.compare.comparison import Comparison, FlipClass, Mode
from proxy.compare.trial import Result
from proxy.config import Config
from proxy.ledger import engine_state, schema
from proxy.ledger.reconcile import Arm
from proxy.ledger.record import Record, Settlement
from proxy.ledger.store import Store
from proxy.ledger.tallies import Counted, Scope
from tests.ledger import filled

#: Records of one exchange: two shadows in two modes.
OF_ONE = 4
_TEMPLATES = 48
_BATCH = 512  # settlements
_SPAN = 7 * 86_400.0
_MODELS = (("llama-3.1-8b", 80), ("qwen3-32b", 15), ("smollm2-135m", 4), ("phi-4", 1))
_ENDPOINTS = (("chat_completions", 90), ("completions", 10))
_KINDS = (
    (None, 9000),
    (FlipClass.NEAR_TIE, 700),
    (FlipClass.EXACT_TIE, 200),
    (FlipClass.GENUINE, 95),
    (FlipClass.UNKNOWN, 5),
)
#: Findings by how many records in a million have one.
_FINDINGS = (("stop_handling", 20_000), ("usage_tokens", 3_000), ("bos_twice", 40), ("tool_call_name", 3))


def full(records: int, folder: Path | None = None) -> Config:
    """Return the configuration of a replica whose store holds so many records; made now unless it was before."""
    folder = folder or Path(tempfile.gettempdir()) / f"parhelion-store-{records}-{schema.VERSION}"
    done = folder / "done"
    config = filled.configuration(folder)
    if not done.exists():
        for left in folder.glob("store.db*"):
            left.unlink()
        began = time.monotonic()
        fill(config, records)
        done.write_text(f"{time.monotonic() - began:.0f}")
    return config


def fill(config: Config, records: int, *, seed: int = 3) -> None:
    """Settle so many records."""
    draw = random.Random(seed)
    with Store.open(config.records.url) as store:
        store.reconcile({}, [Arm(one.name, mode) for one in config.shadows for mode in one.modes])
        for id_, fields in filled.FOOTPRINTS.items():
            store.put_footprint(id_, fields, filled.NOW - _SPAN)
        state = {engine_state.KEY: engine_state.encode(filled.engines())}
        batch: list[Settlement] = []
        for one in settlements(draw, records // OF_ONE):
            batch.append(one)
            if len(batch) == _BATCH:
                store.settle(batch, state=state)
                batch = []
        store.settle(batch, state=state)


def settlements(draw: random.Random, exchanges: int) -> Iterator[Settlement]:
    """Yield what a week of exchanges left, in the order of their settling."""
    made = {
        (mode, kind): [made_of(draw, kind) for _ in range(_TEMPLATES)]
        for mode, made_of in ((Mode.FREE, filled.free), (Mode.FORCED, filled.forced))
        for kind, _ in _KINDS
    }
    for number in range(exchanges):
        at = filled.NOW - _SPAN + _SPAN * number / exchanges - draw.expovariate(0.2)
        model, endpoint = _one_of(draw, _MODELS), _one_of(draw, _ENDPOINTS)
        bad: list[bool] = []
        for shadow, role in ((filled.CANDIDATE, "candidate"), (filled.CONTROL, "control")):
            kind = _one_of(draw, _KINDS) if role == "candidate" or draw.random() < 0.4 else None
            bad.append(kind is FlipClass.GENUINE)
            for mode in (Mode.FREE, Mode.FORCED):
                comparison = _found(draw, draw.choice(made[mode, kind]), number)
                yield _settled(number, comparison, at, shadow=shadow, role=role, model=model, endpoint=endpoint)
        yield Settlement("i1", "", "", "settled", trials=(_trial(number, at, bad),))


def _found(draw: random.Random, comparison: Comparison, number: int) -> Comparison:
    findings = tuple(name for name, often in _FINDINGS if draw.random() < often / 1e6)
    if number == 7:
        findings = (*findings, "bos_twice")  # and a rare one far back
    if draw.random() < 0.01:
        return Comparison(mode=comparison.mode, incomparable="shadow_error", findings=("transport_errors",))
    return replace(comparison, findings=(*comparison.findings, *findings)) if findings else comparison


def _settled(number: int, comparison: Comparison, at: float, **fields: object) -> Settlement:
    id_ = f"{number:06x}{str(fields['role'])[:2]}{comparison.mode.value[:2]}"
    one: Record = replace(filled.record(id_, comparison, at, **fields), content=None)
    if one.role == "candidate":
        one = replace(one, shadow_footprint="c2")
    reason = comparison.incomparable
    return Settlement(
        "i1", one.shadow, comparison.mode.value, "incomparable" if reason else "compared", reason or "", one
    )


def _trial(number: int, at: float, bad: list[bool]) -> Counted:
    result = {(True, False): Result.WORSE, (False, True): Result.BETTER, (True, True): Result.BOTH}.get(
        (bad[0], bad[1]), Result.NEITHER
    )
    scope = Scope(filled.CANDIDATE, "p1", "c2", filled.CONTROL, "t1")
    causes = ["genuine_flip" if one else "" for one in bad]
    return Counted(scope, f"u{number}", f"q{number}", at, result, *causes)


def _one_of(draw: random.Random, weighted: tuple[tuple[object, int], ...]) -> object:
    values, weights = zip(*weighted, strict=True)
    return draw.choices(values, weights)[0]
