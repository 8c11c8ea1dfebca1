"""The layers of difference, the findings of each, and what is known of two arms before their replies are looked at.

House rules. The order is that of the pipeline: a difference in an early layer explains those in the later ones. Names are added and never renamed;
one that stands in no layer here is shown after all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

#: Counts, values and bounded words; never a text of a prompt or a reply.
Evidence = dict[str, int | float | str | bool | None]


class Layer(StrEnum):
    """Where in the pipeline two arms differ, first to last."""

    TRANSPORT = "transport"
    STACK = "stack"
    PROMPT = "prompt"
    SAMPLING = "sampling"
    LOGPROBS = "logprobs"
    TOKENS = "tokens"
    CHANNEL = "channel"
    STRUCTURE = "structure"
    LENGTH = "length"


_LAYERS: dict[Layer, tuple[str, ...]] = {
    Layer.TRANSPORT: ("transport_errors",),
    Layer.STACK: ("footprint_changed",),
    Layer.PROMPT: ("context_truncated", "prompt_double_bos", "prompt_missing_bos", "prompt_template", "prompt_tokens"),
    Layer.SAMPLING: ("sampling_defaults",),
    Layer.LOGPROBS: ("logprob_mode", "logprob_alignment", "alternatives_incomplete"),
    Layer.TOKENS: ("stream_misaligned", "tokenizer"),
    Layer.CHANNEL: ("channel_split",),
    Layer.STRUCTURE: ("tool_call_name", "tool_call_arguments", "json_structure", "stop_handling", "finish_reason"),
    Layer.LENGTH: ("output_length",),
}
LAYER_OF: dict[str, Layer] = {name: layer for layer, names in _LAYERS.items() for name in names}
#: Every name in the order in which it is shown: within a layer the more telling one first.
ORDER: tuple[str, ...] = tuple(LAYER_OF)
_PLACE = {name: place for place, name in enumerate(ORDER)}


class Found(Struct, frozen=True):
    """One finding with what was seen."""

    name: str
    evidence: Evidence = {}


class Known(Struct, frozen=True):
    """What the caller knows of an exchange beside the two replies.

    ``noted``: findings of the layers before the replies (sampling defaults, logprob modes). ``contexts``: the arms' context lengths in tokens, primary's and shadow's.
    ``max_tokens``: the client's bound on the reply, None when it set none. ``chat``: whether a template made the prompt, and ``tools``
    whether it had tools to describe.
    """

    noted: tuple[Found, ...] = ()
    contexts: tuple[int | None, int | None] = (None, None)
    max_tokens: int | None = None
    chat: bool = True
    tools: bool = False


NOTHING = Known()


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names once each, by layer."""
    return tuple(sorted(dict.fromkeys(names), key=place))


def place(name: str) -> int:
    """Return where a finding stands among all; an unknown one stands last."""
    return _PLACE.get(name, len(_PLACE))
