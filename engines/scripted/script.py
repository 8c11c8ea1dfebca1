"""What a script says: the served model, its vocabulary and template, the toy behind it, planted differences, faults.

House rules. Frozen values with defaults: an empty script is a healthy engine. Nothing here acts; ``script_load`` reads a file into these, everything
else reads them. Two engines of equal scripts answer equally to the last bit, whatever dialect they speak.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(ge=0, le=3600)]
Count = Annotated[int, Meta(ge=0, le=1 << 20)]
Positive = Annotated[int, Meta(ge=1, le=1 << 20)]
Value = Annotated[float, Meta(ge=0, le=100)]
Seed = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Vocabulary(Struct, frozen=True, forbid_unknown_fields=True):
    """``words``: the built-in words (or ``list``), single bytes for the rest; ``bytes``: single bytes only."""

    kind: Literal["words", "bytes"] = "words"
    list: tuple[Annotated[str, Meta(min_length=2, max_length=64)], ...] = ()


class Template(Struct, frozen=True, forbid_unknown_fields=True):
    """How a chat becomes a prompt: ``bos`` first, one ``turn`` a message, ``open`` before the reply."""

    bos: bool = True
    system: str | None = None
    turn: str = "<|turn|>{role}\n{content}\n"
    open: str = "<|turn|>assistant\n"


class Toy(Struct, frozen=True, forbid_unknown_fields=True):
    """The toy model: equal ``seed`` is an equal model; ``spread`` is the mean gap of its best two logits; ``length`` the mean length of its replies."""

    seed: Seed = 0
    spread: Annotated[float, Meta(ge=0.01, le=10)] = 2.0
    length: Positive = 40


class ChosenToken(Struct, frozen=True, forbid_unknown_fields=True):
    """One token of a scripted reply: by ``id`` or ``text``, with its ``logprob`` and the alternatives' (by text, or ``#id``), in nats."""

    id: Count | None = None
    text: str | None = None
    logprob: Annotated[float, Meta(le=0)] | None = None
    top: dict[str, Annotated[float, Meta(le=0)]] = {}


class ChosenCall(Struct, frozen=True, forbid_unknown_fields=True):
    """One tool call of a scripted reply."""

    name: str
    arguments: dict[str, Any] = {}


class ChosenReply(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model is made to say where the prompt holds ``after``: reasoning, then a text or single tokens, then calls."""

    after: Annotated[str, Meta(min_length=1)]
    reasoning: str = ""
    say: str = ""
    tokens: tuple[ChosenToken, ...] = ()
    calls: tuple[ChosenCall, ...] = ()


class Defaults(Struct, frozen=True, forbid_unknown_fields=True):
    """Sampling values for what a request leaves out; None: the dialect's own."""

    temperature: Value | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Count | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens_chat: Positive | None = None
    max_tokens_completions: Positive | None = None


class Differences(Struct, frozen=True, forbid_unknown_fields=True):
    """What is wrong with this engine, one switch each; all off is a healthy one."""

    noise: Value = 0.0
    noise_seed: Seed = 1
    noise_from: Count = 0
    noise_growth: Value = 0.0
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    ties: Literal["lowest", "highest", "random"] = "lowest"
    wrong_token: Count | None = None
    processed_logprobs: bool | None = None
    shifted_rows: bool = False
    alternatives: Literal["all", "duplicated", "missing", "first_repeated"] = "all"
    context_cut: Positive | None = None
    temperature: Value | None = None
    max_tokens: Positive | None = None
    double_bos: bool = False
    template: Template | None = None
    reasoning_in_content: bool = False
    keep_stop: bool = False
    tool_arguments: Literal["plain", "reordered", "broken"] = "plain"
    tool_name: str | None = None
    tool_calls_in_content: bool = False


class Timing(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds before the first token and for each token."""

    first: Seconds = 0.0
    token: Seconds = 0.0


Fault = Literal[
    "none", "refuse", "reset", "status", "hang", "cut", "garbage", "drip", "no_done", "error_event", "empty"
]


class Faults(Struct, frozen=True, forbid_unknown_fields=True):
    """What fails: ``after`` so many good requests, for ``times`` requests (None: for good), ``at`` that event of a stream; ``paths`` empty: all that generate."""

    kind: Fault = "none"
    after: Count = 0
    times: Positive | None = None
    at: Count = 2
    status: Annotated[int, Meta(ge=400, le=599)] = 500
    paths: tuple[str, ...] = ()


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script."""

    model: Annotated[str, Meta(min_length=1)] = "toy"
    vocabulary: Vocabulary = Vocabulary()
    template: Template = Template()
    toy: Toy = Toy()
    replies: tuple[ChosenReply, ...] = ()
    defaults: Defaults = Defaults()
    context: Annotated[int, Meta(ge=16, le=1 << 20)] = 4096
    most_alternatives: Count | None = None
    api_key: str | None = None
    differences: Differences = Differences()
    timing: Timing = Timing()
    faults: Faults = Faults()
    routes: dict[str, Any] = {}
