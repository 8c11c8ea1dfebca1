"""What the judge keeps of every arm's distance: the headline numbers, in constant memory, of one pair of stacks."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, FlipClass, Mode, TokenRef
from proxy.compare.headline import headline
from proxy.config import Config, Primary, Records, Shadow
from proxy.judge.desk import Done
from proxy.judge.examine import Examined
from proxy.judge.floors import FloorBook
from proxy.judge.ledger import Ledger
from proxy.judge.settle import Context, Policy
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.record import Record, Settlement
from tests.judge.test_ledger import exchange

RNG = random.Random(1)


def comparison(mode: Mode = Mode.FORCED, tokens: int = 50) -> Comparison:
    p = tuple(-RNG.expovariate(1.0) for _ in range(tokens))
    flip = Flip(3, TokenRef(), TokenRef(), RNG.choice([FlipClass.GENUINE, FlipClass.NEAR_TIE]))
    forced = mode is Mode.FORCED
    choice = ChoiceComparison(
        index=0,
        primary_tokens=tokens,
        shadow_tokens=tokens,
        compared=tokens,
        exposed=tokens,
        identical=False,
        first=None if forced else flip,
        flips=(flip,) if forced else (),
        top1_agree=tuple(number != 3 for number in range(tokens)) if forced else (),
        primary_logprobs=p,
        shadow_logprobs=tuple(one + RNG.gauss(0.0, 0.1) for one in p),
    )
    return Comparison(mode=mode, choices=(choice,))


def record(made: Comparison, shadow: str = "candidate", role: str = "candidate", stacks: tuple[str, str] = ("p", "s")):
    return Record("id", 0.0, "x", "m", "e", shadow, role, made, primary_footprint=stacks[0], shadow_footprint=stacks[1])


def filled(made: list[Comparison], **more) -> FloorBook:
    book = FloorBook()
    for one in made:
        book.take(record(one, **more))
    return book


@pytest.mark.parametrize("mode", list(Mode))
def test_the_numbers_are_the_headline_numbers(mode: Mode) -> None:
    made = [comparison(mode) for _ in range(20)]
    known = headline(mode, made)
    found = {one.quantity: one.value for one in filled(made).measured()}
    assert len(found) == 4
    assert found == {name: pytest.approx(known[name]["raw"], rel=1e-12) for name in found}
    assert {(one.shadow, one.role, one.mode) for one in filled(made).measured()} == {("candidate", "candidate", mode)}


def test_nothing_is_said_before_there_is_enough() -> None:
    made = [comparison(tokens=199)]
    assert not list(filled(made).measured())
    assert len(list(filled([*made, comparison(tokens=4)]).measured())) == 4
    book = FloorBook()
    book.take(record(Comparison(mode=Mode.FREE, incomparable="sampled")))
    assert not list(book.measured())


def test_another_stack_begins_anew_and_modes_and_shadows_are_apart() -> None:
    made = [comparison() for _ in range(10)]
    book = filled(made)
    book.take(record(comparison(), stacks=("p", "another")))
    assert not list(book.measured())
    book = filled(made)
    book.take(record(comparison(Mode.FREE)))
    book.take(record(comparison(), shadow="control", role="control"))
    assert {one.mode for one in book.measured()} == {"forced"}
    book.only({"control"})
    assert not list(book.measured())


def test_a_candidate_is_measured_where_the_control_names_tokens_too() -> None:
    """Canonical tokens, say, which the control alone was asked to score, are no number to hold against its own of other traffic."""
    book, silent = FloorBook(), Comparison(mode=Mode.FORCED, incomparable="no_primary_tokens")
    both = [comparison() for _ in range(10)]
    for made in both:
        book.take_exchange([record(made), record(made, shadow="control", role="control")])
        book.take_exchange([record(comparison()), record(silent, shadow="control", role="control")])
    candidate, control = (
        {one.quantity: one.value for one in book.measured() if one.role == role} for role in ("candidate", "control")
    )
    assert candidate == control == {one.quantity: one.value for one in filled(both).measured()}
    alone = FloorBook()
    for made in both:
        alone.take_exchange([record(made)])
    assert {one.quantity: one.value for one in alone.measured()} == candidate


def test_it_survives_a_restart_and_forgets_what_it_cannot_read() -> None:
    made = [comparison() for _ in range(10)]
    book = filled(made)
    again = FloorBook(book.encode())
    assert list(again.measured()) == list(book.measured()) != []
    later = record(comparison(tokens=1))
    for one in (again, book):
        one.take(later)
    assert list(again.measured()) == list(book.measured())
    assert not list(FloorBook(b"\x00{").measured())
    assert not list(FloorBook(b'{"candidate": {"forced": {}}}').measured())


def test_its_memory_is_bounded_by_the_range_of_the_values() -> None:
    book = filled([comparison(tokens=500) for _ in range(40)])
    assert len(book.encode()) < 20_000


def test_what_has_settled_is_measured_and_the_next_life_goes_on_from_it(tmp_path: Path) -> None:
    settings = Config(
        primary=Primary(url="http://p"),
        shadows=(Shadow("control", "http://c", role="control"),),
        state=str(tmp_path),
        records=Records(url=f"sqlite:///{tmp_path / 'r.db'}"),
    )
    one = record(comparison(tokens=300), shadow="control", role="control")
    done = Done(
        (Settlement("t0", "control", "forced", "compared", "", one),),
        Examined(None, None, None, (), Context(Policy("none", b""))),
    )

    async def main() -> None:
        ledger = Ledger(settings, JudgeMetrics(settings))
        writing = asyncio.ensure_future(ledger.run())
        told = asyncio.Event()
        ledger.took([exchange(0)], [b""])
        ledger.hand_in(done, exchange(0), told.set)
        async with asyncio.timeout(20):
            await told.wait()
        found = list(ledger.floors.measured())
        assert {one.role for one in found} == {"control"}
        await ledger.close()
        await writing
        later = Ledger(settings, JudgeMetrics(settings))
        assert list(later.floors.measured()) == found
        await later.close()

    asyncio.run(main())
