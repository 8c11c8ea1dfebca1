"""The names that training code gives the fields of a rollout."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.rollouts.measured import Settings
from proxy.rollouts.rollout import REASONS, Rollout, Unusable
from proxy.rollouts.spelling import LENGTH, MASK, PROMPT, RESPONSE, ROLLOUT, TRAINER, WHOLE, looks_like, rollouts_of
from proxy.rollouts.tally import Tally

IDS, PS, QS = [7, 8, 9], [-0.1, -0.2, -0.3], [-0.1, -0.25, -0.3]
LINES: dict[str, dict[str, Any]] = {
    "ours": {"prompt_ids": [1, 2], "response_ids": IDS, "rollout_logprobs": PS, "trainer_logprobs": QS},
    "verl": {"prompts": [1, 2], "responses": IDS, "rollout_log_probs": PS, "old_log_probs": QS, "response_mask": [1, 1, 1]},
    "trl": {"prompt_ids": [1, 2], "completion_ids": IDS, "sampling_per_token_logps": PS, "old_per_token_logps": QS},
    "trl rollout function": {"prompt_ids": [1, 2], "completion_ids": IDS, "logprobs": PS, "per_token_logps": QS},
    "openrlhf": {"sequences": [1, 2, *IDS], "action_mask": [1, 1, 1], "rollout_log_probs": PS, "action_log_probs": QS},
    "skyrl": {"prompt_token_ids": [1, 2], "response_ids": IDS, "rollout_logprobs": PS, "loss_masks": [1, 1, 1], "trainer_logprobs": QS},
    "slime": {"tokens": [1, 2, *IDS], "response_length": 3, "rollout_log_probs": PS, "log_probs": QS, "loss_mask": [1, 1, 1]},
}  # fmt: skip


def one(line: object) -> Rollout:
    (found,) = rollouts_of(line, "line 4")
    assert isinstance(found, Rollout), found
    return found


@pytest.mark.parametrize("name", LINES)
def test_each_way_of_writing_a_rollout_is_read(name: str) -> None:
    found = one(LINES[name])
    assert (list(found.prompt_ids), list(found.response_ids)) == ([1, 2], IDS)
    assert (found.rollout_logprobs, found.trainer_logprobs, found.mask) == (PS, QS, None)
    assert looks_like(LINES[name])


def test_a_batch_in_one_line_is_taken_apart() -> None:
    line = {"responses": [IDS, [5]], "rollout_log_probs": [PS, [-1.0]], "old_log_probs": [QS, [2.0]], "uid": ["a", "b"]}
    first, second = rollouts_of(line, "line 1")
    assert isinstance(first, Rollout)
    assert (first.name, first.trainer_logprobs) == ("a", QS)
    assert isinstance(second, Unusable)
    assert second.reason == "positive_logprobs"


def test_the_end_of_an_attention_mask_takes_padding_out() -> None:
    line = {"prompts": [0, 1], "responses": [*IDS, 0], "rollout_log_probs": [*PS, -1.0], "old_log_probs": [*QS, 0.0]}
    assert one(line | {"attention_mask": [0, 1, 1, 1, 1, 0]}).mask == [True, True, True, False]


def test_settings_of_the_draw_say_whether_k3_is_a_divergence() -> None:
    line = LINES["ours"]
    assert one(line).unfiltered is None
    assert one(line | {"temperature": 1.0, "top_p": 1, "top_k": -1}).unfiltered is True
    assert one(line | {"temperature": 1.0, "top_p": 0.95}).unfiltered is False
    assert one(line | {"sampling_params": {"temperature": 0.7}}).unfiltered is False
    assert one(line | {"top_p": 1.0}).unfiltered is None


def test_a_name_is_taken_where_there_is_one() -> None:
    assert one(LINES["ours"]).name == "line 4"
    assert one(LINES["ours"] | {"uid": "step-7/3"}).name == "step-7/3"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ([1, 2], "not_json"),
        ({"rollout_logprobs": PS}, "no_response_ids"),
        ({"response_ids": IDS, "trainer_logprobs": QS}, "no_rollout_logprobs"),
        ({"response_ids": "text", "rollout_logprobs": PS}, "not_numbers"),
        ({"tokens": [1, 2], "response_length": 3, "rollout_log_probs": PS}, "length_mismatch"),
        ({"tokens": [1, 2], "rollout_log_probs": PS}, "no_response_ids"),
    ],
)
def test_what_lacks_something_says_what(line: object, reason: str) -> None:
    (found,) = rollouts_of(line, "line 1")
    assert isinstance(found, Unusable)
    assert found.reason == reason


def test_other_lines_do_not_look_like_rollouts() -> None:
    assert not looks_like({"messages": [{"role": "user", "content": "hi"}]})
    assert not looks_like({"custom_id": "1", "body": {"prompt": "x"}})
    assert not looks_like([1])


SCALARS = st.none() | st.booleans() | st.integers(-200, 10**400) | st.floats() | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)
LISTS = st.lists(st.floats(-20, 0.1) | st.integers(-3, 5) | st.none() | st.just(float("-inf")), max_size=4)
FIELDS = st.sampled_from(
    [
        *PROMPT,
        *RESPONSE,
        *WHOLE,
        *LENGTH,
        *ROLLOUT,
        *TRAINER,
        *MASK,
        "attention_mask",
        "temperature",
        "uid",
        "sampling_params",
    ]
)


@given(st.dictionaries(FIELDS, VALUES | LISTS, max_size=8) | VALUES)
def test_any_line_is_a_rollout_or_says_why_it_is_none(line: Any) -> None:
    looks_like(line)
    tally = Tally(Settings())
    for found in rollouts_of(line, "line 1"):
        if isinstance(found, Unusable):
            assert found.reason in REASONS
        else:
            tally.add(found)
    measured = tally.measured()
    assert set(measured.unusable) <= set(REASONS)
    measured.to_dict()


def test_a_temperature_beyond_all_floats_is_another_than_1() -> None:
    (one,) = rollouts_of({"response_ids": [1], "rollout_logprobs": [-1.0], "temperature": 10**400}, "a")
    assert isinstance(one, Rollout)
    assert one.unfiltered is False
