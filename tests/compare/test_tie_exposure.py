"""Logits of a known format, told from their ties and steps."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from proxy.compare.tie_exposure import Seen, agrees, exposure, logits
from tests.compare.test_tie_policy import prompts, seen


def test_formats_of_logits(make, tau):
    asked = prompts(3, 20)
    assert logits(seen(make, tau, lambda _: make.engine(), asked), "shadow")["says"] == "fp32"
    assert logits(seen(make, tau, lambda _: make.engine(), asked[:2]), "shadow")["says"] is None
    half = make.engine(lambda _prefix, logits: [round(x * 64) / 64 for x in logits])
    assert logits(seen(make, tau, lambda _: half, asked), "primary")["says"] == "fp16"
    own = seen(make, tau, lambda _: make.rounded(), asked)
    coarse = [
        replace(one, choices=tuple(replace(choice, gaps=tuple(0.3 * gap for gap in choice.gaps)) for choice in one.choices))
        for one in own.comparisons
    ]  # fmt: skip
    scaled = own._replace(comparisons=coarse)
    assert logits(scaled, "primary")["says"] == "rounded"
    assert exposure(Seen(), "primary") == {"ties": 0, "positions": 0}


@pytest.mark.parametrize(
    ("says", "footprint", "expected"),
    [
        ("bf16", {"dtype": "bfloat16"}, True),
        ("bf16", {"dtype": "fp32"}, False),
        ("bf16", {"dtype": "bf16", "logit_step": "fp32"}, False),
        ("fp32", {"dtype": "bf16"}, None),
        ("fp32", {"dtype": "bf16", "logit_step": "bf16"}, False),
        ("fp16", {"dtype": "q4_1"}, None),
        ("rounded", {"dtype": "float32"}, False),
        ("rounded", {"dtype": "bf16"}, None),
        (None, {"dtype": "bf16"}, None),
        ("bf16", {}, None),
    ],
)
def test_what_ties_say_against_what_the_footprint_says(says, footprint, expected):
    assert agrees(says, footprint) is expected
