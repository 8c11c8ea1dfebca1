"""Labels fit a narrow terminal, and the legend says by what near ties were judged."""

from __future__ import annotations

from proxy.ledger.rows import FORCED, FREE, LATENCY, TIES, near_tie


def test_labels_leave_room_for_two_shadows_at_80_columns():
    labels = [row.label for row in (*FREE, *FORCED, *TIES)] + [label for _, label in LATENCY]
    assert max(map(len, labels)) <= 26


def test_notes_are_begun_by_what_they_explain_and_end_without_a_stop():
    for row in (*FREE, *FORCED, *TIES):
        assert not row.note.endswith(".")
        assert not row.note or row.note[0].islower() or row.note.startswith("KL")


def test_near_ties_are_shown_with_their_threshold():
    assumed = {"near_tie": {"tau_nats": 0.001, "origin": "assumed"}}
    learned = {"near_tie": {"tau_nats": 0.25, "origin": "learned", "range_nats": [0.001, 0.3]}}
    assert "is <= 0.001 nat (assumed). genuine" in near_tie([("a", assumed), ("b", assumed)])
    assert "is <= a 0.001 nat (assumed); b 0.25 nat (learned; 0.001 to 0.3 over these records). genuine" in near_tie(
        [("a", assumed), ("b", learned)]
    )
    assert "is small. genuine" in near_tie([("a", {})])
