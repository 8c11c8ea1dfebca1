"""Sampled requests, drawn several times of each arm: another sampler is found, the same one is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from proxy.compare.comparison import Comparison, Mode
from proxy.ledger.record import Content, Record
from proxy.ledger.store import Store
from proxy.replay.draws import discrepancies, sentence
from proxy.replay.session import Choices, opened
from proxy.replay.traffic import open_traffic
from tests.replay.replaying import engines, requests
from tests.replay.test_session import configured, running


def record(number: int, primary: str, shadow: str | None, prompt: str = "p") -> Record:
    said = Content("{}", (primary,), () if shadow is None else (shadow,))
    comparison = Comparison(mode=Mode.FREE, incomparable="sampled")
    return Record(f"{number}", 0.0, f"{number}", "m", "completions", "s", "candidate", comparison, content=said, prompt=prompt)  # fmt: skip


def test_only_prompts_with_two_draws_of_each_count() -> None:
    records = [record(n, f"a{n}", "b" if n else None) for n in range(3)] + [record(9, "x", "y", "once")]
    scored = replace(record(5, "z", "z"), comparison=Comparison(mode=Mode.FORCED))
    found = discrepancies([*records, scored])["s"]
    assert found is not None
    assert (found["prompts"], found["ours"], found["theirs"], found["left_out"]) == (1, 3, 2, 1)
    assert sentence("s", found).startswith(
        "s: 3 draws of the primary, 2 of its own at 1 sampled prompts, 1 prompts left out: MMD^2 "
    )
    assert discrepancies([records[-1]]) == {"s": None}
    assert "nothing can be said" in sentence("s", None)
    assert discrepancies([scored]) == {}


def test_a_sampler_of_another_temperature_is_found_and_the_same_is_not(tmp_path: Path) -> None:
    traffic = open_traffic(requests(tmp_path / "a.jsonl", 8, temperature=1.0, seed=1, max_tokens=12))
    choices = Choices(concurrency=4, repeats=6, draws=True)
    other = {"candidate": {"differences": {"noise": 3.0}}, "control": {}}
    with engines(tmp_path, **other) as flags:
        urls = {"primary": flags[1], "candidate": flags[3].partition("=")[2], "control": flags[5]}
        for part in (20, 48):  # the draws of an earlier run are gone on with
            with opened(configured(urls), traffic, choices, tmp_path / "a.db", fresh=False) as session:
                asyncio.run(running(session, part, session.stop))
    traffic.close()
    with Store.open_read_only(f"sqlite:///{tmp_path / 'a.db'}") as store:
        records = list(store.records())
    found = discrepancies(records)
    assert found.keys() == {"candidate", "control"}
    for one in found.values():
        assert one is not None
        assert (one["prompts"], one["ours"], one["theirs"], one["left_out"]) == (8, 48, 48, 0)
    assert found["candidate"] is not None
    assert found["control"] is not None
    assert found["candidate"]["p_value"] <= 0.01
    assert found["control"]["p_value"] > 0.05
    seeds = {one.content.request.partition('"seed":')[2].partition(",")[0].strip("}") for one in records if one.content}
    assert seeds == {"1", "2", "3", "4", "5", "6"}
