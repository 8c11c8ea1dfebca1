"""The arithmetic of what nobody settled: with exchanges in hand, with arms that come and go, and with nothing counted twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.ledger.reconcile import SETTLED, Arm
from proxy.ledger.record import Settlement
from proxy.ledger.store import Key, Store

A, B, C = Arm("a", "free"), Arm("b", "free"), Arm("c", "free")


def ended(*arms: Arm, incarnation: str = "i1") -> list[Settlement]:
    """One exchange that has ended for these arms."""
    whole = Settlement(incarnation, "", "", SETTLED)
    return [*(Settlement(incarnation, *arm, "incomparable", "endpoint") for arm in arms), whole]


def shed(store: Store, arm: Arm) -> dict[str, int]:
    return {key.reason: n for key, n in store.counts().items() if (key.shadow, key.mode, key.outcome) == (*arm, "shed")}


def test_what_is_in_hand_is_not_lost(url):
    with Store.open(url) as store:
        store.reconcile({}, [A])
        store.settle(ended(A) * 3)
        missing = store.reconcile({"i1": 10, "i2": 4}, [A], {"i1": 5, "i2": 4})
        assert missing == {("i1", A): 2}
        assert shed(store, A) == {"lost_on_crash": 2}
        store.settle(ended(A) * 5)
        assert store.reconcile({"i1": 10, "i2": 4}, [A], {"i2": 4}) == {}
        assert shed(store, A) == {"lost_on_crash": 2}


def test_an_arm_that_comes_under_way_is_given_what_ended_without_it(url):
    with Store.open(url) as store:
        store.reconcile({}, [A])
        store.settle(ended(A) * 4 + ended(A, incarnation="i2") * 2)
        store.settle([Settlement("i1", "", "", "not_sampled"), Settlement("i1", "", "", SETTLED)])  # declined
        store.settle(ended(A, B) * 3)  # the first that had the new one
        store.adopt([A, B])
        assert shed(store, A) == {}
        assert shed(store, B) == {"not_configured": 6}
        store.adopt([A, B])
        assert shed(store, B) == {"not_configured": 6}
        assert Key("", "", SETTLED, "") not in store.counts()


def test_an_arm_that_went_and_came_back_is_given_what_ended_meanwhile_even_if_no_other_arm_saw_it(url):
    with Store.open(url) as store:
        store.reconcile({}, [A])
        store.settle(ended(A) * 2)
        store.adopt([C])
        store.settle(ended() * 5)  # under a configuration without shadows
        store.settle(ended(A) * 1)
        store.adopt([A])
        assert shed(store, A) == {"not_configured": 5}
        assert shed(store, C) == {"not_configured": 2}


def test_a_store_from_before_wholes_were_counted_is_brought_up_to_date_at_start(url):
    with Store.open(url) as store:
        store.reconcile({}, [A])
        store.settle([Settlement("i1", *A, "incomparable", "endpoint")] * 7)  # without the whole
        assert store.reconcile({"i1": 9}, [A]) == {("i1", A): 2}
        store.adopt([A, B])
        assert shed(store, B) == {"not_configured": 9}


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from([(), (A,), (B,), (A, B)])), max_size=30), st.data())
def test_after_adopting_every_arm_has_as_many_as_have_ended(tmp_path_factory, exchanges, data):
    url = f"sqlite:///{tmp_path_factory.mktemp('r') / 'r.db'}"
    with Store.open(url) as store:
        store.reconcile({}, [A, B])
        for incarnation, arms in exchanges:
            store.settle(ended(*arms, incarnation=incarnation))
            if data.draw(st.integers(0, 5)) == 0:
                store.adopt(data.draw(st.sampled_from([(), (A,), (B,), (A, B)])))
        store.adopt([A, B])
        for arm in (A, B):
            assert sum(n for key, n in store.counts().items() if (key.shadow, key.mode) == arm) == len(exchanges)
