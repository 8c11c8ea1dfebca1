"""The same tokens shown otherwise, replies that end otherwise, and replies that are numbers: simulated, through comparison and report."""

from __future__ import annotations

import json
import math

import pytest

from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Mode, Source, TauOrigin
from proxy.compare.json_validity import Expected
from proxy.compare.near_tie import Tau
from proxy.compare.output_shape import with_shapes
from proxy.compare.ranking import compare_ranking
from proxy.compare.token_stream import Reply, Score, ToolCall
from proxy.compare.vectors import compare_vectors
from tests.known_truth.arms import END, Arm, World, stream
from tests.known_truth.watched import CONFIG, reported, said

TAU = Tau(1e-3, TauOrigin.ASSUMED)
CONVERSATIONS = 5
CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
PLAIN = Expected()
OFFERED = Expected({"weather": CITY})


def rows(seed: int, number: int, length: int):
    """The tokens of one reply; it ends by itself."""
    world = World(seed, ends=length)
    return Arm(world).reply(world.prompt(number), length + 1).tokens


def told(compare, expected: Expected = PLAIN):
    """The report of pairs of streams; ``compare(number)`` gives both. Also the comparisons."""
    found = []
    for number in range(CONVERSATIONS):
        primary, shadow = (Reply(choices=(one,)) for one in compare(number))
        one = compare_free(primary, shadow, source=Source.REPLY, tau=TAU, greedy=True)
        found.append(with_shapes(one, primary, shadow, expected))
    report = reported({("candidate", Mode.FREE): found})
    return next(one for one in report["shadows"] if one["name"] == "candidate"), found


def silent(shadow, *bad: str) -> None:
    """No token differs and no value; conversations are ``bad`` by that, or good."""
    free, verdict = shadow["modes"]["free"], shadow["verdict"]
    assert "onset" not in free
    assert [one["by"] for one in verdict["bad_by"]] == list(bad)
    tally = {result: n for result, n in verdict["tally"].items() if n}
    assert tally == {"worse" if bad else "neither": CONVERSATIONS}
    assert sum(free["divergences"].values()) == 0
    assert free["hazard_per_1000_tokens"]["raw"] == 0.0
    assert free["logprob_error_nats"]["max"] == 0.0


def call(place: int, **more) -> ToolCall:
    return ToolCall("weather", json.dumps({"city": f"Paris {place}", "days": 2}, **more))


FAULTS = {
    "broken": ("tool_call_arguments", lambda one: ToolCall(one.name, one.arguments[:-1])),
    "escaped twice": ("tool_call_arguments", lambda one: ToolCall(one.name, json.dumps(one.arguments))),
    "number as text": ("tool_call_arguments", lambda one: ToolCall(one.name, one.arguments.replace(": 2", ': "2"'))),
    "another name": ("tool_call_name", lambda one: ToolCall("weather_", one.arguments)),
    "lost": ("tool_call_name", lambda one: None),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("calls", "place"), [(1, 0), (3, 0), (3, 2)])
def test_a_fault_of_the_tool_parser_is_of_the_structure(calls, place, fault, seed, tell):
    name, change = FAULTS[fault]

    def pair(number):
        said_ = rows(seed, number, 30)
        whole = [call(one) for one in range(calls)]
        its = [change(one) if at == place else one for at, one in enumerate(whole)]
        its = [one for one in its if one is not None]
        more = {"text": ""}
        return (
            stream(said_, finish="tool_calls", tool_calls=tuple(whole), **more),
            stream(said_, finish="tool_calls", tool_calls=tuple(its), **more),
        )

    shadow, _ = told(pair, OFFERED)
    assert said(shadow) == {"findings": {name: CONVERSATIONS}}
    silent(shadow, name)
    tools = shadow["modes"]["free"]["tools"]
    assert tools["calls"]["primary"] == {"valid": calls * CONVERSATIONS}
    wrong = {
        "broken": "not_json", "escaped twice": "against_schema", "number as text": "against_schema", "another name": "unknown_tool"
    }.get(fault)  # fmt: skip
    others = {"valid": (calls - 1) * CONVERSATIONS} if calls > 1 else {}
    assert tools["calls"]["shadow"] == others | ({wrong: CONVERSATIONS} if wrong else {})
    gone = fault == "lost" and calls == 1
    assert tools["called"]["both"] == (0 if gone else CONVERSATIONS)
    tell(
        f"tool-call parser: arguments {fault}" if "arguments" in name else f"tool-call parser: call {fault}",
        f"call {place + 1} of {calls}", f"{name}; {'call missing' if wrong is None else wrong}; no token flip", "structure",
    )  # fmt: skip


