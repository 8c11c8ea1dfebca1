"""Prompts and sampling defaults that differ: named where they differ, and nothing behind them counted."""

from __future__ import annotations

import random

import pytest

from engines.dialect import Defaults
from proxy.compare.comparison import Mode
from proxy.compare.layers import Found, Known
from proxy.judge.beforehand import defaults_found
from tests.known_truth.arms import Arm, Ids, World
from tests.known_truth.watched import as_it_is, no_numbers, said, watch

CONVERSATIONS = 6
BEGIN = 1


def longer(size: int):
    """A conversation of this many tokens more."""

    words = random.Random(size).choices(range(2, 60), k=size)

    def rendered(ids: Ids) -> Ids:
        return (ids[0], *words, *ids[1:])

    return rendered


def doubled(ids: Ids) -> Ids:
    return (BEGIN, *ids)


def without_begin(ids: Ids) -> Ids:
    return ids[1:]


def headed(header: tuple[int, ...], tail: tuple[int, ...]):
    """Another template: other tokens after the begin token and before the reply."""
    return lambda ids: (ids[0], *header, *ids[1:], *tail)


def cut(missing: int):
    """The oldest tokens after the begin token are gone."""
    return lambda ids: (ids[0], *ids[1 + missing :])


def after(first, then):
    return lambda ids: then(first(ids))


@pytest.mark.parametrize("size", [0, 600])
@pytest.mark.parametrize("arm", ["shadow", "primary"])
@pytest.mark.parametrize(
    ("name", "planted", "change", "evidence"),
    [
        ("prompt_double_bos", "a second begin token", doubled, {"begin_token": BEGIN}),
        ("prompt_missing_bos", "no begin token", without_begin, {"begin_token": BEGIN}),
        ("prompt_template", "three tokens of another template", headed((61, 62), (63,)), {"same_before": 1}),
        ("prompt_template", "41 tokens of another template", headed(tuple(range(20, 60)), (63,)), {"same_before": 1}),
    ],
    ids=["double_bos", "missing_bos", "template", "long_template"],
)
def test_another_prompt_is_named_and_nothing_behind_it_is_counted(
    name, planted, change, evidence, arm, size, seed, tell
):
    if "template" in name and "41" in planted and not size:
        size = 80  # of a prompt that is mostly another one, nobody would say that its template alone is
    world = World(seed)
    plain = longer(size)
    sides = (plain, after(plain, change)) if arm == "shadow" else (after(plain, change), plain)
    seen = watch(Arm(world), Arm(world), Arm(world), conversations=CONVERSATIONS, length=24, prompts=sides)
    _named(seen, name)
    for mode in Mode:
        for comparison in seen.of(mode):
            shown = comparison.evidence[name]
            assert shown.items() >= evidence.items()
            assert shown.get("arm", arm) == arm
            counts = [comparison.evidence["prompt_tokens"][f"{one}_tokens"] for one in ("primary", "shadow")]
            assert counts == [len(side(world.prompt(0))) for side in sides]
            # Where it differs: at the begin token, or where the template's own tokens begin.
            assert comparison.evidence["prompt_tokens"]["first_difference"] == (0 if "missing" in name else 1)
    tell(f"prompt: {planted}", f"{arm}, prompt of {8 + size} tokens", f"{name}; nothing compared", "prompt")


def _named(seen, name: str) -> None:
    """Found in both modes of every conversation, and nothing else is."""
    both = 2 * CONVERSATIONS
    assert said(seen.control) == {}
    assert seen.said() == {"findings": {name: both, "prompt_tokens": both}, "incomparable": {"prompt_tokens": both}}
    for mode in ("free", "forced"):
        assert no_numbers(seen.mode(mode))
        assert seen.mode(mode)["requests"] == seen.mode(mode)["tokens_compared"] == 0
        assert "onset" not in seen.mode(mode)
    assert seen.tally == {"worse": CONVERSATIONS}
    assert [one["by"] for one in seen.candidate["verdict"]["bad_by"]] == [name]


@pytest.mark.parametrize(("size", "missing"), [(600, 40), (600, 300), (2000, 1000), (2000, 1)])
def test_a_cut_prompt_is_named_with_what_is_missing(size, missing, seed, tell):
    world = World(seed)
    plain = longer(size)
    context = size + 8 - missing + 24
    seen = watch(
        Arm(world), Arm(world), Arm(world), conversations=CONVERSATIONS, length=24,
        prompts=(plain, after(plain, cut(missing))), known=Known(contexts=(4096, context), max_tokens=24),
    )  # fmt: skip
    _named(seen, "context_truncated")
    for mode in Mode:
        for comparison in seen.of(mode):
            shown = comparison.evidence["context_truncated"]
            assert (shown["arm"], shown["context"], shown["missing"]) == ("shadow", context, missing)
            assert (
                1 <= shown["at"] <= 4
            )  # behind the begin token, and tokens that happen to stand on both sides of the hole
    tell(
        "truncated context", f"{missing} of {size + 8} tokens cut", f"context_truncated, missing {missing}; nothing compared", "prompt"
    )  # fmt: skip


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("said_for_it", [True, False], ids=["neutralised", "cannot be said"])
def test_another_default_temperature_is_named(temperature, said_for_it, seed, tell):
    """Where the shadow can be told the primary's value, its tokens are compared; where not, it answered another request."""
    world = World(seed)
    own, its = Defaults(temperature=0.0), Defaults(temperature=temperature)
    [noted] = defaults_found(own, its, "vllm")
    shown = {"temperature_primary": 0.0, "temperature_shadow": temperature, "neutralised": True}
    assert (noted.name, noted.evidence) == ("sampling_defaults", shown)
    if not said_for_it:
        noted = Found(noted.name, noted.evidence | {"neutralised": False})
    known = Known((noted,))
    seen = watch(Arm(world), Arm(world), Arm(world), conversations=CONVERSATIONS, length=24, known=known)
    assert said(seen.control) == {}
    both = {"findings": {"sampling_defaults": 2 * CONVERSATIONS}}
    refused = {"incomparable": {"sampling_defaults": CONVERSATIONS}}
    assert seen.said() == (both if said_for_it else both | refused)
    assert seen.mode("free")["identical"] == (CONVERSATIONS if said_for_it else 0)
    assert seen.mode("forced")["logprob_error_nats"]["max"] == 0.0
    assert seen.tally == ({"neither": CONVERSATIONS} if said_for_it else {"worse": CONVERSATIONS})
    [found] = seen.candidate["findings"]
    assert found["evidence"].items() >= {"temperature_primary": 0.0, "temperature_shadow": temperature}.items()
    tell(
        "other default temperature", f"0 against {temperature}, {'said for it' if said_for_it else 'which it cannot be told'}",
        f"sampling_defaults; {'answers identical' if said_for_it else 'answers not compared, scores identical'}", "sampling",
    )  # fmt: skip


def test_the_prompt_as_it_is_has_no_finding(seed):
    world = World(seed)
    plain = longer(600)
    seen = watch(Arm(world), Arm(world), conversations=2, length=8, prompts=(plain, plain))
    assert seen.said() == {}
    assert as_it_is((1, 2)) == (1, 2)
