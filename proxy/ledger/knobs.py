"""Which option of which engine a finding's remedy means.

House rules. Options as the engines' own documents name them, one short clause each, no full stop. An engine without an entry has no such option that we know of;
nothing is made up for it.
"""

from __future__ import annotations

_TEMPLATE = {
    "vllm": "--chat-template FILE",
    "sglang": "--chat-template FILE",
    "llama_cpp": "--chat-template-file FILE (with --jinja)",
    "ollama": "TEMPLATE in the Modelfile",
    "lmdeploy": "--chat-template FILE",
    "tgi": "--tokenizer-config-path FILE",
    "transformers": "chat_template.jinja in the model's folder",
    "reference": "--chat-template FILE",
}
_TOOLS = {
    "vllm": "--enable-auto-tool-choice --tool-call-parser NAME",
    "sglang": "--tool-call-parser NAME",
    "llama_cpp": "--jinja",
    "lmdeploy": "--tool-call-parser NAME",
}

_KNOBS: dict[str, dict[str, str]] = {
    "context_truncated": {
        "vllm": "--max-model-len",
        "sglang": "--context-length",
        "llama_cpp": "--ctx-size (shared by the slots of --parallel)",
        "ollama": "OLLAMA_CONTEXT_LENGTH, or PARAMETER num_ctx in the Modelfile",
        "lmdeploy": "--session-len",
        "tgi": "--max-input-tokens and --max-total-tokens",
        "tensorrt_llm": "--max_seq_len",
        "reference": "--max-model-len",
    },
    "prompt_double_bos": _TEMPLATE
    | {"llama_cpp": "--chat-template-file FILE without the begin token, which the tokenizer adds itself"},
    "prompt_missing_bos": _TEMPLATE,
    "prompt_template": _TEMPLATE,
    "sampling_defaults": {
        "vllm": "--override-generation-config, or --generation-config vllm for none",
        "sglang": "--sampling-defaults openai|model",
        "llama_cpp": "--temp, --top-k, --top-p, --min-p, --repeat-penalty",
        "lmdeploy": "--generation-config",
        "ollama": "PARAMETER in the Modelfile (its /v1 routes use 1.0 whatever it says)",
        "transformers": "generation_config.json in the model's folder",
        "reference": "--temperature",
    },
    "logprob_mode": {
        "vllm": "--logprobs-mode raw_logprobs",
        "sglang": "SGLANG_RETURN_ORIGINAL_LOGPROB=1 in its environment",
        "lmdeploy": "--logprobs-mode raw_logprobs with the PyTorch engine",
        "llama_cpp": "leave post_sampling_probs out of the requests",
    },
    "alternatives_incomplete": {"vllm": "--max-logprobs", "tgi": "--max-top-n-tokens", "reference": "--max-logprobs"},
    "tokenizer": {"vllm": "--tokenizer and --tokenizer-mode", "sglang": "--tokenizer-path"},
    "channel_split": {
        "vllm": "--reasoning-parser NAME",
        "sglang": "--reasoning-parser NAME",
        "llama_cpp": "--reasoning-format",
        "lmdeploy": "--reasoning-parser NAME",
    },
    "tool_call_name": _TOOLS,
    "tool_call_arguments": _TOOLS,
    "json_structure": {"sglang": "--grammar-backend"},
    "output_length": {"llama_cpp": "--predict", "ollama": "PARAMETER num_predict in the Modelfile"},
}


def knob(finding: str, dialect: str) -> str:
    """Return what to change on an engine because of a finding; empty where no option is known."""
    return _KNOBS.get(finding, {}).get(dialect, "")
