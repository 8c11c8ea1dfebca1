"""Conversations count once, sums outlive rows, files and restarts, and add up over replicas."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.compare.confidence_sequence import Shares
from proxy.compare.trial import Result
from proxy.compare.verdict import Tally
from proxy.ledger import tallies, verdicts
from proxy.ledger.events import Event
from proxy.ledger.reconcile import SETTLED
from proxy.ledger.record import Settlement, shed_of
from proxy.ledger.store import Store
from proxy.ledger.tallies import Cell, Counted, Scope, Sum, Tallied, results

ONE = Scope("candidate", "p1", "s1", "control", "c1")


def counted(number: int, result: Result = Result.NEITHER, scope: Scope = ONE, **fields) -> Counted:
    return Counted(
        **{"scope": scope, "unit": f"u{number}", "prompt": f"q{number}", "time": 1e9 + number, "result": result}
        | fields
    )


def settled(*trials: Counted, spooled: int | None = None) -> Settlement:
    return Settlement("i1", "", "", SETTLED, spooled=spooled, trials=trials)


def tally(store: Store, scope: Scope = ONE) -> Tally:
    return store.tallies()[scope].tally(controlled=bool(scope.control))


def test_a_conversation_counts_once_and_so_does_a_prompt(store: Store) -> None:
    fresh = store.settle([settled(counted(1, Result.WORSE, by="genuine_flip"), counted(2))])
    assert [(number.seq, one.unit) for number, one in fresh] == [(1, "u1"), (2, "u2")]
    assert store.settle([settled(counted(1), counted(3, prompt="q2"), counted(4, unit="u2"))]) == []
    assert tally(store) == Tally(worse=1, neither=1)
    cells = store.tallies()[ONE].cells
    assert {cell: one.n for cell, one in cells.items()} == {
        Cell(Result.WORSE, "genuine_flip", ""): 1,
        Cell(Result.NEITHER, "", ""): 1,
    }
    assert (store.tallies()[ONE].first, store.tallies()[ONE].last) == (1e9 + 1, 1e9 + 2)


def test_each_candidate_and_each_pair_of_stacks_counts_for_itself(store: Store) -> None:
    scopes = [
        ONE,
        ONE._replace(candidate="other"),
        ONE._replace(shadow="s2"),
        ONE._replace(primary="p2"),
        ONE._replace(control_footprint="c2"),
    ]
    for scope in scopes:
        store.settle([settled(counted(1, scope=scope))])
    assert {scope: tally(store, scope).neither for scope in scopes} == dict.fromkeys(scopes, 1)
    assert results(store.tallies(), "candidate")[Result.NEITHER] == 4
    alone = Scope("candidate", "p1", "s1")
    store.settle([settled(counted(1, Result.WORSE, alone))])
    assert tally(store, alone) == Tally(worse=1, controlled=False)


def test_sums_survive_retention_and_a_repeated_conversation_may_then_count_again(store: Store) -> None:
    store.settle([settled(counted(1), counted(2))])
    store.purge(1e9 + 1000, keep=998.5, max_bytes=1 << 40)
    assert [one.seq for one in store.trials(0)] == [2]
    assert tally(store) == Tally(neither=2)
    assert len(store.settle([settled(counted(1))])) == 1


def test_trials_count_into_the_bound_of_the_file(store: Store) -> None:
    for number in range(0, 4000, 500):
        store.settle([settled(*(counted(one) for one in range(number, number + 500)))])
    used = store.used_bytes()
    assert store.purge(0.0, keep=1e12, max_bytes=used // 2) == 0  # records: there are none
    assert store.used_bytes() <= used // 2
    left = store.trials(0)
    assert 0 < len(left) < 3000
    assert left[-1].seq == 4000
    assert tally(store).neither == 4000


def test_a_batch_adds_up_as_its_trials_one_by_one(store: Store, tmp_path: Path) -> None:
    kinds = [(Result.WORSE, "genuine_flip"), (Result.NEITHER, ""), (Result.MISSING, "shadow_unready")]
    trials = [
        counted(number, *kinds[number % 3][:1], scope=ONE._replace(candidate=f"c{number % 2}"), by=kinds[number % 3][1], variation=None if number % 5 else number / 64)
        for number in range(60)
    ]  # fmt: skip
    trials += [trials[7], counted(0, Result.MISSING, ONE, unit="", by="lost_on_crash", n=4)]
    together = store.settle([settled(*trials)])
    kept: dict[Scope, Tallied] = {}
    tallies.add(kept, together)
    with Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        apart = [fresh for one in trials for fresh in other.settle([settled(one)])]
        assert together == apart
        assert len(together) == 61
        assert store.tallies() == other.tallies() == kept
        assert kept[ONE].cells[Cell(Result.MISSING, "lost_on_crash", "")].n == 4


def test_variations_count_with_their_conversation(store: Store) -> None:
    values = (0.5, 0.5004, 0.7, 0.5)
    store.settle([settled(*(counted(number, variation=value) for number, value in enumerate(values)), counted(9))])
    store.settle([settled(counted(0, variation=0.9))])  # counted before
    assert store.tallies()[ONE].variations == Shares.of(values)
    assert store.tallies()[ONE].variations.total == 4


def test_sums_survive_the_loss_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with Store.open(f"sqlite:///{path}") as store:
        store.settle([settled(counted(5, variation=0.25))])
        store.settle([settled(counted(1, Result.BOTH, by="genuine_flip", control_by="output_length"))])
        for name in ("r.db", "r.db-wal", "r.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        store._look_at = 0.0
        store.settle([settled(counted(2))])
        assert tally(store) == Tally(both=1, neither=2)
    with Store.open(f"sqlite:///{path}") as again:
        assert tally(again) == Tally(both=1, neither=2)
        assert again.tallies()[ONE].variations == Shares.of([0.25])


def test_what_the_store_could_not_take_counts_later_while_it_is_on_disk_and_else_as_missing(store: Store) -> None:
    kept = settled(counted(1), spooled=7)
    owed = shed_of([kept, settled(counted(2)), settled(counted(3))])
    assert owed[0] == kept
    assert owed[1] == owed[2]  # so that any number of them is one value to remember
    assert shed_of(owed) == owed
    store.settle(owed)
    assert tally(store) == Tally(neither=1, missing=2)
    assert [one.seq for one in store.trials(0)] == [1]


def test_a_clock_that_was_ahead_does_not_keep_a_former_stack_the_latest(store: Store) -> None:
    now, years = 1.8e9, 20 * 365 * 86400
    store.settle([settled(counted(1, Result.WORSE, ONE, time=now + years), counted(2, scope=ONE, time=now))])
    known = store.tallies()
    after = ONE._replace(shadow="s2")
    for number, when in ((3, now + 60), (4, now + 120)):
        tallies.add(known, store.settle([settled(counted(number, scope=after, time=when))]))
        scope, latest = verdicts.latest(store.tallies(), ONE.candidate) or (None, None)
        assert (scope, latest and latest.last) == (after, when)
        assert known == store.tallies(), "what the judge holds is what the store has"
    assert store.tallies()[ONE].last == now + 59
    assert tally(store).worse == 1


def test_a_few_days_of_waiting_for_the_store_are_no_wrong_clock(store: Store) -> None:
    store.settle([settled(counted(1, scope=ONE._replace(shadow="s2"), time=1.8e9))])
    store.settle([settled(counted(2, scope=ONE, time=1.8e9 - 3 * 86400))])
    assert (verdicts.latest(store.tallies(), ONE.candidate) or (None,))[0] == ONE._replace(shadow="s2")


def test_an_alarm_and_the_state_that_said_it_are_there_together(store: Store) -> None:
    store.add_event(Event(5.0, "drift", {"shadow": "candidate"}), {"drift": b"after"})
    assert store.get_state("drift") == b"after"
    assert [one.kind for one in store.events()] == ["drift"]


TRIALS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.sampled_from(Result)), max_size=40)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TRIALS, st.randoms(use_true_random=False))
def test_batches_and_repetitions_change_nothing(tmp_path_factory, came, random) -> None:
    """One row a conversation and a prompt, whatever batches they came in and however often a batch was done again."""
    trials = [counted(0, result, unit=f"u{unit}", prompt=f"q{prompt}") for unit, prompt, result in came]
    seen: set[str] = set()
    expected: Counter[Result] = Counter()
    for one in trials:
        if not {one.unit, one.prompt} & seen:
            seen |= {one.unit, one.prompt}
            expected[one.result] += 1
    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('t') / 'r.db'}") as store:
        left = list(trials)
        while left:
            size = random.randint(1, len(left))
            batch, left = [settled(one) for one in left[:size]], left[size:]
            store.settle(batch)
            store.settle(batch)
        found = results(store.tallies(), "candidate")
    assert {result: n for result, n in found.items() if n} == dict(expected)


@given(st.lists(st.sampled_from(Result), max_size=60), st.integers(1, 4))
def test_replicas_add_up_to_what_one_would_have_counted(came, replicas: int) -> None:
    def of(part: list[Result]) -> Tally:
        tallied = Tallied({})
        for result in part:
            tallied.add(Cell(result, "", ""), Sum(1, 0.0, 0.0))
        return tallied.tally(controlled=True)

    parts = [of(came[number::replicas]) for number in range(replicas)]
    whole = parts[0]
    for part in parts[1:]:
        whole += part
    assert whole == of(came) == of(came[::-1])
