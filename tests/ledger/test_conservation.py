"""The law holds term by term, and a leak or a double count shows in it."""

from __future__ import annotations

import random

import pytest

from proxy.counters import Counters, Slot
from proxy.ledger import totals
from proxy.ledger.conservation import conservation
from proxy.ledger.reconcile import Arm
from proxy.ledger.record import Settlement
from proxy.ledger.store import Store

ARMS = (Arm("candidate", "free"), Arm("candidate", "forced"))


@pytest.mark.parametrize("seed", range(5))
def test_after_every_step_of_any_history_nothing_is_unaccounted(url, tmp_path, seed):
    """A traffic process and a judge play by their rules in random order; the law is looked at after each step."""
    chance = random.Random(seed)
    folder = tmp_path / "counters"
    folder.mkdir()
    held: list[str] = []  # "sampled" or "offered", and the incarnation: what the judge holds
    stranded = 0  # died in a traffic process, to be found by the next reconciliation
    queue: list[str] = []
    opened: list[str] = []
    with Store.open(url) as store:
        store.reconcile({}, ARMS)
        number = 0
        counters = Counters.create(folder / f"{number}.bin")

        def step() -> None:
            nonlocal counters, number, stranded
            action = chance.choice(
                ["request", "request", "close", "hand", "hand", "settle", "settle", "die", "judge_dies"]
            )
            name = f"{number}"
            if action == "request":
                counters.add(Slot.RECEIVED)
                fate = chance.choice(["no", "sampled", "offered"])
                counters.add({"no": Slot.NOT_SAMPLED, "sampled": Slot.SAMPLED, "offered": Slot.OFFERED}[fate])
                if fate != "no":
                    counters.add(Slot.OPEN_SAMPLED)
                    opened.append(fate)
            elif action == "close" and opened:
                fate = opened.pop()
                counters.add(Slot.OPEN_SAMPLED, -1)
                way = chance.choice(["queue", "queue", "shed", "capture"])
                if way == "queue":
                    counters.add(Slot.QUEUED)
                    queue.append(fate)
                else:
                    counters.add(Slot.SHED_QUEUE if way == "shed" else Slot.SHED_CAPTURE)
            elif action == "hand" and queue:
                counters.add(Slot.QUEUED, -1)
                counters.add(Slot.HANDED_OVER)
                counters.add(Slot.ACKNOWLEDGED)
                held.append(f"{queue.pop()} {name}")
            elif action == "settle" and held:
                fate, incarnation = held.pop().split()
                batch = []
                if fate == "offered":
                    decision = chance.choice(["sampled", "not_sampled"])
                    batch.append(Settlement(incarnation, "", "", decision))
                if not batch or batch[0].outcome == "sampled":
                    for arm in ARMS:
                        outcome, reason = chance.choice(
                            [("compared", ""), ("incomparable", "sampled"), ("shed", "busy")]
                        )
                        batch.append(Settlement(incarnation, *arm, outcome, reason))
                store.settle(batch)
            elif action == "die" and chance.random() < 0.3:
                counters.close()
                stranded += len(opened) + len(queue)
                opened.clear()
                queue.clear()
                if chance.random() < 0.5:
                    totals.fold(folder)
                number += 1
                counters = Counters.create(folder / f"{number}.bin")
            elif action == "judge_dies" and chance.random() < 0.3:
                held.clear()
                stranded = 0
                store.reconcile(totals.handed_over(folder), ARMS)

        for _ in range(300):
            step()
            with totals.read(folder) as summed:
                terms = conservation(summed, store.counts(), ARMS, dict.fromkeys(ARMS, len(held)))
            assert terms.residual == 0
            for arm in ARMS:
                assert terms.arms[arm].residual == 0
                assert terms.arms[arm].open == len(opened)
                assert terms.arms[arm].queued == len(queue)
                assert terms.arms[arm].unsettled == len(held) + stranded
                assert terms.arms[arm].in_transit == stranded
        counters.close()


def test_a_leak_and_a_double_count_show(url, tmp_path):
    counters = Counters.create(tmp_path / "a.bin")
    counters.add(Slot.RECEIVED, 3)
    counters.add(Slot.SAMPLED, 3)
    counters.add(Slot.HANDED_OVER, 2)  # one is nowhere
    with Store.open(url) as store:
        store.settle([Settlement("a", "candidate", "free", "shed", "busy")] * 3)
        with totals.read(tmp_path) as summed:
            terms = conservation(summed, store.counts(), ARMS, {})
    assert terms.residual == 0
    assert terms.arms[ARMS[0]].residual == 1
    assert terms.arms[ARMS[0]].unsettled == -1
    assert terms.arms[ARMS[1]].in_flight == 2
    counters.close()


def test_without_a_word_from_the_judge_nothing_is_said_of_what_it_holds(tmp_path):
    with totals.read(tmp_path) as summed:
        terms = conservation(summed, {}, ARMS)
    assert terms.arms[ARMS[0]].held is None
    assert terms.arms[ARMS[0]].in_transit is None
