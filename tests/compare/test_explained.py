"""Every planted difference under its own name, with what was seen, and not as numeric drift."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from proxy.compare.compare_forced import compare_forced
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Source
from proxy.compare.layers import LAYER_OF, NOTHING, ORDER, Found, Known, Layer, in_order
from proxy.compare.summary import summarise_forced, summarise_free
from proxy.compare.token_stream import Reply, ToolCall

LENGTH = 40
NUMERIC = {
    "logprob_error_nats",
    "relative_error",
    "probability_error",
    "kl_lower_bound_nats",
    "k1",
    "k3",
    "correlation",
}


@pytest.fixture
def answers(make):
    return [make.engine().greedy(prompt, LENGTH) for prompt in make.prompts]


def hold(make, tau, answers, plant, *, known=NOTHING, **more):
    return [
        compare_free(
            make.reply(one, prompt_tokens=2),
            plant(make.reply(one, prompt_tokens=2)),
            source=Source.REPLY,
            tau=tau,
            greedy=True,
            known=known,
            **more,
        )
        for one in answers
    ]


def choice(**changes):
    """Plant in the reply's only choice."""
    return lambda one: replace(one, choices=(replace(one.choices[0], **changes),))


def rows(change):
    def plant(one):
        (stream,) = one.choices
        return replace(one, choices=(replace(stream, tokens=tuple(change(stream.tokens))),))

    return plant


def shifted(tokens):
    return [replace(token, logprob=tokens[at - 1].logprob, top=tokens[at - 1].top) for at, token in enumerate(tokens)]


def repeated(tokens):
    return [replace(token, top=tokens[at - at % 4].top) for at, token in enumerate(tokens)]


def bare(tokens):
    return [replace(token, top=()) if at % 3 == 2 else token for at, token in enumerate(tokens)]


def doubled(tokens):
    return [replace(token, top=(token.top[0], *token.top[:1], *token.top[2:])) for token in tokens]


def left_out(tokens):
    return [replace(token, top=(token.top[0], *token.top[2:])) for token in tokens]


def scaled(tokens):
    return [
        replace(
            token, logprob=token.logprob / 0.7, top=tuple(replace(one, logprob=one.logprob / 0.7) for one in token.top)
        )
        for token in tokens
    ]


