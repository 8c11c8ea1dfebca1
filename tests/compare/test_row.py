import math

from proxy.compare.row import read_row, value
from proxy.compare.token_stream import Alternative, Token


def test_the_chosen_token_joins_its_list_once(make):
    row = read_row(make.token(7, -0.1, [(7, -0.1), (8, -3.0)]))
    assert [entry.id for entry in row.entries] == [7, 8]
    assert row.chosen == 0
    assert row.certain == 2
    assert row.gap == 2.9


def test_a_list_that_leaves_the_chosen_token_out_is_completed(make):
    row = read_row(make.token(7, -1.0, [(8, -0.9), (9, -2.0)]))
    assert [entry.id for entry in row.entries] == [8, 7, 9]
    assert row.chosen == 1
    assert row.certain == 3


def test_a_chosen_token_below_all_others_may_stand_anywhere(make):
    row = read_row(make.token(7, -9.0, [(7, -9.0), (8, -0.9), (9, -2.0)]))
    assert row.certain == 2
    assert read_row(make.token(7, -9.0, [(7, -9.0), (8, -0.9)])).gap is None


def test_a_chosen_token_alone_proves_to_be_first_only_with_half_the_mass(make):
    assert read_row(make.token(7, -0.1, [(7, -0.1)])).certain == 1
    assert read_row(make.token(7, -0.9, [(7, -0.9)])).certain == 0
    assert read_row(make.token(7, -0.9)).tops == ()


def test_ties_are_ordered_by_id_wherever_the_engine_put_them(make):
    row = read_row(make.token(33, -1.5, [(788, -1.5), (33, -1.5), (504, -2.0)]))
    assert [entry.id for entry in row.tops] == [33, 788]
    assert row.ties_whole
    assert row.gap == 0.0


def test_a_list_cut_within_the_tie_shows_the_whole_set_only_by_its_mass(make):
    assert not read_row(make.token(1, -1.5, [(1, -1.5), (2, -1.5)])).ties_whole
    assert read_row(make.token(1, math.log(0.4), [(1, math.log(0.4)), (2, math.log(0.4))])).ties_whole


def test_without_ids_the_chosen_token_is_found_by_value_and_text():
    top = (Alternative(-0.2, text=""), Alternative(-0.2, text=""), Alternative(-4.0, text="x"))
    row = read_row(Token("", data=b"", logprob=-0.2, top=top))
    assert len(row.entries) == 3
    assert len(row.tops) == 2


def test_a_merged_row_is_matched_by_id_although_its_text_is_longer():
    top = (Alternative(-0.002, 227, "\ufffd", b"\x89"), Alternative(-7.0, 226, "\ufffd", b"\x88"))
    row = read_row(Token(" \U0001f389", id=227, data=b" \xf0\x9f\x8e\x89", logprob=-0.002, top=top))
    assert len(row.entries) == 2
    assert row.chosen == 0


def test_values_that_are_not_finite_are_not_values(make):
    row = read_row(make.token(1, -math.inf, [(2, -0.5), (3, -math.inf)]))
    assert row.chosen is None
    assert [entry.id for entry in row.entries] == [2]


def test_value_of_a_token_is_unknown_when_two_entries_could_be_it():
    row = read_row(Token("a", logprob=-1.0, top=(Alternative(-2.0, text="b"), Alternative(-3.0, text="b"))))
    assert value(row, Token("a")) == -1.0
    assert value(row, Token("b")) is None
    assert value(row, Token("c")) is None


def test_what_a_list_of_ids_does_not_say_of_the_chosen_token_its_row_does():
    row = read_row(Token("1", id=33, data=b"1", logprob=-0.5, top=(Alternative(-0.5, id=33), Alternative(-2.0, id=7))))
    assert row.entries[0] == Alternative(-0.5, 33, "1", b"1")
