import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.classify import classify, pick
from proxy.compare.comparison import FlipClass, Pick, SeenBy, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.row import Row, read_row

TAU = Tau(0.125, TauOrigin.CONFIGURED)


def judged(make, primary, shadow):
    """Classify a free-mode difference from (chosen id, its list) of both arms."""
    tokens = tuple(make.token(chosen, dict(top).get(chosen), top) for chosen, top in (primary, shadow))
    rows = tuple(map(read_row, tokens))
    picks = pick(rows[0], tokens[0], rows[1]), pick(rows[1], tokens[1], rows[0])
    return classify(3, tokens, rows, TAU, picks=picks, chose=True)


def test_a_tie_seen_by_both_is_a_tie_break_mismatch(make):
    flip = judged(make, (5, [(5, -1.0), (9, -1.0), (2, -3.0)]), (9, [(5, -1.1), (9, -1.1), (2, -3.0)]))
    assert flip.kind is FlipClass.EXACT_TIE
    assert flip.tie_seen_by is SeenBy.BOTH
    assert flip.tie_break_mismatch
    assert (flip.primary_pick, flip.shadow_pick, flip.lowest) == (Pick.LOWEST, Pick.HIGHEST, "primary")
    assert (flip.gap, flip.shadow_gap) == (0.0, 0.0)


def test_a_tie_seen_by_one_arm_names_it(make):
    tied, parted = (9, [(5, -1.0), (9, -1.0), (2, -3.0)]), (5, [(5, -1.0), (9, -1.5), (2, -3.0)])
    flip = judged(make, tied, parted)
    assert (flip.kind, flip.tie_seen_by, flip.tie_break_mismatch) == (FlipClass.EXACT_TIE, SeenBy.PRIMARY, False)
    assert (flip.primary_pick, flip.shadow_pick, flip.lowest) == (Pick.HIGHEST, None, "shadow")
    flip = judged(make, parted, tied)
    assert (flip.kind, flip.tie_seen_by) == (FlipClass.EXACT_TIE, SeenBy.SHADOW)
    assert (flip.gap, flip.shadow_gap, flip.shadow_pick) == (0.5, 0.0, Pick.HIGHEST)


@pytest.mark.parametrize(
    ("gap", "kind"),
    [(0.125, FlipClass.NEAR_TIE), (0.12500012, FlipClass.NEAR_TIE), (0.126, FlipClass.GENUINE)],
)
def test_one_step_is_a_near_tie_and_more_than_tau_is_genuine(make, gap, kind):
    flip = judged(make, (1, [(1, -1.0), (2, -1.0 - gap)]), (2, [(1, -1.3), (2, -1.0)]))
    assert flip.kind is kind
    assert flip.gap == pytest.approx(gap, abs=1e-12)
    assert flip.shadow_gap == pytest.approx(0.3)


@pytest.mark.parametrize(("last", "kind"), [(-1.125, FlipClass.UNKNOWN), (-1.126, FlipClass.GENUINE)])
def test_a_token_below_the_end_of_a_list_is_as_far_away_as_the_end(make, last, kind):
    flip = judged(make, (1, [(1, -1.0), (3, last)]), (2, [(2, -1.0), (1, -1.3)]))
    assert (flip.kind, flip.gap) == (kind, None)
    assert flip.gap_at_least == -1.0 - last
    assert flip.shadow_gap == pytest.approx(0.3)


def test_a_list_that_proves_nothing_leaves_it_unknown(make):
    theirs = (2, [(2, -1.0), (1, -1.3)])
    alone = judged(make, (1, [(1, -0.1)]), theirs)  # a token that is not listed may be anything below it
    assert (alone.kind, alone.gap_at_least) == (FlipClass.UNKNOWN, None)
    below = judged(
        make, (9, [(1, -1.0), (3, -3.0), (9, -8.0)]), theirs
    )  # it was moved there, and nobody knows by how much
    assert (below.kind, below.gap_at_least) == (FlipClass.UNKNOWN, None)
    nameless = make.token(1, -0.1, [(1, -0.1), (3, -5.0)])
    entries = (nameless.top[0], nameless.top[1].__class__(-5.0, text="\ufffd"))
    mine, other = nameless.__class__(text="<1>", logprob=-0.1, top=entries), nameless.__class__(text="<2>")
    flip = classify(0, (mine, other), (read_row(mine), Row()), TAU, chose=True)  # the second may be the very token
    assert (flip.kind, flip.gap_at_least) == (FlipClass.UNKNOWN, None)


