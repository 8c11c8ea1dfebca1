import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.compare.compare_free import compare_free, first_difference
from proxy.compare.comparison import By, Comparison, FlipClass, Source, TauOrigin
from proxy.compare.layers import Found, Known
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Channel, Reply, Token, TokenStream, ToolCall

TAU = Tau(1e-3, TauOrigin.ASSUMED)


def free(primary: Reply, shadow: Reply, **more) -> Comparison:
    return compare_free(primary, shadow, **{"source": Source.REPLY, "tau": TAU, "greedy": True, **more})


def only(comparison: Comparison):
    assert comparison.incomparable is None
    (choice,) = comparison.choices
    return choice


def words(*texts: str, finish: str | None = "length", text: str | None = None, **more) -> Reply:
    """A reply of tokens with ids (a number for each word) and no values."""
    tokens = tuple(Token(word, id=sum(word.encode())) for word in texts)
    shown = "".join(texts) if text is None else text
    return Reply(choices=(TokenStream(tokens=tokens, text=shown, finish_reason=finish, count=len(tokens), **more),))


def test_a_reply_held_against_itself_is_identical_with_all_errors_zero(make):
    answer = make.reply(make.engine().greedy((1, 2)))
    comparison = free(answer, answer)
    choice = only(comparison)
    assert comparison.outcome == "identical"
    assert (choice.compared, choice.exposed, choice.censored, choice.aligned_by) == (48, 48, "max_tokens", By.ID)
    assert choice.primary_logprobs == choice.shadow_logprobs
    assert set(choice.kl_lower_bounds) == set(choice.tv_lower_bounds) == set(choice.gap_shifts) == {0.0}
    assert set(choice.ranks) == {1}
    assert set(choice.top1_agree) == {True}
    assert (comparison.tau, comparison.tau_origin, comparison.findings) == (1e-3, TauOrigin.ASSUMED, ())


@pytest.mark.parametrize(("neutralised", "reason"), [(False, "sampling_defaults"), (True, None)])
def test_answers_to_different_requests_are_not_held_against_each_other(neutralised, reason):
    noted = Found("sampling_defaults", {"presence_penalty_shadow": "misread", "neutralised": neutralised})
    length = Found("output_length", {"max_tokens_shadow": 5, "neutralised": False})  # tells nothing of the tokens
    found = free(words("a", "b"), words("a", "c"), known=Known((noted, length)))
    assert (found.incomparable, bool(found.choices)) == (reason, reason is None)
    assert found.findings[:1] == ("sampling_defaults",)
    assert found.evidence["sampling_defaults"] == noted.evidence


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ({"repetition_penalty_primary": 1.0, "repetition_penalty_shadow": 1.1}, "sampling_defaults"),
        ({"repetition_penalty_primary": None, "repetition_penalty_shadow": 1.1}, None),  # it may be the same
        ({"repetition_penalty_primary": None, "n_shadow": "misread"}, "sampling_defaults"),
    ],
)
def test_a_default_that_the_primary_does_not_tell_may_be_the_same(evidence, reason):
    noted = Found("sampling_defaults", {**evidence, "neutralised": False})
    assert free(words("a"), words("a"), known=Known((noted,))).incomparable == reason


def test_the_first_difference_and_nothing_after_it(make):
    primary = make.reply(
        make.stream(
            make.token(1, -0.1, [(1, -0.1), (2, -3.0)]),
            make.token(5, -0.7, [(5, -0.7), (6, -0.9)]),
            make.token(7, -0.1),
        )
    )
    shadow = make.reply(
        make.stream(
            make.token(1, -0.2, [(1, -0.2), (2, -3.0)]),
            make.token(6, -0.6, [(6, -0.6), (5, -1.0)]),
            make.token(7, -0.1),
        )
    )
    choice = only(free(primary, shadow))
    assert choice.first is not None
    assert (choice.first.index, choice.first.kind) == (1, FlipClass.GENUINE)
    assert choice.first.gap == pytest.approx(0.2)
    assert choice.first.shadow_gap == pytest.approx(0.4)
    assert (choice.compared, choice.exposed, choice.censored, choice.identical) == (2, 2, None, False)
    assert choice.shadow_logprobs == (-0.2, -1.0)
    assert choice.ranks == (1, 2)
    assert choice.top1_agree == (True, False)
    assert choice.gap_shifts == (pytest.approx(-0.1), pytest.approx(-0.6))


