"""What the arms were asked, told apart by ids and, where there are none, by counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compare.layers import Known
from proxy.compare.prompt import prompt_findings, reply_prompt_findings
from proxy.compare.token_stream import Reply, TokenStream

LONG = tuple(range(2, 802))


def names(*arguments, **more):
    return tuple(one.name for one in prompt_findings(*arguments, **more))


@pytest.mark.parametrize(
    ("primary", "shadow", "found"),
    [
        ((1, 2, 3), (1, 2, 3), ()),
        (None, (1, 2), ()),
        ((1, 2, 3), (1, 1, 2, 3), ("prompt_double_bos", "prompt_tokens")),
        ((1, 1, 2, 3), (1, 2, 3), ("prompt_double_bos", "prompt_tokens")),
        ((1, 2, 3), (2, 3), ("prompt_missing_bos", "prompt_tokens")),
        ((1, 2, 3), (1, 2, 4), ("prompt_template", "prompt_tokens")),
        ((7, 8, 20, 21, 22, 9), (5, 20, 21, 22, 6), ("prompt_template", "prompt_tokens")),
        # A default system message that only one template adds is a hole too, in a prompt that fits any window.
        ((1, 60, 61, 62, 2, 20, 3), (1, 2, 20, 3), ("prompt_template", "prompt_tokens")),
        ((10, 11, 12), (40, 41, 42, 43), ("prompt_tokens",)),
        ((), (1,), ("prompt_missing_bos", "prompt_tokens")),
        ((1, *LONG), (1, *LONG[200:]), ("context_truncated", "prompt_tokens")),
        ((1, *LONG), (1, *LONG[:600]), ("context_truncated", "prompt_tokens")),
        ((1, *LONG[200:]), (1, *LONG), ("context_truncated", "prompt_tokens")),
    ],
)
def test_prompts(primary, shadow, found):
    assert names(primary, shadow) == found


def test_a_known_context_length_tells_a_cut_from_a_template():
    whole, part = (1, *range(50, 80)), (1, *range(60, 80))
    assert names(whole, part, known=Known(contexts=(2048, 24))) == ("context_truncated", "prompt_tokens")
    assert names(whole, part, known=Known(contexts=(24, 2048))) == ("prompt_template", "prompt_tokens")
    assert names(whole, part, known=Known(contexts=(2048, 40), max_tokens=16))[0] == "context_truncated"
    assert names((1, *LONG), (1, *LONG[200:]), known=Known(contexts=(4096, 4096)))[0] == "prompt_template"
    # No template adds 300 tokens by itself, unless it has tools to describe.
    assert names((1, *LONG), (1, *LONG[300:]), known=Known(contexts=(4096, 4096)))[0] == "context_truncated"
    assert names((1, *LONG), (1, *LONG[300:]), known=Known(contexts=(4096, 4096), tools=True))[0] == "prompt_template"


def test_the_evidence_says_which_arm_and_how_much_and_holds_no_text():
    (double, tokens) = prompt_findings((1, 5, 6), (1, 1, 5, 6))
    assert tokens.evidence == {"primary_tokens": 3, "shadow_tokens": 4, "first_difference": 1}
    assert double.evidence == tokens.evidence | {"arm": "shadow", "begin_token": 1}
    cut = prompt_findings((1, *LONG), (1, *LONG[200:]), known=Known(contexts=(4096, 512)))[0]
    assert cut.evidence["arm"] == "shadow"
    assert (cut.evidence["context"], cut.evidence["missing"], cut.evidence["at"]) == (512, 200, 1)


def test_no_template_makes_the_prompt_of_a_completion():
    assert names((1, 2, 3), (1, 2, 4), known=Known(chat=False)) == ("prompt_tokens",)


def test_counts_speak_only_where_ids_are_silent():
    assert names(None, None, 5, 6) == ("prompt_tokens",)
    assert names(None, None, 5, None) == ()
    assert names((1, 2), (1, 2), 5, 6) == ()
    assert names(None, None, 5000, 4096, known=Known(contexts=(8192, 4096))) == ("context_truncated", "prompt_tokens")
    assert names(None, None, 3000, 2900, known=Known(contexts=(8192, 4096))) == ("prompt_tokens",)


def test_replies_are_compared_choice_by_choice():
    one = Reply(choices=(TokenStream(prompt_ids=(1, 5)), TokenStream(prompt_ids=(1, 7))))
    two = Reply(choices=(TokenStream(prompt_ids=(1, 5)), TokenStream(prompt_ids=(1, 1, 7))))
    assert [one.name for one in reply_prompt_findings(one, two)] == ["prompt_double_bos", "prompt_tokens"]
    assert reply_prompt_findings(one, one) == ()


@given(st.lists(st.integers(0, 9), max_size=12).map(tuple), st.lists(st.integers(0, 9), max_size=12).map(tuple))
def test_any_two_prompts_are_the_same_or_said_to_differ_and_the_arms_can_change_places(left, right):
    there, back = names(left, right), names(right, left)
    assert there == back
    assert bool(there) == (left != right)
