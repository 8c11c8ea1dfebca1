import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.compare_forced import compare_forced
from proxy.compare.comparison import Comparison, FlipClass, Pick, SeenBy, Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Reply, Token, TokenStream

TAU = Tau(1e-3, TauOrigin.ASSUMED)


def forced(primary: Reply, *scored, **more) -> Comparison:
    return compare_forced(primary, scored, **{"source": Source.REPLY, "tau": TAU, "greedy": True, **more})


def only(comparison: Comparison):
    assert comparison.incomparable is None
    (choice,) = comparison.choices
    return choice


def one_row(make, primary: Token, shadow: Token, **more):
    return only(forced(make.reply(make.stream(primary)), [(0, shadow)], **more))


def test_an_engine_that_scores_its_own_tokens_agrees_with_itself(make):
    engine = make.engine()
    stream = engine.greedy((1, 2))
    comparison = forced(make.reply(stream), engine.score((1, 2), [token.id for token in stream.tokens]))
    choice = only(comparison)
    assert comparison.outcome == "scored"
    assert (choice.compared, choice.flips, choice.positions, choice.shadow_tokens) == (48, (), None, None)
    assert choice.primary_logprobs == choice.shadow_logprobs
    assert set(choice.top1_agree) == {True}


def test_a_flip_is_first_of_list_against_first_of_list(make):
    primary = make.token(1, -0.7, [(1, -0.7), (2, -0.9), (3, -4.0)])
    choice = one_row(make, primary, make.token(1, -0.9, [(2, -0.6), (1, -0.9), (3, -4.0)]))
    (flip,) = choice.flips
    assert (flip.primary.id, flip.shadow.id, flip.kind) == (1, 2, FlipClass.GENUINE)
    assert flip.gap == pytest.approx(0.2)
    assert flip.shadow_gap == pytest.approx(0.3)
    assert (flip.lowest, flip.tie_break_mismatch, choice.top1_agree, choice.ranks) == (None, False, (False,), (2,))


def test_a_tie_at_the_top_of_the_shadows_list_that_holds_the_primarys_first_is_exposure(make):
    primary = make.token(9, -0.6, [(9, -0.6), (5, -0.9), (3, -4.0)])
    choice = one_row(make, primary, make.token(9, -0.7, [(5, -0.7), (9, -0.7), (3, -4.0)]))
    assert (choice.flips, choice.top1_agree) == ((), (True,))
    (tie,) = choice.ties
    assert (tie.arm, tie.size, tie.pick) == ("shadow", 2, None)


def test_a_tie_in_the_primary_that_the_shadow_resolves_otherwise(make):
    primary = make.token(5, -0.7, [(5, -0.7), (9, -0.7), (3, -4.0)])
    choice = one_row(make, primary, make.token(5, -0.9, [(9, -0.6), (5, -0.9), (3, -4.0)]))
    (flip,) = choice.flips
    assert (flip.kind, flip.tie_seen_by, flip.primary_pick) == (FlipClass.EXACT_TIE, SeenBy.PRIMARY, Pick.LOWEST)
    assert (flip.shadow_pick, flip.tie_break_mismatch) == (None, False)
    assert [(tie.arm, tie.pick) for tie in choice.ties] == [("primary", Pick.LOWEST)]


def test_sampled_tokens_flip_by_the_heads_of_the_lists_and_pick_nothing(make):
    primary = make.token(3, -4.0, [(5, -0.7), (9, -0.7), (3, -4.0)])
    shadow = make.token(3, -4.1, [(9, -0.6), (5, -0.9), (3, -4.1)])
    choice = one_row(make, primary, shadow, greedy=False)
    assert (choice.flips, choice.top1_agree) == ((), (True,))
    assert [tie.pick for tie in choice.ties] == [None]
    choice = one_row(make, primary, make.token(3, -2.0, [(7, -0.5), (3, -2.0), (5, -3.0)]), greedy=False)
    assert choice.flips[0].kind is FlipClass.UNKNOWN
    assert choice.shadow_logprobs == (-2.0,)


def test_without_a_list_a_greedy_token_is_its_first_and_a_sampled_one_says_nothing(make):
    shadow = make.token(1, -0.9, [(2, -0.6), (1, -0.9)])
    flipped = one_row(make, make.token(1, -0.7), shadow)
    assert [flip.kind for flip in flipped.flips] == [FlipClass.UNKNOWN]
    assert one_row(make, make.token(1), shadow).top1_agree == (False,)
    silent = one_row(make, make.token(1, -0.7), shadow, greedy=False)
    assert (silent.flips, silent.top1_agree) == ((), (None,))


def test_a_greedy_token_that_a_bias_moved_down_its_list_is_not_the_lists_first(make):
    primary = make.token(3, -4.0, [(1, -0.2), (2, -2.0), (3, -4.0)])
    assert one_row(make, primary, make.token(3, -4.0, [(1, -0.2), (2, -2.0), (3, -4.0)])).flips == ()


