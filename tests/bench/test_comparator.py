"""What the comparator's bench measures is the comparison it says: every token of every case, and nothing refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.ledger.store import Key, Store
from tests.bench import comparator
from tests.bench.comparator import BATCH, Judge, compared, measured, took
from tests.bench.replies import TOKENS, Case, cases


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_case_is_compared_to_its_end(case: Case, tmp_path: Path) -> None:
    found = compared(case)()
    judge = Judge(case, tmp_path)
    [settled] = judge.done.settlements
    assert settled.outcome == "compared"
    assert settled.record is not None
    assert settled.record.comparison.outcome == found.outcome == "identical"
    [choice], [again] = found.choices, settled.record.comparison.choices
    if "text" in case.name or case.name == "equal bytes":
        assert choice.by_text
        assert again.by_text
        assert choice.shadow_tokens == TOKENS
    else:
        assert (choice.compared, choice.exposed, again.compared) == (TOKENS, TOKENS, TOKENS)
        assert None not in choice.shadow_logprobs
        differ = sum(p != q for p, q in zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True))
        assert (differ > TOKENS // 2) is ("equal" not in case.name)
        assert (None in choice.kl_lower_bounds) is ("unknown" in case.name)
        assert again == choice
    judge.judged()
    judge.learned()
    judge.stored()
    judge.stored()
    judge.close()
    with Store.open_read_only(f"sqlite:///{tmp_path / 'records.db'}") as kept:
        assert kept.counts() == {Key("c", "free", "compared", ""): 2 * BATCH}


def test_the_goals_bodies_are_of_the_sizes_that_the_goals_were_set_with() -> None:
    sizes = {case.name: len(case.primary) for case in cases()}
    assert sizes["20 alternatives as vLLM writes them"] == pytest.approx(232_000, rel=0.05)
    assert 95_000 < sizes["20 alternatives, compact"] < 115_000


def test_figures_are_tokens_by_processor_time_here_and_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = [0.0]

    def tick() -> float:
        clock[0] += 0.5
        return clock[0]

    monkeypatch.setattr(comparator.time, "thread_time", tick)
    assert took(lambda: None, seconds=6.0) == pytest.approx(0.5)
    monkeypatch.setattr(comparator, "scale", lambda _: 0.25)
    slower, [found] = measured(cases()[:1], tmp_path, 2, 6.0)
    assert slower == 0.25
    assert found.compared == found.judged == pytest.approx((TOKENS / 0.5, TOKENS / 2.0))
    assert (found.learned, found.stored) == pytest.approx((5e5, 5e5 / BATCH))
