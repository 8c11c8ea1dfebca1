"""What one exchange says of a candidate: every class, every reason, with a control and without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.compare.comparison import (
    ChoiceComparison,
    Comparison,
    Flip,
    FlipClass,
    Mode,
    RankingComparison,
    Source,
    TokenRef,
    VectorComparison,
)
from proxy.compare.trial import Result, Sight, Told, Trial, look, names_a_fault, trial, variation
from proxy.ledger.remedies import ADVICE

FREE, FORCED = Mode.FREE, Mode.FORCED
GOOD, BAD = Sight(Told.GOOD), Sight(Told.BAD)
ERROR = Sight(Told.UNDECIDED, compared=False, why="shadow_error")
SAMPLED = Sight(Told.OUT, compared=False, why="sampled")
CANONICAL = Sight(Told.UNABLE, why="canonical")


def flip(kind: FlipClass) -> Flip:
    return Flip(3, TokenRef(1), TokenRef(2), kind)


def free(kind: FlipClass | None = None, *findings: str, by_text: bool = False, **fields) -> Comparison:
    choice = ChoiceComparison(
        0, 5, 5, 5, 5, kind is None and not by_text, first=None if kind is None else flip(kind),
        by_text=by_text, first_text_difference=4 if by_text else None,
    )  # fmt: skip
    return Comparison(**{"mode": FREE, "source": Source.REPLY, "choices": (choice,), "findings": findings} | fields)


def forced(*kinds: FlipClass, agree: tuple[bool | None, ...] = (True,) * 4, **fields) -> Comparison:
    choice = ChoiceComparison(0, 4, None, 4, 4, False, flips=tuple(map(flip, kinds)), top1_agree=agree)
    return Comparison(**{"mode": FORCED, "source": Source.REPLY, "choices": (choice,)} | fields)


@pytest.mark.parametrize(
    ("kind", "told", "in_forced"),
    [
        (None, Told.GOOD, Told.GOOD),
        (FlipClass.EXACT_TIE, Told.GOOD, Told.GOOD),
        (FlipClass.NEAR_TIE, Told.GOOD, Told.GOOD),
        (FlipClass.GENUINE, Told.BAD, Told.BAD),
        (FlipClass.UNKNOWN, Told.UNDECIDED, Told.UNDECIDED),
    ],
)
def test_a_class_tells_the_same_in_both_modes(kind: FlipClass | None, told: Told, in_forced: Told) -> None:
    assert look(FREE, free(kind)).tokens is told
    assert look(FORCED, forced(*([] if kind is None else [kind]))).tokens is in_forced


def test_one_genuine_flip_among_others_is_enough_and_an_unknown_one_among_ties_tells_nothing() -> None:
    assert look(FORCED, forced(FlipClass.UNKNOWN, FlipClass.GENUINE)).tokens is Told.BAD
    assert look(FORCED, forced(FlipClass.EXACT_TIE, FlipClass.UNKNOWN)).tokens is Told.UNDECIDED


def test_a_text_that_differs_is_of_unknown_class_and_an_equal_one_is_good() -> None:
    assert look(FREE, free(by_text=True, source=Source.TEXT)).tokens is Told.UNDECIDED
    assert look(FREE, free(source=Source.TEXT)).tokens is Told.GOOD


def test_no_flip_is_claimed_from_canonical_tokens() -> None:
    assert look(FORCED, forced(FlipClass.GENUINE, source=Source.CANONICAL)).tokens is Told.UNABLE


def test_tokens_that_the_control_lent_make_a_difference_unknown_and_not_genuine() -> None:
    """They are there only where the control agrees: held against it, every candidate as noisy as the control would look worse."""
    assert look(FREE, free(FlipClass.GENUINE, source=Source.BY_CONTROL)).tokens is Told.UNDECIDED
    assert look(FREE, free(FlipClass.NEAR_TIE, source=Source.BY_CONTROL)).tokens is Told.GOOD
    assert look(FORCED, forced(FlipClass.GENUINE, source=Source.BY_CONTROL)).tokens is Told.BAD


@pytest.mark.parametrize("ours", ["stop", "length", "tool_calls"])
def test_a_reply_that_stops_without_a_reason_is_missing_whatever_its_tokens_say(ours: str) -> None:
    whole = free()
    cut = replace(whole, choices=(replace(whole.choices[0], censored="cut", finish_reasons=(ours, None)),))
    seen = look(FREE, cut)
    assert seen == Sight(Told.UNDECIDED, compared=False, why="cut")
    assert trial({FREE: seen, FORCED: GOOD}, {FREE: GOOD, FORCED: GOOD}) == Trial(Result.MISSING, "cut")
    alike = replace(whole, choices=(replace(whole.choices[0], finish_reasons=(None, None)),))
    assert look(FREE, alike) == GOOD, "the primary gave none either"


def test_a_genuine_difference_is_bad_whether_the_reply_was_cut_or_not() -> None:
    apart = free(FlipClass.GENUINE)
    cut = replace(apart, choices=(replace(apart.choices[0], finish_reasons=("stop", None)),))
    assert look(FREE, cut).tokens is Told.BAD


def test_lists_that_lack_in_some_rows_alone_tell_nothing() -> None:
    lacking = {"alternatives_incomplete": {"shadow_missing": 1, "positions": 4}}
    hidden = forced(agree=(True, True, True, None), findings=("alternatives_incomplete",), evidence=lacking)
    assert look(FORCED, hidden) == Sight(Told.UNDECIDED, why="lists_missing")
    of_the_primary = {"alternatives_incomplete": {"primary_missing": 1, "positions": 4}}
    assert look(FORCED, replace(hidden, evidence=of_the_primary)).tokens is Told.GOOD
    bad = forced(FlipClass.GENUINE, findings=("alternatives_incomplete",), evidence=lacking)
    assert look(FORCED, bad).tokens is Told.BAD


def test_an_arm_that_shows_no_lists_is_not_good_for_it() -> None:
    assert look(FORCED, forced(agree=(None, None, None, True))).why == "lists_missing"
    assert look(FORCED, forced(agree=(None, True, True, True))).tokens is Told.GOOD


CHANGES = {
    "context_truncated", "prompt_double_bos", "prompt_missing_bos", "prompt_template", "prompt_tokens", "sampling_defaults", "tokenizer",
    "channel_split", "tool_call_name", "tool_call_arguments", "json_structure", "stop_handling", "finish_reason", "output_length",
}  # fmt: skip


@pytest.mark.parametrize("name", ADVICE)
def test_findings_that_change_what_users_get_are_bad(name: str) -> None:
    sight = look(FREE, free(FlipClass.NEAR_TIE, name))
    assert sight.finding == (name if name in CHANGES else "")
    grave = ADVICE[name].severity in {"explains", "functional"}
    assert (name in CHANGES) == (grave and not name.startswith("logprob_"))
    found = trial({FREE: sight})
    assert found == (Trial(Result.WORSE, name) if name in CHANGES else Trial(Result.NEITHER))


@pytest.mark.parametrize(
    ("seen", "bad"),
    [
        ({"temperature_primary": 0.7, "temperature_shadow": 1.0, "neutralised": False}, True),
        ({"temperature_primary": 0.7, "temperature_shadow": 1.0, "neutralised": True}, False),
        ({"temperature_primary": None, "temperature_shadow": 1.0, "neutralised": False}, False),
        ({"top_k_primary": "misread", "min_p_primary": None, "neutralised": False}, True),
    ],
)
def test_defaults_that_were_made_the_primarys_or_that_one_side_alone_tells_change_nothing(seen, bad: bool) -> None:
    one = free(None, "sampling_defaults", evidence={"sampling_defaults": seen}, incomparable="sampling_defaults")
    assert bool(look(FREE, one).finding) is bad


def test_another_default_length_is_bad_where_it_shows() -> None:
    seen = {"max_tokens_primary": 16, "max_tokens_shadow": 5, "neutralised": False}
    assert not look(FREE, free(None, "output_length", evidence={"output_length": seen})).finding
    assert look(FREE, free(FlipClass.NEAR_TIE, "output_length", evidence={"output_length": seen})).finding


@pytest.mark.parametrize(
    "reason",
    ["primary_error", "client_gone", "primary_cut", "no_reply", "request_cut", "echo", "endpoint", "footprint_changed"],
)
@pytest.mark.parametrize("mode", [FREE, FORCED])
def test_what_no_arm_brought_about_is_no_trial(reason: str, mode: Mode) -> None:
    assert trial({mode: look(mode, incomparable=reason)}) is None
    assert trial({mode: look(mode, incomparable=reason)}, {mode: GOOD}) is None


@pytest.mark.parametrize("reason", ["rate_limit", "token_budget", "kill_switch"])
def test_configured_caps_thin_the_sample(reason: str) -> None:
    assert trial({FREE: look(FREE, shed=reason)}) is None
    assert trial({FREE: GOOD}, {FREE: look(FREE, shed=reason)}) is None
    assert trial({FREE: GOOD, FORCED: look(FORCED, shed=reason)}) == Trial(Result.NEITHER)


@pytest.mark.parametrize("reason", ["shadow_error", "token_count", "not_scored", "choice_count", "unaligned", "judge_error", "capture_cut", "never_seen_before"])  # fmt: skip
@pytest.mark.parametrize("mode", [FREE, FORCED])
def test_what_a_candidate_could_hide_behind_is_missing(reason: str, mode: Mode) -> None:
    sight = look(mode, incomparable=reason)
    assert trial({mode: sight}) == Trial(Result.MISSING, reason)
    assert trial({mode: sight}, {mode: BAD}) == Trial(Result.MISSING, reason, "genuine_flip")
    assert trial({mode: BAD}, {mode: sight}) == Trial(Result.MISSING, "genuine_flip", reason)
    assert not names_a_fault(reason)
    assert look(mode, Comparison(mode=mode, incomparable=reason)) == sight


@pytest.mark.parametrize(
    "reason", ["circuit_open", "queue", "capture", "compare_busy", "store", "shadow_unready", "shutdown"]
)
def test_every_other_shed_is_missing(reason: str) -> None:
    assert trial({FREE: look(FREE, shed=reason)}) == Trial(Result.MISSING, reason)


@pytest.mark.parametrize(
    ("candidate", "control", "result"),
    [
        ({FREE: GOOD}, {FREE: GOOD}, Trial(Result.NEITHER)),
        ({FREE: BAD}, {FREE: GOOD}, Trial(Result.WORSE, "genuine_flip")),
        ({FREE: GOOD}, {FREE: BAD}, Trial(Result.BETTER, "", "genuine_flip")),
        ({FREE: BAD}, {FREE: BAD}, Trial(Result.BOTH, "genuine_flip", "genuine_flip")),
        ({FORCED: BAD, FREE: GOOD}, {FORCED: GOOD, FREE: GOOD}, Trial(Result.WORSE, "genuine_flip")),
        ({FORCED: GOOD, FREE: BAD}, {FORCED: GOOD, FREE: GOOD}, Trial(Result.WORSE, "genuine_flip")),  # a fault of decoding
        ({FORCED: GOOD, FREE: BAD}, {FORCED: GOOD, FREE: BAD}, Trial(Result.BOTH, "genuine_flip", "genuine_flip")),
        ({FORCED: BAD, FREE: GOOD}, {FREE: GOOD}, Trial(Result.NEITHER)),  # the same mode of both
        ({FORCED: GOOD, FREE: SAMPLED}, {FORCED: BAD, FREE: SAMPLED}, Trial(Result.BETTER, "", "genuine_flip")),
        ({FREE: SAMPLED}, {FREE: SAMPLED}, None),
        ({FORCED: CANONICAL, FREE: SAMPLED}, {FORCED: CANONICAL, FREE: SAMPLED}, None),
        ({FORCED: CANONICAL, FREE: GOOD}, {FORCED: CANONICAL, FREE: BAD}, Trial(Result.BETTER, "", "genuine_flip")),
        ({FORCED: GOOD, FREE: ERROR}, {FORCED: GOOD, FREE: GOOD}, Trial(Result.MISSING, "shadow_error")),
        ({FORCED: ERROR, FREE: GOOD}, {FORCED: GOOD, FREE: GOOD}, Trial(Result.MISSING, "shadow_error")),
        ({FORCED: BAD, FREE: ERROR}, {FORCED: GOOD, FREE: GOOD}, Trial(Result.WORSE, "genuine_flip")),
        ({FREE: ERROR}, {FREE: ERROR}, Trial(Result.MISSING, "shadow_error", "shadow_error")),
    ],
)  # fmt: skip
def test_both_arms_are_put_together(candidate, control, result: Trial | None) -> None:
    assert trial(candidate, control) == result


def test_an_early_layer_names_what_later_ones_show() -> None:
    early, late = Sight(Told.BAD, "prompt_template"), Sight(Told.BAD, "tool_call_name")
    assert trial({FREE: early}) == Trial(Result.WORSE, "prompt_template")
    assert trial({FREE: late}) == Trial(Result.WORSE, "genuine_flip")
    assert trial({FREE: Sight(Told.UNDECIDED, "tool_call_name", why="unknown_flip")}) == Trial(Result.WORSE, "tool_call_name")  # fmt: skip


def test_a_prompt_that_another_arm_rendered_is_not_held_against_the_candidate() -> None:
    own = look(FORCED, incomparable="prompt_tokens", own_prompt=True)
    assert trial({FORCED: own}) == Trial(Result.WORSE, "prompt_tokens")
    other = look(FORCED, incomparable="prompt_tokens", own_prompt=False)
    assert trial({FORCED: other, FREE: GOOD}) == Trial(Result.NEITHER)
    assert trial({FORCED: other, FREE: SAMPLED}) is None


def test_where_forced_mode_cannot_tell_free_mode_does_or_the_result_is_missing() -> None:
    no_ids = look(FORCED, incomparable="no_prompt_ids")
    assert trial({FORCED: no_ids, FREE: BAD}) == Trial(Result.WORSE, "genuine_flip")
    assert trial({FORCED: no_ids, FREE: SAMPLED}) == Trial(Result.MISSING, "no_prompt_ids")
    never = look(FORCED, incomparable="no_forced_scoring")
    assert trial({FORCED: never, FREE: GOOD}) == Trial(Result.NEITHER)
    assert trial({FORCED: never, FREE: SAMPLED}) is None


def test_replies_that_are_numbers() -> None:
    ranked = RankingComparison("rerank", 3, (0.1,), first_difference=1)
    assert trial({FREE: look(FREE, Comparison(mode=FREE, ranking=ranked))}) == Trial(Result.WORSE, "rank_order")
    same = RankingComparison("rerank", 3, (0.1,))
    assert trial({FREE: look(FREE, Comparison(mode=FREE, ranking=same))}) == Trial(Result.NEITHER)
    vectors = (VectorComparison(0, 3, 0.1, 0.1, (1.0, 1.0)),)
    assert trial({FREE: look(FREE, Comparison(mode=FREE, vectors=vectors))}) is None


SIGHTS = st.builds(Sight, st.sampled_from(Told), st.sampled_from(["", "tool_call_name", "prompt_template"]), st.booleans(), st.just("why"))  # fmt: skip
ARMS = st.dictionaries(st.sampled_from(Mode), SIGHTS, min_size=1)


@given(ARMS, ARMS)
def test_what_the_arms_have_changed_places_changes_places_in_the_result(one, other) -> None:
    """Nothing is judged differently because it is the candidate's: what selects a conversation and its mode is symmetric."""
    found, mirrored = trial(one, other), trial(other, one)
    assert (found is None) == (mirrored is None)
    if found is not None and mirrored is not None:
        swapped = {Result.WORSE: Result.BETTER, Result.BETTER: Result.WORSE}
        assert mirrored.result is swapped.get(found.result, found.result)
        assert (mirrored.by, mirrored.control_by) == (found.control_by, found.by)