PLANTED = {
    "prompt_double_bos": lambda one: choice(prompt_ids=(one.choices[0].prompt_ids[0], *one.choices[0].prompt_ids))(one),
    "prompt_template": lambda one: choice(prompt_ids=(98, *one.choices[0].prompt_ids, 99))(one),
    "context_truncated": lambda one: replace(choice(prompt_ids=None)(one), prompt_tokens=1),
    "transport_errors": lambda _one: Reply(error="status_500"),
    "logprob_mode": rows(scaled),
    "logprob_alignment": rows(shifted),
    "alternatives_incomplete": rows(bare),
    "stream_misaligned": rows(lambda tokens: tokens[:-1]),
    "channel_split": lambda one: choice(text="", reasoning=one.choices[0].text)(one),
    "tokenizer": lambda one: choice(text="?" + one.choices[0].text)(one),
    "stop_handling": lambda one: choice(text=one.choices[0].text + "END")(one),
    "finish_reason": choice(finish_reason="stop"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_each_is_reported_under_its_own_name_and_not_as_drift(make, tau, answers, name):
    known = Known(contexts=(None, 1))
    found = hold(make, tau, answers[:1] if name == "context_truncated" else answers, PLANTED[name], known=known)
    summary = summarise_free(found)
    assert all(name in one.findings for one in found), found[0].findings
    assert all(one.evidence[name] for one in found)
    beside = {other for one in found for other in one.findings if LAYER_OF[other] is not LAYER_OF[name]}
    assert not beside, beside
    assert sum(summary["divergences"].values()) == 0
    assert summary.get("hazard_per_1000_tokens", {"raw": 0.0})["raw"] == 0.0
    if summary["requests"] and LAYER_OF[name] is Layer.LOGPROBS and name != "alternatives_incomplete":
        assert not NUMERIC & summary.keys()
    else:
        assert summary.get("logprob_error_nats", {"max": 0.0})["max"] == 0.0


def test_an_identical_pair_gives_no_finding_at_all(make, tau, answers):
    for one in hold(make, tau, answers, lambda one: one, known=Known(contexts=(2048, 2048))):
        assert (one.findings, one.evidence, one.values_incomparable) == ((), {}, None)
    calling = choice(tool_calls=(ToolCall("f", '{"a":1,"b":[2,3]}'),))
    respelled = choice(tool_calls=(ToolCall("f", '{ "b": [2, 3], "a": 1 }'),))
    for one in answers:
        arms = calling(make.reply(one)), respelled(make.reply(one))
        assert compare_free(*arms, source=Source.REPLY, tau=tau, greedy=True).findings == ()


@pytest.mark.parametrize(
    ("theirs", "name"),
    [
        ((ToolCall("g", '{"a":1}'),), "tool_call_name"),
        ((), "tool_call_name"),
        ((ToolCall("f", '{"a":2}'),), "tool_call_arguments"),
        ((ToolCall("f", '{"a":'),), "tool_call_arguments"),
    ],
)
def test_tool_calls(make, tau, answers, theirs, name):
    calling = choice(tool_calls=(ToolCall("f", '{"a":1}'),))
    mine = calling(make.reply(answers[0]))
    found = compare_free(mine, choice(tool_calls=theirs)(mine), source=Source.REPLY, tau=tau, greedy=True)
    assert name in found.findings
    assert found.evidence[name]["primary_calls"] == 1
    assert sum(summarise_free([found])["divergences"].values()) == 0


def test_another_limit_is_a_finding_and_no_divergence(make, tau):
    whole, part = make.engine().greedy((1, 2), LENGTH), make.engine().greedy((1, 2), LENGTH // 2)
    found = compare_free(make.reply(whole), make.reply(part), source=Source.REPLY, tau=tau, greedy=True)
    assert found.findings == ("output_length",)
    assert found.evidence["output_length"] == {
        "primary_tokens": 40, "primary_reason": "length", "shadow_tokens": 20, "shadow_reason": "length", "max_tokens": "not set",
    }  # fmt: skip
    assert summarise_free([found])["hazard_per_1000_tokens"]["raw"] == 0.0


def test_rows_that_repeat_a_list_are_left_out_and_the_others_counted(make, tau, answers):
    found = hold(make, tau, answers, rows(repeated))
    assert all(one.findings == ("alternatives_incomplete",) for one in found)
    for one in found:
        (compared,) = one.choices
        n = one.evidence["alternatives_incomplete"]["shadow_repeated"]
        assert 0 < n == compared.kl_lower_bounds.count(None) == compared.shadow_gaps.count(None)
        assert set(compared.kl_lower_bounds) == {0.0, None}
    assert summarise_free(found)["logprob_error_nats"]["max"] == 0.0


@pytest.mark.parametrize(("change", "what"), [(doubled, "doubled"), (left_out, "left_out")])
@pytest.mark.parametrize("guilty", ["primary", "shadow"])
def test_lists_that_hold_one_twice_or_leave_one_out(make, tau, change, what, guilty):
    primary = [make.engine().greedy(prompt, LENGTH, make.vocabulary) for prompt in make.prompts[:4]]
    for stream in primary:
        mine, other = make.reply(stream), rows(change)(make.reply(stream))
        arms = (other, mine) if guilty == "primary" else (mine, other)
        found = compare_free(*arms, source=Source.REPLY, tau=tau, greedy=True)
        assert found.findings == ("alternatives_incomplete",)
        seen = found.evidence["alternatives_incomplete"]
        assert seen[f"{guilty}_{what}"] > LENGTH // 2
        assert all(name == "positions" or name.startswith(guilty) for name in seen)
        (compared,) = found.choices
        assert not compared.ties
        assert set(compared.kl_lower_bounds) <= {0.0, None} or what == "left_out"
        assert found.outcome == "identical"


def test_shifted_scores_claim_no_flip(make, tau, answers):
    for stream in answers:
        ids = [token.id for token in stream.tokens]
        scored = make.engine().score(stream.prompt_ids, ids)
        moved = [
            (at, replace(token, logprob=scored[at - 1][1].logprob, top=scored[at - 1][1].top)) for at, token in scored
        ]
        found = compare_forced(make.reply(stream), [moved], source=Source.REPLY, tau=tau, greedy=True)
        assert found.findings == ("logprob_alignment",)
        summary = summarise_forced([found])
        assert (sum(summary["flips"].values()), summary["flip_positions"]) == (0, 0)
        assert not NUMERIC & summary.keys()


def test_findings_come_in_the_order_of_the_layers(make, tau, answers):
    noted = Found("sampling_defaults", {"temperature_primary": 0.0})
    plant = lambda one: rows(scaled)(choice(finish_reason="stop")(one))  # noqa: E731 - one expression
    (found,) = hold(make, tau, answers[:1], plant, known=Known((noted,)))
    assert found.findings == ("sampling_defaults", "logprob_mode", "finish_reason")
    assert list(found.evidence) == list(found.findings)
    assert in_order(("new", *reversed(ORDER), "finish_reason")) == (*ORDER, "new")