@pytest.mark.parametrize(
    ("primary", "shadow", "more", "reason", "detail"),
    [
        ({"error": "status_500"}, {}, {}, "primary_error", "status_500"),
        ({}, {"error": "not_json"}, {}, "shadow_error", "not_json"),
        ({"prompt_tokens": 10}, {"prompt_tokens": 11}, {}, "prompt_tokens", None),
        ({}, {}, {"greedy": False}, "sampled", None),
        ({}, {"choices": ()}, {}, "choice_count", "1 and 0"),
    ],
)
def test_what_cannot_be_compared_says_why(primary, shadow, more, reason, detail):
    answer = words("a")
    fields = {"choices": answer.choices}
    comparison = free(Reply(**(fields | primary)), Reply(**(fields | shadow)), **more)
    assert (comparison.outcome, comparison.incomparable, comparison.detail) == ("incomparable", reason, detail)
    assert comparison.choices == ()


def test_findings_stand_beside_a_refusal():
    left = Reply(choices=(TokenStream(tokens=(Token("a", id=1),), prompt_ids=(1, 5, 6)),))
    right = Reply(choices=(TokenStream(tokens=(Token("a", id=1),), prompt_ids=(1, 1, 5, 6)),))
    assert free(left, right).findings == ("prompt_double_bos", "prompt_tokens")
    assert free(words("a"), Reply(error="timeout")).findings == ("transport_errors",)


def test_equal_prompt_ids_outweigh_counts_that_engines_count_differently():
    left = Reply(choices=(TokenStream(tokens=(Token("a", id=1),), prompt_ids=(1, 5)),), prompt_tokens=2)
    right = Reply(choices=(TokenStream(tokens=(Token("a", id=1),), prompt_ids=(1, 5)),), prompt_tokens=3)
    assert free(left, right).incomparable is None


def test_rows_that_are_not_one_per_token_are_never_a_difference():
    merged = Reply(choices=(TokenStream(tokens=(Token("x", id=1),), text="x", count=2),))
    comparison = free(words("a", "b"), merged)
    assert (comparison.incomparable, comparison.findings) == ("token_count", ("stream_misaligned",))


def test_parts_of_a_merged_row_count_for_identity_and_have_no_values(make):
    one = make.reply(make.stream(make.token(1, -0.1), make.token(2), make.token(3, -0.2)))
    two = make.reply(make.stream(make.token(1, -0.1), make.token(2, -0.5), make.token(3, -0.3)))
    choice = only(free(one, two))
    assert choice.identical
    assert choice.primary_logprobs == (-0.1, None, -0.2)
    assert choice.shadow_logprobs == (-0.1, -0.5, -0.3)


def test_ids_without_values_and_values_without_ids(make):
    bare = words("a", "b")
    choice = only(free(bare, bare))
    assert choice.identical
    assert choice.primary_logprobs == choice.gaps == choice.kl_lower_bounds == (None, None)
    texts = make.reply(TokenStream(tokens=(Token("a", logprob=-0.5), Token("b", logprob=-0.2)), text="ab", count=2))
    choice = only(free(texts, texts))
    assert choice.aligned_by is By.TEXT
    assert choice.ids == (None, None)
    assert choice.primary_logprobs == choice.shadow_logprobs == (-0.5, -0.2)