@pytest.mark.parametrize("modes", [(FREE,), (FORCED,), (FREE, FORCED)])
def test_where_nothing_is_amiss_it_is_as_if_everything_had_been_looked_at(modes: tuple[Mode, ...]) -> None:
    made = {mode: look(mode, free() if mode is FREE else forced()) for mode in modes}
    looked_at = {mode: Sight(Told.GOOD) for mode in modes}
    for control in (None, made):
        assert trial(made, control) == trial(looked_at, control and looked_at) == Trial(Result.NEITHER)
    assert trial(made, {}) == trial(looked_at, {}) is None
    assert trial({}) is trial({}, {}) is None
    other = {FORCED if modes == (FREE,) else FREE: Sight(Told.GOOD)}
    assert trial(made, other) == trial(looked_at, other)


def scored(*bounds: float | None, greedy: bool = False, **fields) -> Comparison:
    one = forced(greedy=greedy, **fields)
    return replace(one, choices=(replace(one.choices[0], tv_lower_bounds=bounds),))


def test_sampled_output_says_by_how_much_more_the_distributions_differ_than_the_controls() -> None:
    assert variation(scored(0.2, 0.4)) == pytest.approx(0.3)
    assert variation(scored(0.2, 0.4), scored(0.1, 0.1, None)) == pytest.approx((0.3 - 0.1 + 1) / 2)
    assert variation(scored(0.2), scored(None, None, 0.1)) is None
    assert variation(scored(0.2, greedy=True)) is None
    assert variation(scored(0.2, incomparable="token_count")) is None
    assert variation(free()) is None