@pytest.mark.parametrize("calls", [1, 3])
def test_arguments_in_another_order_are_no_difference(calls, seed, tell):
    def pair(number):
        both = [
            tuple(call(one) for one in range(calls)),
            tuple(call(one, sort_keys=True, indent=1) for one in range(calls)),
        ]
        both[1] = tuple(
            ToolCall("weather", json.dumps(dict(reversed(json.loads(one.arguments).items())))) for one in both[1]
        )
        return [stream(rows(seed, number, 30), finish="tool_calls", tool_calls=some, text="") for some in both]

    shadow, _ = told(pair, OFFERED)
    assert said(shadow) == {}
    silent(shadow)
    tell("tool-call arguments in another order", f"{calls} calls", "nothing", "nowhere")


@pytest.mark.parametrize(
    ("broken", "also"),
    [('{"city": "Par', "stop_handling"), ('{"town": "Paris"}', "tokenizer")],
    ids=["cut", "against schema"],
)
def test_json_of_another_shape_is_of_the_structure(broken, also, seed, tell):
    """The same tokens, told otherwise; that one text is the other's beginning, or another one, is said too."""

    def pair(number):
        said_ = rows(seed, number, 20)
        return stream(said_, text='{"city": "Paris"}'), stream(said_, text=broken)

    shadow, _ = told(pair, Expected(json=True, schema=CITY))
    assert said(shadow) == {"findings": {"json_structure": CONVERSATIONS, also: CONVERSATIONS}}
    silent(shadow, "json_structure" if also == "stop_handling" else also)
    assert shadow["modes"]["free"]["json"]["differ"] == CONVERSATIONS
    tell("JSON of another shape, same tokens", f"`{broken}`", f"json_structure and {also}; no token flip", "structure")


@pytest.mark.parametrize("length", [1, 40, 400])
def test_a_reasoning_parser_that_moves_text_is_of_the_channel(length, seed, tell):
    thought, answer = "x" * length, "It will rain."

    def pair(number):
        said_ = rows(seed, number, 30)
        return (
            stream(said_, reasoning=thought, text=answer),
            stream(said_, reasoning="", text=f"<think>{thought}</think>{answer}"),
        )

    shadow, found = told(pair)
    assert said(shadow) == {"findings": {"channel_split": CONVERSATIONS}}
    silent(shadow, "channel_split")
    evidence = found[0].evidence["channel_split"]
    assert (evidence["primary_reasoning_characters"], evidence["shadow_reasoning_characters"]) == (length, 0)
    tell("reasoning parser moves text", f"{length} characters", "channel_split; no token flip", "channel")


@pytest.mark.parametrize("more", [1, 10, 100])
@pytest.mark.parametrize("by", ["default limit", "other end"])
def test_a_longer_output_is_of_the_length_or_a_difference_at_its_end(by, more, seed, tell):
    """A limit that only one arm has censors; an end token against another is a difference of the engines."""
    length = 20

    def pair(number):
        world = World(seed)
        whole = Arm(world).reply(world.prompt(number), length + more).tokens
        if by == "default limit":
            return stream(whole[:length]), stream(whole)
        world = World(seed, ends=length)
        return Arm(world).reply(world.prompt(number), length + 1), stream(whole)

    shadow, found = told(pair)
    if by == "default limit":
        assert said(shadow) == {"findings": {"output_length": CONVERSATIONS}}
        silent(shadow, "output_length")
        evidence = found[0].evidence["output_length"]
        assert (evidence["primary_tokens"], evidence["shadow_tokens"]) == (length, length + more)
    else:
        assert sum(said(shadow).pop("free").values()) == CONVERSATIONS
        assert {(one.choices[0].first.index, one.choices[0].first.primary.id) for one in found} == {(length, END)}
        assert said(shadow).keys() == {"free"}
    tell(
        f"longer output: {by}", f"{more} tokens more", "output_length; no token flip" if by == "default limit" else "a difference of the tokens",
        "length" if by == "default limit" else f"position {length}",
    )  # fmt: skip


@pytest.mark.parametrize("reasons", [("stop", "length"), ("stop", "tool_calls"), ("length", "stop")], ids="-".join)
def test_another_finish_reason_is_of_the_structure(reasons, seed, tell):
    def pair(number):
        said_ = rows(seed, number, 20)[:20]
        return [stream(said_, finish=reason) for reason in reasons]

    shadow, found = told(pair)
    assert said(shadow) == {"findings": {"finish_reason": CONVERSATIONS}}
    silent(shadow, "finish_reason")
    assert found[0].evidence["finish_reason"] == {"primary_reason": reasons[0], "shadow_reason": reasons[1]}
    tell("other finish reason", f"{reasons[0]} against {reasons[1]}", "finish_reason; no token flip", "structure")


