"""Which positions of which records become probes, and what the engine has to confirm."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from engines.dialect import Fetch
from engines.http_fetch import connect
from engines.registry import dialect
from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, FlipClass, Mode, Source, TokenRef
from proxy.ledger.record import Content, Record
from proxy.probes.ask import Subject
from proxy.probes.mine import floor_of, mined, spots
from tests.planted import serving


def flip(index: int) -> Flip:
    return Flip(index, TokenRef(id=1), TokenRef(id=2), FlipClass.NEAR_TIE, gap=0.01)


def record(number: int, gaps: tuple[float | None, ...], **fields: Any) -> Record:
    choice = ChoiceComparison(
        index=0, primary_tokens=len(gaps), shadow_tokens=len(gaps), compared=len(gaps), exposed=len(gaps), identical=True,
        ids=fields.pop("ids", tuple(range(302, 302 + len(gaps)))), gaps=gaps, **fields.pop("choice", {}),
    )  # fmt: skip
    body = fields.pop("body", {"model": "toy", "prompt": f"question {number}", "max_tokens": 8})
    made = {
        "id": f"r{number}", "time": 1.0, "exchange": f"x{number}", "model": "toy", "endpoint": "completions", "shadow": "s", "role": "candidate",
        "comparison": Comparison(mode=Mode.FREE, source=Source.REPLY, choices=(choice,)), "prompt": f"p{number}", "content": Content(json.dumps(body), ("",), ("",)),
    }  # fmt: skip
    return Record(**(made | fields))


def found(*records: Record, floor: float = 0.01, longest: int = 2048) -> list[tuple[str, int, float]]:
    return [(one.prompt, len(one.ids), one.gap) for one in spots(records, floor, longest)]


def test_gaps_above_the_noise_and_below_a_nat_are_taken_smallest_first() -> None:
    assert found(record(1, (0.5, 0.005, None, 0.02, 3.0, 0.03))) == [("p1", 3, 0.02), ("p1", 5, 0.03), ("p1", 0, 0.5)]


def test_every_prompt_has_its_turn_before_one_has_a_second() -> None:
    one, other = record(1, (0.02, 0.03, 0.04, 0.05, 0.06, 0.07)), record(2, (0.5, 0.9))
    assert found(one, other) == [
        ("p1", 0, 0.02), ("p2", 0, 0.5), ("p1", 1, 0.03), ("p2", 1, 0.9), ("p1", 2, 0.04), ("p1", 3, 0.05),
    ]  # fmt: skip


def test_the_same_request_seen_by_two_shadows_counts_once() -> None:
    assert found(record(1, (0.1,)), record(1, (0.1,), shadow="other")) == [("p1", 0, 0.1)]


def test_where_the_control_was_of_another_mind_nothing_is_taken() -> None:
    parted = record(1, (0.1, 0.2, 0.3), role="control", choice={"first": flip(1)})
    assert found(record(1, (0.1, 0.2, 0.3)), parted) == [("p1", 0, 0.1), ("p1", 2, 0.3)]


def test_a_position_behind_a_token_without_an_id_is_none() -> None:
    assert found(record(1, (0.1, 0.2, 0.3), ids=(1, None, 3))) == [("p1", 0, 0.1), ("p1", 1, 0.2)]


@pytest.mark.parametrize(
    "fields",
    [
        {"content": None},
        {"content": Content("0badc0de", ("",), ("",))},
        {"endpoint": "embeddings"},
        {"choice": {"positions": (0,)}},
    ],
    ids=["no content", "a hash", "no tokens", "a sample of positions"],
)
def test_what_cannot_be_asked_again_is_passed_over(fields: dict[str, Any]) -> None:
    assert found(record(1, (0.1,), **fields)) == []


def test_the_floor_is_the_controls_and_needs_enough_of_it() -> None:
    few = [record(1, (0.1,) * 150, role="control", choice={"gap_shifts": (0.01,) * 150})]
    assert floor_of(few) is None
    many = [record(1, (0.1,) * 400, role="control", choice={"gap_shifts": (0.001,) * 392 + (-0.05,) * 8})]
    assert floor_of(many) == pytest.approx(0.05)
    quiet = [record(1, (0.1,) * 400, role="control", choice={"gap_shifts": (0.0,) * 400})]
    assert floor_of(quiet) == 1e-4
    assert floor_of([record(1, (0.1,) * 400, choice={"gap_shifts": (0.5,) * 400})]) is None  # a candidate's is no noise


def test_only_what_the_engine_still_says_becomes_a_probe() -> None:
    async def main() -> None:
        async with serving("{}") as url, connect(url) as fetch:
            subject = Subject(fetch, dialect("vllm"))
            wanted = spots([record(number, (0.4,) * 6) for number in range(8)], 1e-4)
            probes, refused = await mined(subject, wanted, 4, 1e-4)
            assert 1 <= len(probes.probes) <= 4
            assert all(2e-4 <= one.gap <= 1.0 for one in probes.probes)
            assert len({one.ids for one in probes.probes}) == len(probes.probes)
            assert set(refused) <= {"moved"}
            short, why = await mined(subject, wanted, 4, 1e-4, longest=1)
            assert (short.probes, set(why)) == ((), {"too_long"})
        async with serving("{}", "openai") as url, connect(url) as fetch:
            none, why = await mined(Subject(fetch, dialect("openai")), wanted, 4, 1e-4)
            assert (none.probes, set(why)) == ((), {"not_rendered"})

    asyncio.run(main())


@pytest.mark.parametrize(("texts", "kept"), [(True, "as text"), (False, None)])
def test_tokens_are_told_as_text_only_where_text_may_be_kept(texts: bool, kept: str | None) -> None:
    given: list[tuple[int, ...]] = []

    async def as_text(fetch: Fetch, ids: tuple[int, ...], model: str | None) -> str:
        given.append(ids)
        return "as text"

    async def as_ids(fetch: Fetch, text: str, model: str | None) -> tuple[int, ...]:
        return given[-1]

    async def main() -> None:
        async with serving("{}") as url, connect(url) as fetch:
            speaks = replace(dialect("vllm"), detokenize=as_text, tokenize=as_ids)
            wanted = spots([record(number, (0.4,) * 6) for number in range(8)], 1e-4)
            probes, _ = await mined(Subject(fetch, speaks), wanted, 4, 1e-4, texts=texts)
            assert {one.text for one in probes.probes} == {kept}

    asyncio.run(main())
