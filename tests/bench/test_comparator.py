"""What the comparator's bench measures is the comparison it says: every token of every case, and nothing refused."""

from __future__ import annotations

import pytest

from proxy.judge.desk import Done
from tests.bench import comparator
from tests.bench.comparator import TOKENS, Case, cases, compared, judged, rate


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_case_is_compared_to_its_end(case: Case) -> None:
    found = compared(case)()
    assert (found.incomparable, found.outcome) == (None, "identical")
    [choice] = found.choices
    if "text" in case.name:
        assert choice.by_text
        assert choice.shadow_tokens == TOKENS
    else:
        assert (choice.compared, choice.exposed) == (TOKENS, TOKENS)
        assert None not in choice.shadow_logprobs
        differ = sum(p != q for p, q in zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True))
        assert (differ > TOKENS // 2) is (case.primary != case.shadow and "equal" not in case.name)
    done = judged(case)()
    assert isinstance(done, Done)
    assert [one.outcome for one in done.settlements] == ["compared"]


def test_a_rate_is_tokens_by_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def work() -> None:
        clock[0] += 0.5

    monkeypatch.setattr(comparator.time, "thread_time", lambda: clock[0])
    assert rate(work, seconds=6.0) == pytest.approx(TOKENS / 0.5)
