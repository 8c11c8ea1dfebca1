"""A fault in one part of the traffic is named as that part and no other."""

import random
from collections.abc import Callable
from math import comb, exp

import pytest

from proxy.compare.slices import DIMENSIONS, MOST_MODELS, OTHER, Case, Setting, more_than_rest, slices

ALPHA = 0.01
#: For tests that say what must not be named: wrong once in a million seeds.
STRICT = 1e-6


def setting(chance: random.Random) -> Setting:
    """Requests of every kind, each drawn apart from the others."""
    prompt = chance.choice([90, 700, 3000, 9000])
    return Setting(
        model="m",
        endpoint=chance.choice(["chat_completions", "completions"]),
        stream=chance.random() < 0.5,
        tools=chance.random() < 0.3,
        logprobs=chance.random() < 0.5,
        n=chance.choice([1, 1, 2]),
        temperature=chance.choice([None, 0.0, 0.7, 1.0]),
        prompt_tokens=prompt,
        output_tokens=chance.choice([10, 100, 500]),
        cached_tokens=chance.choice([None, 0, prompt // 4, prompt - 1]),
        in_flight=chance.choice([0, 5, 50]),
    )


def cases(
    seed: object,
    fault: Callable[[Setting], bool],
    number: int = 600,
    noise: float = 0.05,
    size: float = 0.6,
    *,
    controlled: bool = True,
):
    chance = random.Random(str(seed))
    found = []
    for name in range(number):
        one = setting(chance)
        bad = chance.random() < noise or (fault(one) and chance.random() < size)
        found.append(Case(f"c{name}", bad, chance.random() < noise if controlled else None, one))
    return found


FAULTS = {
    ("tools", "yes"): lambda one: one.tools,
    ("prompt_tokens", "4097-16384"): lambda one: one.prompt_tokens > 4096,
    ("cached_tokens", "most"): lambda one: one.cached_tokens is not None and one.cached_tokens > 80 and 2 * one.cached_tokens >= one.prompt_tokens,
    ("in_flight", ">31"): lambda one: one.in_flight > 31,
    ("temperature", "1"): lambda one: one.temperature == 1,
    ("several_choices", "yes"): lambda one: one.n > 1,
}  # fmt: skip


@pytest.mark.parametrize("where", FAULTS, ids="=".join)
@pytest.mark.parametrize("controlled", [True, False])
def test_a_fault_is_named_as_the_slice_that_has_it_and_as_no_other(seeds, where, controlled):
    for seed in seeds:
        found = slices(cases(seed, FAULTS[where], controlled=controlled), STRICT)
        assert [(one.dimension, one.value) for one in found if one.named] == [where]
        first = found[0]
        assert first.named
        assert first.candidate_bad > 0.4 * first.conversations
        if controlled:
            assert first.log_e == min(first.log_e_worse_than_control, first.log_e_more_than_rest)
            assert first.control_bad < 0.15 * first.conversations
        else:
            assert (first.log_e_worse_than_control, first.control_bad) == (None, None)
        assert [one.log_e for one in found[1:]] == sorted((one.log_e for one in found[1:]), reverse=True)


def test_arms_that_are_alike_name_nothing(seeds):
    """Whole reports in which something is named come with probability alpha at most."""
    wrong, runs = 0, 60
    for seed in seeds:
        for run in range(runs):
            wrong += any(one.named for one in slices(cases(f"{seed} {run}", lambda _: False, 150, noise=0.2), 0.1))
    # More than this many of so many at one in ten: less than once in 100,000 times.
    number = runs * len(seeds)
    assert wrong <= next(
        k
        for k in range(number)
        if sum(comb(number, j) * 0.1**j * 0.9 ** (number - j) for j in range(k + 1, number + 1)) < 1e-5
    )


def test_a_fault_everywhere_is_no_slices_own(seeds):
    for seed in seeds:
        assert not any(one.named for one in slices(cases(seed, lambda _: True), STRICT))


def test_noise_that_the_control_has_too_is_nobodys_fault(seeds):
    """Where long prompts are noisy on any stack, they are not the candidate's."""
    for seed in seeds:
        chance = random.Random(seed)
        made = []
        for name in range(600):
            one = setting(chance)
            noise = 0.5 if one.prompt_tokens > 4096 else 0.02
            made.append(Case(f"c{name}", chance.random() < noise, chance.random() < noise, one))
        assert not any(one.named for one in slices(made, STRICT))


def test_a_conversation_counts_once_a_slice_and_is_in_its_rest_only_if_it_is_never_in_it():
    tools, none = Setting(tools=True), Setting()
    made = [
        Case("a", True, False, tools),
        Case("a", False, False, tools),
        Case("a", False, False, none),
        Case("b", False, True, none),
        Case("b", True, False, none),
    ]
    found = {(one.dimension, one.value): one for one in slices(made, ALPHA)}
    assert found.keys() == {("tools", "yes")}  # of "no" nobody is the rest
    assert (found["tools", "yes"].conversations, found["tools", "yes"].candidate_bad) == (1, 1)


def test_models_are_few_whatever_clients_send():
    made = [Case(f"c{name}", False, False, Setting(model=f"m{name % 50}")) for name in range(500)]
    values = {one.value for one in slices(made, ALPHA) if one.dimension == "model"}
    assert len(values) == MOST_MODELS + 1
    assert OTHER in values


@pytest.mark.parametrize(
    ("dimension", "one", "value"),
    [
        ("prompt_tokens", Setting(prompt_tokens=256), "0-256"),
        ("prompt_tokens", Setting(prompt_tokens=257), "257-1024"),
        ("prompt_tokens", Setting(prompt_tokens=4096), "1025-4096"),
        ("prompt_tokens", Setting(prompt_tokens=16385), ">16384"),
        ("prompt_tokens", Setting(), None),
        ("output_tokens", Setting(output_tokens=16), "16-63"),
        ("cached_tokens", Setting(), None),
        ("cached_tokens", Setting(cached_tokens=0), "none"),
        ("cached_tokens", Setting(cached_tokens=4), "some"),
        ("cached_tokens", Setting(cached_tokens=4, prompt_tokens=8), "most"),
        ("in_flight", Setting(in_flight=1), "0-1"),
        ("temperature", Setting(), None),
        ("temperature", Setting(temperature=0.0), "0"),
        ("temperature", Setting(temperature=0.3), "0-1"),
        ("temperature", Setting(temperature=1.0), "1"),
        ("temperature", Setting(temperature=1.1), ">1"),
        ("several_choices", Setting(n=2), "yes"),
        ("stream", Setting(), "no"),
    ],
)
def test_how_a_case_is_cut(dimension, one, value):
    assert DIMENSIONS[dimension](one) == value


def test_what_is_more_than_the_rest_is_an_e_value():
    """Its mean is 1 at most where both samples come from one coin: summed up over every outcome."""
    for share in (0.1, 0.5, 0.9):
        for inside, rest in ((3, 3), (2, 5), (5, 2)):
            mean = 0.0
            for outcome in range(2 ** (inside + rest)):
                bits = [outcome >> at & 1 for at in range(inside + rest)]
                chance = share ** sum(bits) * (1 - share) ** (len(bits) - sum(bits))
                mean += chance * exp(more_than_rest(bits[:inside], bits[inside:], widest=1))
            assert mean == pytest.approx(1.0)


def test_nothing_has_no_slices():
    assert slices([], ALPHA) == []
    assert slices([Case("a", True, False, Setting())], ALPHA) == []
