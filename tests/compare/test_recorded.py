"""Replies recorded from real engines, read by their dialects and held against each other."""

import json
from pathlib import Path

import pytest

from engines.dialect import Answer, Endpoint
from engines.registry import dialect
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import By, Comparison, FlipClass, Pick, SeenBy, Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.summary import summarise_ties
from proxy.compare.token_stream import Reply

FIXTURES = Path(__file__).parents[1] / "fixtures"
BF16, FP32 = ("vllm", "vllm-cpu-bf16"), ("vllm", "vllm-cpu-fp32")
Q4_1, F32 = ("llama_cpp", "llama.cpp-q4_1"), ("llama_cpp", "llama.cpp-f32")
TAU = Tau(0.25, TauOrigin.ASSUMED)


def recorded(engine: tuple[str, str], case: str) -> Reply:
    name, folder = engine
    exchange = json.loads((FIXTURES / folder / f"{case}.headers.json").read_text())
    request, response = exchange["request"], exchange["response"]
    endpoint = Endpoint.CHAT if "chat" in request["path"] else Endpoint.COMPLETIONS
    body = next(path for path in (FIXTURES / folder).glob(f"{case}.*") if path.suffixes in ([".json"], [".sse"]))
    headers = tuple((key.lower(), value) for key, value in response["headers"])
    asked = request.get("body") if isinstance(request.get("body"), dict) else {}
    return dialect(name).read(endpoint, asked, Answer(response["status"], headers, ((0, body.read_bytes()),)))


def free(primary: Reply, shadow: Reply) -> Comparison:
    return compare_free(primary, shadow, source=Source.REPLY, tau=TAU, greedy=True)


def test_the_same_vllm_cold_and_warm_parts_at_12_on_a_tie_that_the_cold_one_saw():
    cold, warm = (recorded(BF16, f"selfdiff_prefix_cache_{state}") for state in ("cold", "warm"))
    (choice,) = free(cold, warm).choices
    first = choice.first
    assert first is not None
    assert (first.index, first.kind, first.tie_seen_by) == (12, FlipClass.EXACT_TIE, SeenBy.PRIMARY)
    assert (first.primary.id, first.shadow.id, first.gap, first.shadow_gap) == (11046, 37860, 0.0, 0.125)
    assert (first.primary_pick, first.lowest, first.tie_break_mismatch) == (Pick.LOWEST, "primary", False)
    assert (choice.compared, choice.exposed) == (13, 13)
    (back,) = free(warm, cold).choices
    assert back.first is not None
    assert (back.first.index, back.first.kind, back.first.tie_seen_by) == (12, FlipClass.EXACT_TIE, SeenBy.SHADOW)


@pytest.mark.parametrize(
    ("case", "ties"),
    [
        ("tie_chat_token_ids", [(0, 2)]),
        ("tie_divergent_chat_logprobs", [(0, 2)]),
        ("tie_3way_completions_token_ids", [(2, 2), (19, 3)]),
    ],
)
def test_recorded_ties_went_to_the_lowest_id(case, ties):
    reply = recorded(BF16, case)
    comparison = free(reply, reply)
    seen = [tie for tie in comparison.choices[0].ties if tie.arm == "primary"]
    assert [(tie.index, tie.size, tie.pick) for tie in seen] == [(*one, Pick.LOWEST) for one in ties]
    for tie in seen:
        assert (len(set(tie.ids)), min(tie.ids)) == (tie.size, reply.choices[0].tokens[tie.index].id)
    assert summarise_ties([comparison])["primary_pick"] == {"lowest": len(ties), "highest": 0, "other": 0}


@pytest.mark.parametrize("case", ["tie_chat_logprobs", "tie_chat_stream_logprobs"])
def test_a_tie_without_ids_is_a_tie_and_nobody_says_who_is_lowest(case):
    reply = recorded(BF16, case)
    assert [(tie.index, tie.size, tie.pick) for tie in free(reply, reply).choices[0].ties if tie.arm == "primary"] == [
        (0, 2, None)
    ]


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("stream", ["", "_stream"])
@pytest.mark.parametrize("other", [Q4_1, BF16])
def test_merged_multibyte_rows_are_never_a_difference(endpoint, stream, other):
    case = f"{endpoint}{stream}_multibyte_logprobs"
    comparison = free(recorded(Q4_1, case), recorded(other, case))
    assert comparison.outcome == "incomparable" or comparison.outcome == "identical"
    if comparison.incomparable is not None:
        assert comparison.incomparable == "token_count"


@pytest.mark.parametrize("case", ["chat_multibyte_logprobs", "chat_stream_multibyte_logprobs"])
def test_parts_of_characters_without_ids_are_left_to_the_texts(case):
    reply = recorded(BF16, case)
    (choice,) = free(reply, reply).choices
    assert (choice.identical, choice.by_text, choice.censored) == (True, True, "unresolvable")


def test_end_tokens_that_engines_report_differently_are_the_same_end():
    comparison = free(recorded(F32, "chat_logprobs"), recorded(FP32, "chat_logprobs"))
    (choice,) = comparison.choices
    assert (comparison.outcome, choice.censored, choice.finish_reasons) == ("identical", "end", ("stop", "stop"))
    errors = [abs(p - q) for p, q in zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True)]
    assert 0 < max(errors) < 0.02


def test_bf16_against_fp32_of_one_engine():
    (choice,) = free(recorded(BF16, "chat_logprobs"), recorded(FP32, "chat_logprobs")).choices
    assert (choice.identical, choice.compared, choice.aligned_by) == (True, 8, By.BYTES)
    shifts = [abs(shift) for shift in choice.gap_shifts if shift is not None]
    assert 0.01 < max(shifts) < 0.2


def test_q4_1_parts_from_f32_with_ids_on_both_sides():
    (choice,) = free(recorded(F32, "chat_logprobs"), recorded(Q4_1, "chat_logprobs")).choices
    first = choice.first
    assert first is not None
    assert (first.index, first.primary.id, first.shadow.id, first.lowest) == (0, 504, 60, "shadow")
    assert first.gap == pytest.approx(0.08356, abs=1e-5)
    assert first.shadow_gap == pytest.approx(0.15668, abs=1e-5)
    assert first.kind is FlipClass.NEAR_TIE
    assert choice.aligned_by is By.ID


def test_without_logprobs_the_texts_are_compared_and_said_so():
    (choice,) = free(recorded(Q4_1, "chat"), recorded(BF16, "chat")).choices
    assert (choice.by_text, choice.compared, choice.first_text_difference) == (True, 0, 0)


@pytest.mark.parametrize("case", ["err_unknown_model", "err_malformed_json", "err_over_long_prompt"])
def test_an_error_reply_is_incomparable(case):
    good, bad = (
        recorded(BF16, "chat"),
        recorded(BF16, case) if case != "err_malformed_json" else Reply(error="status_400"),
    )
    assert free(good, bad).incomparable == "shadow_error"
    assert free(bad, good).incomparable == "primary_error"