def test_another_logprob_mode_compares_tokens_and_no_values(make):
    answer = make.reply(make.engine().greedy((1, 2), 4))
    modes = Found("logprob_mode", {"primary": "raw", "shadow": "processed"})
    comparison = free(answer, answer, values_incomparable="logprob_mode", known=Known((modes,)))
    choice = only(comparison)
    assert comparison.values_incomparable == "logprob_mode"
    assert comparison.findings == ("logprob_mode",)
    assert choice.identical
    assert set(choice.kl_lower_bounds) == set(choice.gap_shifts) == {None}


# How replies end.


def test_end_of_sequence_against_a_token_is_a_difference_of_class_unknown_when_the_end_is_not_listed():
    choice = only(free(words("a", "b", finish="stop"), words("a", "b", "c")))
    assert choice.first is not None
    assert (choice.first.index, choice.first.kind, choice.first.primary.text) == (2, FlipClass.UNKNOWN, None)
    assert choice.first.shadow.text == "c"
    assert (choice.compared, choice.exposed, choice.censored) == (2, 3, None)


def test_a_listed_end_token_is_a_token_like_any_other(make):
    primary = make.stream(make.token(1, -0.1), make.token(2, -0.6, [(2, -0.6), (9, -0.9)], text=""), finish="stop")
    shadow = make.stream(make.token(1, -0.1), make.token(9, -0.7, [(9, -0.7), (2, -0.8)]), make.token(4, -0.1))
    choice = only(free(make.reply(primary), make.reply(shadow)))
    assert choice.first is not None
    assert (choice.first.index, choice.first.kind) == (1, FlipClass.GENUINE)


@pytest.mark.parametrize(("shorter", "reason"), [("length", "max_tokens"), (None, "cut"), ("content_filter", "other")])
def test_a_limit_is_no_difference_but_censors(shorter, reason):
    comparison = free(words("a", "b", finish=shorter), words("a", "b", "c"))
    choice = only(comparison)
    assert (comparison.outcome, choice.censored, choice.first, choice.exposed) == ("censored", reason, None, 2)
    assert ("output_length" in comparison.findings) is (shorter is not None)
    assert only(free(words("a", "b", "c"), words("a", "b", finish=shorter))).censored == reason


def test_a_stop_string_that_only_one_arm_heeded_censors_and_is_a_finding():
    comparison = free(words("a", " END", finish="stop", text="a"), words("a", " END", " b"), stop=("END",))
    assert only(comparison).censored == "stop_string"
    assert comparison.findings == ("stop_handling",)
    trimmed = free(words("a", finish="stop"), words("a", " END", " b"), stop=("END",))
    assert only(trimmed).censored == "stop_string"
    assert only(free(words("a", finish="stop"), words("a", " b", " END"), stop=("END",))).first is not None


def test_an_end_token_that_one_arm_does_not_list_is_the_same_end():
    comparison = free(words("a", finish="stop"), words("a", "<end>", finish="stop", text="a"))
    assert (comparison.outcome, only(comparison).censored) == ("identical", "end")
    assert comparison.findings == ()


def test_end_tokens_that_name_nothing_are_the_same_end():
    left = Reply(choices=(TokenStream(tokens=(Token("a"), Token("")), text="a", finish_reason="stop", count=2),))
    right = Reply(
        choices=(TokenStream(tokens=(Token("a"), Token("<e>", data=b"")), text="a", finish_reason="stop", count=2),)
    )
    assert free(left, left).outcome == "identical"
    assert free(left, right).outcome == "identical"


def nameless(text: str) -> Reply:
    """A reply without ids whose second row is a part of a character."""
    tokens = (Token("a", logprob=-0.1), Token("\ufffd", logprob=-0.2), Token(text[-1], logprob=-0.3))
    return Reply(choices=(TokenStream(tokens=tokens, text=text, count=3, finish_reason="length"),))


def test_rows_that_name_no_token_leave_the_rest_to_the_texts():
    comparison = free(nameless("aéb"), nameless("aéb"))
    choice = only(comparison)
    assert (comparison.outcome, choice.by_text, choice.censored) == ("identical", True, "unresolvable")
    assert (choice.compared, choice.exposed, choice.primary_logprobs) == (1, 1, (-0.1,))
    comparison = free(nameless("aéb"), nameless("aèb"))
    choice = only(comparison)
    assert (comparison.outcome, choice.first_text_difference, choice.first, choice.exposed) == ("diverged", 1, None, 1)
    assert comparison.findings == ()