VOCABULARY = 7
EIGHTHS = st.lists(st.integers(-40, 0).map(lambda eighths: eighths / 8), min_size=VOCABULARY, max_size=VOCABULARY)


@given(EIGHTHS, EIGHTHS, st.data())
def test_a_class_is_that_of_the_whole_vocabulary_or_unknown(make, primary, shadow, data):
    """Whatever was chosen, and however short the primary's list is."""
    first, second = data.draw(st.sampled_from(list(itertools.permutations(range(VOCABULARY), 2))))
    whole = sorted(enumerate(primary), key=lambda one: (-one[1], one[0]))
    theirs = second, sorted(enumerate(shadow), key=lambda one: (-one[1], one[0]))
    true = judged(make, (first, whole), theirs)
    before = None
    for size in range(1, VOCABULARY + 1):
        listed = [one for place, one in enumerate(whole) if place < size or one[0] == first]
        flip = judged(make, (first, listed), theirs)
        assert flip.kind in (
            true.kind,
            FlipClass.UNKNOWN,
            *([FlipClass.EXACT_TIE] if flip.tie_seen_by is SeenBy.SHADOW else []),
        )
        assert flip.gap in (true.gap, None)
        assert flip.gap is None or flip.gap_at_least is None
        assert flip.gap_at_least is None or 0.0 < flip.gap_at_least <= true.gap
        assert before is None or flip.kind is before  # a longer list takes nothing back
        before = None if flip.kind is FlipClass.UNKNOWN else flip.kind
    assert (flip.kind, flip.gap) == (true.kind, true.gap)


def test_an_arm_that_ended_has_nothing_to_show(make):
    token = make.token(1, -1.0, [(1, -1.0), (2, -1.0)])
    flip = classify(0, (token, None), (read_row(token), Row()), TAU, chose=True)
    assert (flip.kind, flip.shadow.id, flip.shadow.text, flip.lowest) == (FlipClass.UNKNOWN, None, None, None)
    assert flip.primary.logprob == -1.0


def test_picks_among_three(make):
    top = [(87, -1.4), (4387, -1.4), (2000, -1.4), (90, -2.1)]
    picks = {chosen: pick(read_row(one := make.token(chosen, -1.4, top)), one) for chosen in (87, 2000, 4387)}
    assert picks == {87: Pick.LOWEST, 2000: Pick.OTHER, 4387: Pick.HIGHEST}


def test_no_pick_is_read_off_a_sampled_token_or_a_cut_list(make):
    sampled = make.token(90, -2.1, [(87, -1.4), (4387, -1.4), (90, -2.1)])
    assert pick(read_row(sampled), sampled) is None
    cut = make.token(87, -1.4, [(87, -1.4), (4387, -1.4)])
    assert pick(read_row(cut), cut) is None


def test_ids_that_an_arm_does_not_report_come_from_the_other_arms_list(make):
    top = [(5, -1.0), (9, -1.0), (2, -3.0)]
    known = make.token(5, -1.0, top)
    row = read_row(known)
    bare = make.token(9, -1.0, top)
    entries = tuple(entry.__class__(entry.logprob, text=entry.text) for entry in row.entries)
    unnamed = Row(entries, 1, 3)
    nameless = bare.__class__(text="<9>", logprob=-1.0)
    assert pick(unnamed, nameless) is None
    assert pick(unnamed, nameless, row) is Pick.HIGHEST


def test_a_tie_of_a_whole_vocabulary_is_not_looked_up_in_the_other_list(make):
    top = [(number, -12.0) for number in range(20_000)] + [(20_000, -13.0)]
    known = make.token(5, -12.0, top)
    row = read_row(known)
    entries = tuple(entry.__class__(entry.logprob, text=entry.text) for entry in row.entries)
    assert pick(Row(entries, 20_000, 20_001), known.__class__(text="<5>", logprob=-12.0), row) is None
    assert pick(row, known) is Pick.OTHER