@pytest.mark.parametrize("kept", ["text", "tokens"])
@pytest.mark.parametrize("stop", [1, 3])
def test_a_stop_string_that_is_kept_is_of_the_structure(kept, stop, seed, tell):
    """``text``: the same rows, and one arm shows the stop string; ``tokens``: one arm goes on behind it."""

    def pair(number):
        said_ = rows(seed, number, 20)[:20]
        whole, cut_ = ("".join(one.text for one in said_[:upto]) for upto in (20, 20 - stop))
        texts = [cut_, whole]
        if kept == "text":
            return [stream(said_, finish="stop", text=text) for text in texts]
        return stream(said_[: 20 - stop], finish="stop", text=cut_), stream(said_, finish="length", text=whole)

    def one(number):
        said_ = rows(seed, number, 20)[:20]
        return "".join(token.text for token in said_[20 - stop :])

    found = []
    for number in range(CONVERSATIONS):
        left, right = (Reply(choices=(side,)) for side in pair(number))
        found.append(compare_free(left, right, source=Source.REPLY, tau=TAU, greedy=True, stop=(one(number),)))
    shadow = reported({("candidate", Mode.FREE): found})["shadows"][0]
    assert said(shadow) == {"findings": {"stop_handling": CONVERSATIONS}}
    silent(shadow, "stop_handling")
    assert {one.choices[0].censored for one in found} == ({"end"} if kept == "text" else {"stop_string"})
    tell(
        "stop handling", f"a stop string of {stop} tokens {'kept in the text' if kept == 'text' else 'not heeded'}", "stop_handling; no token flip", "structure"
    )  # fmt: skip


@pytest.mark.parametrize("angle", [0.0, 1e-4, 0.01, 0.5, math.pi / 2])
@pytest.mark.parametrize("dimensions", [2, 384])
def test_embeddings_turned_by_a_known_angle_are_that_far_apart(dimensions, angle, seed, tell):
    world = World(seed, vocabulary=dimensions)
    found = []
    for number in range(CONVERSATIONS):
        one = list(world.noise("vector", world.prompt(number)))
        other = list(world.noise("other", world.prompt(number)))
        along = math.fsum(a * b for a, b in zip(one, other, strict=True)) / math.fsum(a * a for a in one)
        across = [b - along * a for a, b in zip(one, other, strict=True)]
        scale = math.hypot(*one) / math.hypot(*across)
        turned = [math.cos(angle) * a + math.sin(angle) * scale * b for a, b in zip(one, across, strict=True)]
        found.append(compare_vectors(Reply(vectors=(one,)), Reply(vectors=(turned,))))
    [shadow, _] = reported({("candidate", Mode.FREE): found}, CONFIG)["shadows"]
    embeddings = shadow["modes"]["free"]["embeddings"]
    assert said(shadow) == {}
    assert embeddings["vectors"] == CONVERSATIONS
    for name in ("median", "max"):
        assert embeddings["cosine_distance"][name] == pytest.approx(1.0 - math.cos(angle), rel=1e-6, abs=1e-15)
    assert {one.outcome for one in found} == ({"measured"} if angle else {"identical"})
    tell(
        "embeddings turned by an angle", f"{angle:.4g} rad in {dimensions} dimensions", f"cosine distance {embeddings['cosine_distance']['median']:.3g}", "values"
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["rerank", "score"])
@pytest.mark.parametrize(("items", "place"), [(2, 0), (8, 0), (8, 6), (50, 24)])
def test_a_swapped_pair_of_a_ranking_is_found_at_its_rank(kind, items, place, tell):
    values = [1.0 - rank / items for rank in range(items)]
    swapped = list(values)
    swapped[place], swapped[place + 1] = values[place + 1], values[place]
    sides = [tuple(Score(index, value) for index, value in enumerate(some)) for some in (values, swapped)]
    found = [compare_ranking(*(Reply(scores=side) for side in sides), kind=kind)] * CONVERSATIONS
    same = [compare_ranking(*(Reply(scores=side) for side in sides[:1] * 2), kind=kind)] * CONVERSATIONS
    report = reported({("candidate", Mode.FREE): found, ("control", Mode.FREE): same})
    shadow, control = report["shadows"]
    block, floor = (one["modes"]["free"][kind] for one in (shadow, control))
    assert said(shadow) == said(control) == {}
    assert (block["order_mismatches"], floor["order_mismatches"]) == (CONVERSATIONS, 0)
    pairs = CONVERSATIONS * items * (items - 1) // 2
    assert (block["discordant_pairs"], block["pairs"]) == (CONVERSATIONS, pairs)
    assert {one.ranking.first_difference for one in found} == {place}
    assert block["score_error"]["max"] == pytest.approx(1 / items)
    tell(
        f"{kind}: a swapped pair",
        f"ranks {place} and {place + 1} of {items}",
        "1 discordant pair a request",
        f"rank {place}",
    )