def test_the_same_tokens_under_another_finish_reason_are_a_finding_and_no_flip():
    comparison = free(words("a", "b"), words("a", "b", finish="stop"))
    assert (comparison.outcome, comparison.findings) == ("censored", ("finish_reason",))
    assert only(comparison).first is None


# Layers beside the tokens.


def test_the_same_tokens_split_into_other_channels():
    plain, split = words("a", "b"), words("a", "b", text="b", reasoning="a")
    comparison = free(plain, split)
    assert (comparison.outcome, comparison.findings) == ("identical", ("channel_split",))
    tokens = (Token("a", id=97, channel=Channel.REASONING), Token("b", id=98))
    marked = Reply(choices=(replace(plain.choices[0], tokens=tokens),))
    assert free(plain, marked).findings == ()  # not every engine says of a row which channel it is of


def test_tool_calls_are_compared_after_canonicalisation():
    def calling(name: str, arguments: str) -> Reply:
        return words("a", finish="tool_calls", tool_calls=(ToolCall(name, arguments),), text="")

    assert free(calling("f", '{"a":1,"b":true}'), calling("f", '{ "b": true, "a": 1 }')).findings == ()
    assert free(calling("f", '{"a":1}'), calling("g", '{"a":1}')).findings == ("tool_call_name",)
    assert free(calling("f", '{"a":1}'), calling("f", '{"a":true}')).findings == ("tool_call_arguments",)
    assert free(calling("f", '{"a":'), calling("f", '{"a":')).findings == ()


def test_a_limit_that_leaves_no_room_for_a_call_makes_no_other_call():
    calls = (ToolCall("f", '{"a":1}'),)
    by_token = words(*"abcd", finish="tool_calls", tool_calls=calls, text="ab"), words(*"ab", finish="length")
    by_text = text("ab", "tool_calls", tool_calls=calls), text("ab", "length")
    for mine, its in (by_token, by_text, by_token[::-1], by_text[::-1]):
        comparison = free(mine, its)
        assert (comparison.outcome, comparison.findings) == ("censored", ("output_length",))
    reached = free(words(*"ab", finish="tool_calls", tool_calls=calls, text=""), words(*"ab", finish="length"))
    assert "tool_call_name" in reached.findings  # both went as far: it is the parser


# Text alone.


def text(content: str, finish: str | None = "stop", **more) -> Reply:
    return Reply(choices=(TokenStream(text=content, finish_reason=finish, **more),))


def test_equal_texts_are_identical_by_text_without_token_numbers():
    comparison = free(text("abc"), words("abc", finish="stop"))
    choice = only(comparison)
    assert comparison.outcome == "identical"
    assert (choice.by_text, choice.compared, choice.exposed, choice.ids) == (True, 0, 0, ())
    assert only(free(words("abc"), words("abc"), source=Source.TEXT)).by_text


def test_a_stop_string_left_in_one_text_is_no_difference_of_the_engines():
    comparison = free(text("ab"), text("abEND"), stop=("END",))
    assert (comparison.outcome, only(comparison).censored) == ("censored", "stop_string")
    assert comparison.findings == ("stop_handling",)
    assert comparison.evidence == {"stop_handling": {"primary_characters": 2, "shadow_characters": 5}}
    assert free(text("ab"), text("abEND")).outcome == "diverged"


def test_arguments_in_another_order_are_the_same_text():
    one, other = (
        text("", "tool_calls", tool_calls=(ToolCall("f", spelled),))
        for spelled in ('{"a":1,"b":2}', '{"b": 2, "a": 1}')
    )
    assert (free(one, other).outcome, free(one, other).findings) == ("identical", ())