def test_a_shadow_that_gives_values_without_lists_measures_errors_only(make):
    choice = one_row(make, make.token(1, -0.7, [(1, -0.7), (2, -0.9)]), make.token(1, -1.9))
    assert (choice.top1_agree, choice.flips, choice.ranks) == ((None,), (), (None,))
    assert (choice.primary_logprobs, choice.shadow_logprobs) == ((-0.7,), (-1.9,))


def test_a_sample_of_positions_is_said(make):
    engine = make.engine()
    stream = engine.greedy((1, 2), 10)
    rows = engine.score((1, 2), [token.id for token in stream.tokens])
    choice = only(forced(make.reply(stream), rows[1::4]))
    assert (choice.positions, choice.compared, choice.exposed) == ((1, 5, 9), 3, 3)
    assert choice.ids == tuple(stream.tokens[index].id for index in (1, 5, 9))


def test_canonical_tokens_have_values_and_claim_nothing(make):
    primary = make.token(5, -0.7, [(5, -0.7), (9, -0.7), (3, -4.0)])
    shadow = make.token(5, -0.9, [(9, -0.6), (5, -0.9), (3, -4.0)])
    comparison = forced(
        make.reply(make.stream(primary)), [(0, shadow)], source=Source.CANONICAL, greedy=False, unfiltered=True
    )
    choice = only(comparison)
    assert (choice.flips, choice.top1_agree, [tie.pick for tie in choice.ties]) == ((), (None,), [None])
    assert choice.shadow_logprobs == (-0.9,)
    assert choice.kl_lower_bounds[0] is not None
    assert not comparison.k3_is_kl


def test_k3_estimates_a_kl_only_for_unfiltered_draws(make):
    stream = make.engine().sample((1, 2), seed=1, length=4)
    rows = make.engine().score((1, 2), [token.id for token in stream.tokens])
    assert forced(make.reply(stream), rows, greedy=False, unfiltered=True).k3_is_kl
    assert not forced(make.reply(stream), rows, greedy=False).k3_is_kl
    assert not forced(make.reply(stream), rows, unfiltered=True).k3_is_kl
    assert not forced(
        make.reply(stream), rows, greedy=False, unfiltered=True, values_incomparable="logprob_mode"
    ).k3_is_kl


def test_what_cannot_be_compared_says_why(make):
    stream = make.stream(make.token(1, -0.1), make.token(2, -0.1), prompt_ids=(7, 8))
    good = [(0, make.token(1, -0.1)), (1, make.token(2, -0.1))]
    reply = make.reply(stream)
    assert forced(Reply(error="status_503"), good).incomparable == "primary_error"
    assert forced(reply).incomparable == "choice_count"
    assert forced(make.reply(TokenStream(text="x")), good).incomparable == "no_tokens"
    assert forced(make.reply(make.stream(make.token(1), count=2)), good).incomparable == "token_count"
    assert forced(reply, []).incomparable == "not_scored"
    wrong_prompt = forced(reply, good, shadow_prompt_ids=(8,))
    assert (wrong_prompt.incomparable, wrong_prompt.findings[-1]) == ("prompt_tokens", "prompt_tokens")
    assert forced(reply, good, shadow_prompt_ids=(7, 8)).incomparable is None


@pytest.mark.parametrize("rows", [[(0, 2)], [(1, 2), (0, 1)], [(0, 1), (0, 1)], [(2, 3)], [(-1, 1)]])
def test_scores_of_other_tokens_are_not_compared(make, rows):
    reply = make.reply(make.stream(make.token(1, -0.1), make.token(2, -0.1)))
    comparison = forced(reply, [(index, make.token(id_, -0.1)) for index, id_ in rows])
    assert (comparison.incomparable, comparison.findings) == ("unaligned", ("stream_misaligned",))


def test_an_empty_choice_beside_a_scored_one(make):
    comparison = forced(
        make.reply(make.stream(make.token(1, -0.1)), TokenStream(index=1)), [(0, make.token(1, -0.2))], []
    )
    assert [choice.compared for choice in comparison.choices] == [1, 0]


@given(st.integers(0, 19), st.integers(0, 5), st.sampled_from([0.0, 0.01, 0.4]))
def test_swapping_the_arms_swaps_signs(make, prompt, seed, size):
    one, two = make.engine(), make.noisy(size)
    ids = [token.id for token in one.sample(make.prompts[prompt], seed, 16).tokens]
    here, there = (engine.score(make.prompts[prompt], ids) for engine in (one, two))

    def stream(rows):
        return make.reply(make.stream(*(token for _, token in rows)))

    ahead = only(forced(stream(here), there, greedy=False))
    back = only(forced(stream(there), here, greedy=False))
    assert ahead.primary_logprobs == back.shadow_logprobs
    assert ahead.top1_agree == back.top1_agree
    assert [flip.gap for flip in ahead.flips] == [flip.shadow_gap for flip in back.flips]
    assert all(flip.gap > 0 for flip in ahead.flips if flip.gap is not None and flip.kind is not FlipClass.EXACT_TIE)
