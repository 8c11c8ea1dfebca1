"""Every finding of the contract, and every one that the comparison can make, has its advice."""

from __future__ import annotations

from proxy.compare import findings, prompt, value_layer
from proxy.compare.layers import ORDER
from proxy.ledger import findings_table
from proxy.ledger.remedies import ADVICE, Engine, advice

CONTRACT = [
    "prompt_tokens",
    "prompt_template",
    "prompt_double_bos",
    "context_truncated",
    "sampling_defaults",
    "logprob_mode",
    "logprob_alignment",
    "alternatives_incomplete",
    "stream_misaligned",
    "stop_handling",
    "output_length",
    "finish_reason",
    "channel_split",
    "tool_call_name",
    "tool_call_arguments",
    "json_structure",
    "tokenizer",
    "footprint_changed",
    "transport_errors",
]


def test_every_name_of_the_contract_and_those_added_since():
    assert set(ADVICE) == set(ORDER)
    assert set(CONTRACT) <= set(ORDER)


def test_every_name_that_the_comparison_uses():
    modules = (findings, prompt, value_layer)
    used = {value for one in modules for name, value in vars(one).items() if name.isupper() and isinstance(value, str)}
    assert len(used) > 10
    assert used <= set(ADVICE)


def test_each_is_a_sentence_that_says_what_to_do():
    for seen, severity, remedy in ADVICE.values():
        assert severity in {"explains", "functional", "notice"}
        assert remedy.endswith(".")
        assert seen
        assert not seen.endswith(".")


def test_an_unknown_name_is_a_notice():
    assert advice("new") == ("", "notice", "")


def test_the_remedy_names_the_engine_and_its_option():
    arms = {"primary": Engine("primary", "vllm"), "shadow": Engine("cand", "llama_cpp")}
    said = advice("context_truncated", {"arm": "shadow"}, arms).remedy
    assert (
        said
        == f"{ADVICE['context_truncated'].remedy} On cand (llama_cpp): --ctx-size (shared by the slots of --parallel)."
    )
    both = advice("prompt_template", {}, arms).remedy
    assert "On primary (vllm): --chat-template FILE." in both
    assert "On cand (llama_cpp): --chat-template-file FILE" in both
    assert advice("context_truncated", {}, {"shadow": Engine("vllm", "vllm")}).remedy.endswith(
        "On vllm: --max-model-len."
    )
    assert advice("prompt_template", {}, {"shadow": Engine("x", "")}).remedy == ADVICE["prompt_template"].remedy


def test_an_arm_that_reports_raw_values_already_has_nothing_to_change():
    arms = {"primary": Engine("primary", "vllm"), "shadow": Engine("cand", "sglang")}
    said = advice("logprob_mode", {"primary": "raw", "shadow": "processed"}, arms).remedy
    assert said.endswith(
        "set the same mode on both. On cand (sglang): SGLANG_RETURN_ORIGINAL_LOGPROB=1 in its environment."
    )
    assert "On primary (vllm): --logprobs-mode raw_logprobs." in advice("logprob_mode", {"seen": "scaled"}, arms).remedy


def test_defaults_that_were_made_explicit_explain_nothing_any_more():
    assert advice("sampling_defaults", {"neutralised": True}).severity == "notice"
    assert advice("sampling_defaults", {"neutralised": False}).severity == "explains"


def test_defaults_that_one_side_alone_tells_are_not_said_to_differ():
    unknown = {"temperature_primary": None, "temperature_shadow": 0.8, "top_k_primary": None, "top_k_shadow": 40.0}
    said = advice("sampling_defaults", unknown | {"neutralised": False}, {"shadow": Engine("cand", "llama_cpp")})
    assert said.severity == "notice"
    assert said.remedy.startswith("The primary does not tell its sampling defaults, so they may be others")
    assert said.remedy.endswith("On cand (llama_cpp): --temp, --top-k, --top-p, --min-p, --repeat-penalty.")
    for also in ({"top_k_primary": 20.0}, {"logit_bias_shadow": "misread"}):
        assert advice("sampling_defaults", unknown | also | {"neutralised": False}).severity == "explains"


def test_the_table_of_findings_is_that_of_the_code():
    """Mend it with `python -m proxy.ledger.findings_table`."""
    page = findings_table.PAGE.read_text(encoding="utf-8")
    assert findings_table.renewed(page) == page
    assert [line.split("`")[1] for line in page.splitlines() if line.count(" | `") == 1 and line.count("|") == 6][
        : len(ORDER)
    ] == list(ORDER)