def test_texts_that_differ_have_diverged_at_text_level():
    comparison = free(text("abcd"), text("abXd"))
    choice = only(comparison)
    assert (comparison.outcome, choice.first_text_difference, choice.first) == ("diverged", 2, None)


@pytest.mark.parametrize("make", [text, lambda said: words(*said.split(), finish="stop")])
def test_a_reply_that_says_nothing_at_all_is_of_another_length_whatever_class_its_difference_has(make):
    silent = free(make("some words"), make(""))
    assert (silent.findings, silent.outcome) == (("output_length",), "diverged")
    assert free(make(""), make("some words")).findings == ("output_length",)
    assert free(make(""), make("")).findings == free(make("some words"), make("some")).findings == ()


def test_a_text_that_goes_on_where_the_other_hit_a_limit_is_censored():
    comparison = free(text("ab", "length"), text("abc"))
    assert (comparison.outcome, only(comparison).censored) == ("censored", "max_tokens")
    assert only(comparison).first_text_difference is None
    ended = only(free(text("ab", "stop"), text("abc", "length")))
    assert (ended.first_text_difference, ended.censored) == (2, None)


@pytest.mark.parametrize("whole", ["ab", "<think>a</think>b", "<think>\na\n</think>\n\nb", "a</think>\n\nb"])
def test_text_moved_between_channels_is_no_difference(whole):
    comparison = free(text("b", reasoning="a"), text(whole))
    assert (comparison.outcome, comparison.findings) == ("identical", ("channel_split",))
    assert free(text(whole), text("b", reasoning="a\n")).outcome == "identical"
    limited = free(text("b", "length", reasoning="a"), text(whole, "stop"))
    assert (limited.outcome, limited.findings) == ("censored", ("channel_split", "finish_reason"))
    other = free(text("b", reasoning="a"), text(whole + "c"))
    assert (other.outcome, other.findings) == ("diverged", ())


# Several choices, and properties.


def test_every_choice_is_compared_and_all_must_be_identical(make):
    one, two = make.engine().greedy((1, 2), 6), make.noisy(3.0).greedy((1, 2), 6)
    assert free(make.reply(one, two), make.reply(one, two)).outcome == "identical"
    mixed = free(make.reply(one, two), make.reply(one, one))
    assert mixed.outcome == "diverged"
    assert [choice.identical for choice in mixed.choices] == [True, False]


@given(st.integers(0, 19), st.sampled_from([0.0, 0.02, 0.3]))
def test_swapping_the_arms_swaps_signs_and_nothing_else(make, prompt, size):
    primary = make.reply(make.engine().greedy(make.prompts[prompt], 24))
    shadow = make.reply(make.noisy(size).greedy(make.prompts[prompt], 24))
    there, back = only(free(primary, shadow)), only(free(shadow, primary))
    common = there.exposed - (there.first is not None)
    assert (there.compared, there.exposed, there.identical) == (back.compared, back.exposed, back.identical)
    assert there.primary_logprobs[:common] == back.shadow_logprobs[:common]
    assert there.tv_lower_bounds[:common] == pytest.approx(back.tv_lower_bounds[:common])
    if there.first is not None:
        assert back.first is not None
        assert (there.first.index, there.first.gap, there.first.shadow_gap) == (
            back.first.index,
            back.first.shadow_gap,
            back.first.gap,
        )
        assert (there.first.primary, there.first.shadow) == (back.first.shadow, back.first.primary)


@given(st.text(max_size=40), st.text(max_size=40))
def test_first_difference_of_texts(left, right):
    at = first_difference(left, right)
    if at is None:
        assert left == right
    else:
        assert left[:at] == right[:at]
        assert left[at : at + 1] != right[at : at + 1]


def test_a_comparison_is_stored_and_read_back(make):
    primary, shadow = make.reply(make.rounded().greedy((1, 2))), make.reply(make.engine().greedy((1, 2)))
    comparison = free(primary, shadow)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(comparison), type=Comparison) == comparison
