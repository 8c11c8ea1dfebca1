"""Probes of real engines: the same engine again is unchanged, other arithmetic is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engines.http_fetch import connect
from engines.launch import start_llama
from engines.registry import dialect
from proxy.demo.weights import f32
from proxy.ledger.query import Filter
from proxy.ledger.store import Store
from proxy.probes.ask import Run, Subject, run
from proxy.probes.change import LEARNED, Change, block, compare
from proxy.probes.mine import floor_of, mined, spots
from proxy.probes.probe import ProbeSet
from tests.probes.recorded import fill

MODEL = "smollm2-135m"
ALPHA = 0.01 * 300 / 86400  # of a day with a look every five minutes


def mine(url: str, engine: str, store: Path, number: int) -> ProbeSet:
    """Short probes out of an engine's own replies."""
    fill(url, engine, MODEL, store, tokens=6, prompts=8)
    with Store.open_read_only(f"sqlite:///{store}") as opened:
        records = list(opened.records(Filter()))

    async def main() -> ProbeSet:
        async with connect(url) as fetch:
            floor = floor_of(records) or 1e-3
            return (await mined(Subject(fetch, dialect(engine), MODEL), spots(records, floor), number, floor, 20))[0]

    return asyncio.run(main())


def runs(url: str, engine: str, probes: ProbeSet, count: int) -> list[Run]:
    async def main() -> list[Run]:
        async with connect(url) as fetch:
            subject = Subject(fetch, dialect(engine), MODEL)
            return [await run(subject, probes.probes, f"{url}-{number}") for number in range(count)]

    return asyncio.run(main())


def held(probes: ProbeSet, base: list[Run], new: list[Run]) -> Change:
    return compare([one.name for one in probes.probes], base, new, ALPHA)


@pytest.mark.torch
def test_rounded_logits_and_noise_of_a_hundredth_are_noticed(reference_fp32: str, tmp_path: Path) -> None:
    probes = mine(reference_fp32, "reference", tmp_path / "s.db", 3)
    assert len(probes.probes) == 3
    base = runs(reference_fp32, "reference", probes, LEARNED)
    size = block(ALPHA)
    assert not held(probes, base, runs(reference_fp32, "reference", probes, size)).changed
    for fault, least in (("round-logits=bf16", 0.003), ("logit-noise=0.01", 0.002)):
        found = held(probes, base, runs(f"{reference_fp32}/planted/{fault}", "reference", probes, size))
        assert found.changed, fault
        assert least < found.largest < 0.3, fault


@pytest.mark.llama
def test_quantised_kernels_are_noticed_and_a_restart_is_not(smollm2_q4: Path, tmp_path: Path) -> None:
    full, log = f32(smollm2_q4, print), tmp_path / "log"
    with start_llama(full, alias=MODEL, log=log) as engine:
        probes = mine(engine.url, "llama_cpp", tmp_path / "s.db", 3)
        base = runs(engine.url, "llama_cpp", probes, LEARNED)
    size = block(ALPHA)
    with start_llama(full, alias=MODEL, log=log) as engine:
        again = held(probes, base, runs(engine.url, "llama_cpp", probes, size))
    assert (again.changed, again.flips) == (False, 0)
    assert again.largest < 1e-4
    with start_llama(smollm2_q4, alias=MODEL, log=log) as engine:
        found = held(probes, base, runs(engine.url, "llama_cpp", probes, size))
    assert found.changed
    assert found.shift > 0.01
