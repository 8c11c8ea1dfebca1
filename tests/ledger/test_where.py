"""Where along a reply and among the traffic: planted faults through the whole report, from compared replies to what is shown."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from proxy.compare.compare_forced import compare_forced
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Comparison, FlipClass, Mode, Source, TauOrigin
from proxy.compare.near_tie import Tau
from proxy.compare.token_stream import Alternative, Reply, Token, TokenStream
from proxy.config import Config, Shadow, Verdict
from proxy.ledger.record import RequestFacts
from proxy.ledger.report import build_report
from tests.seeds import FIXED, chosen

CONFIG = Config(
    shadows=(Shadow("candidate", "http://c"), Shadow("control", "http://d", role="control")),
    verdict=Verdict(alpha=1e-5),  # so that what must not be said is said by no seed
)
TAU = Tau(1e-3, TauOrigin.ASSUMED)
RIGHT, WRONG = 7, 9
Fault = Callable[[int], float]


def row(shift: float = 0.0, *, chosen: int = RIGHT, flipped: bool = False) -> Token:
    """A token at the head of a list of two, its logprob off by ``shift``; ``flipped``: the other one is at the head."""
    values = {RIGHT: -0.2 + shift, WRONG: -2.0} if not flipped else {RIGHT: -2.0, WRONG: -0.2}
    top = tuple(Alternative(values[one], one, f"<{one}>") for one in sorted(values, key=lambda one: -values[one]))
    return Token(text=f"<{chosen}>", id=chosen, logprob=values[chosen], top=top)


ROW, OTHER = row(), row(chosen=WRONG, flipped=True)


def stream(tokens: tuple[Token, ...]) -> Reply:
    text = "".join(token.text for token in tokens)
    return Reply(choices=(TokenStream(tokens=tokens, finish_reason="length", count=len(tokens), text=text),))


def free(chance: random.Random, length: int, hazard: Fault) -> Comparison:
    """Two replies of which each token differs with a probability."""
    first = next((at for at in range(length) if chance.random() < hazard(at)), None)
    shadow = (ROW,) * length if first is None else (ROW,) * first + (OTHER,) * (length - first)
    return compare_free(stream((ROW,) * length), stream(shadow), source=Source.REPLY, tau=TAU, greedy=True)


def forced(chance: random.Random, length: int, size: Fault, flips: Fault = lambda _: 0.0, **fields) -> Comparison:
    """Scores whose logprobs are off by noise of a size, and flip with a probability."""
    rows = [
        (at, row(flipped=True) if chance.random() < flips(at) else row(chance.gauss(0.0, size(at))))
        for at in range(length)
    ]
    return compare_forced(stream((ROW,) * length), [rows], source=Source.REPLY, tau=TAU, greedy=True, **fields)


class Traffic:
    """Records of both arms, exchange by exchange."""

    def __init__(self, store, make):
        self._store, self._make = store, make
        self._batch = []
        self._number = 0

    def add(self, candidate: Comparison, control: Comparison | None, conversation: str | None = None, **fields) -> None:
        exchange = fields.pop("exchange", f"x{self._number}")
        for shadow, comparison in (("candidate", candidate), ("control", control)):
            if comparison is not None:
                record = self._make.record(
                    self._number,
                    comparison,
                    shadow=shadow,
                    role=shadow,
                    exchange=exchange,
                    conversation=conversation or f"c{exchange}",
                    content=None,
                    **fields,
                )
                self._batch.append(self._make.compared(record))
                self._number += 1

    def report(self):
        self._store.settle(self._batch)
        self._batch = []
        return {one["name"]: one for one in build_report(CONFIG, self._store, command="test", now=0.0)["shadows"]}


@pytest.fixture(params=FIXED[:1] if chosen() == FIXED else chosen())
def seed(request) -> int:
    """Whole reports take a while: one seed, or all of those asked for."""
    return request.param


@pytest.fixture
def traffic(store, make) -> Traffic:
    return Traffic(store, make)


def since(begin: int, value: float, before: float = 0.0) -> Fault:
    return lambda at: value if at >= begin else before


@pytest.mark.parametrize("begin", [64, 256])
def test_a_fault_from_a_position_on_is_located_there_in_both_modes(traffic, seed, begin):
    chance = random.Random(seed * 1000 + begin)
    for number in range(30):
        length = chance.randrange(begin + 20, begin + 60)
        exchange = f"x{number}"
        traffic.add(
            free(chance, length, since(begin, 0.5, 0.0002)), free(chance, length, since(0, 0.0002)), exchange=exchange
        )
        traffic.add(
            forced(chance, length, since(begin, 0.1, 0.01)), forced(chance, length, since(0, 0.01)), exchange=exchange
        )
    shown = traffic.report()
    modes = shown["candidate"]["modes"]
    for mode, by in (("free", "first_difference"), ("forced", "logprob_error")):
        found = modes[mode]["onset"]
        assert (found["position"], found["by"], found["floor"]) == (begin, by, "control")
        assert found["log_e"] > 10
        low, high = found["between"]
        assert begin - 2 <= low <= begin <= high <= begin + 3
        assert found["control_only"] <= 0.1 * found["candidate_only"]
        assert "onset" not in shown["control"]["modes"][mode]
    blocks = {block["from"]: block for block in modes["free"]["by_position"]}
    assert blocks[begin]["hazard_per_1000_tokens"]["interval"][0] > 50
    assert blocks[begin // 2]["hazard_per_1000_tokens"]["raw"] < 10
    errors = {block["from"]: block["error_nats"] for block in modes["forced"]["by_position"]}
    assert (
        errors[begin // 2]["interval"][0] < 0 < errors[begin // 2]["interval"][1]
        or abs(errors[begin // 2]["excess"]) < 0.001
    )
    # The mean of the distance of a normal number is 0.798 of its size.
    assert errors[begin]["excess"] == pytest.approx(0.09 * 0.798, rel=0.2)


def test_genuine_flips_from_a_position_on_are_located_where_values_may_not_be_compared(traffic, seed):
    chance = random.Random(seed)
    for _ in range(40):
        made = forced(chance, 150, since(0, 0.01), since(64, 0.9), values_incomparable="logprob_mode")
        traffic.add(made, forced(chance, 150, since(0, 0.01), values_incomparable="logprob_mode"))
    onset = traffic.report()["candidate"]["modes"]["forced"]["onset"]
    assert (onset["position"], onset["by"]) == (64, "genuine_flip")
    assert (onset["candidate_only"], onset["control_only"]) == (40, 0)


def test_a_constant_hazard_is_recovered_and_has_no_onset(traffic, seed):
    chance = random.Random(seed)
    hazard = 0.01
    for _ in range(300):
        length = 1 + int(chance.expovariate(1 / 63.5))
        traffic.add(free(chance, length, since(0, hazard)), free(chance, length, since(0, hazard)))
    shown = traffic.report()["candidate"]["modes"]["free"]
    exposed = shown["exposed_tokens"]
    assert shown["hazard_per_1000_tokens"]["raw"] == pytest.approx(
        1000 * hazard, abs=5 * 1000 * (hazard / exposed) ** 0.5
    )
    survival = shown["survival"]
    at = survival["positions"].index(32)
    assert survival["candidate"][at] == pytest.approx(0.99**32, abs=0.16)
    assert (
        survival["intervals"]["candidate"][at][0]
        < survival["candidate"][at]
        < survival["intervals"]["candidate"][at][1]
    )
    assert survival["streams"] == {"candidate": 300, "control": 300}
    assert survival["without_position"] == {"candidate": 0, "control": 0}


def test_noise_that_grows_with_the_cache_raises_the_hazard_with_the_position(traffic, seed):
    """As quantised keys and values do: the size of the errors grows with what has been written to the cache."""
    chance = random.Random(seed)

    def growing(scale: float) -> Fault:
        return lambda at: scale * (1 + at / 32)

    for number in range(160):
        length = chance.randrange(130, 200)
        exchange = f"x{number}"
        traffic.add(free(chance, length, growing(0.005)), free(chance, length, since(0, 0.005)), exchange=exchange)
        if number < 40:
            made = forced(chance, length, growing(0.01))
            traffic.add(made, forced(chance, length, since(0, 0.01)), exchange=exchange)
    modes = traffic.report()["candidate"]["modes"]
    rates = [block["hazard_per_1000_tokens"]["raw"] for block in modes["free"]["by_position"][1:5]]
    assert rates[-1] > 1.3 * rates[0]
    errors = [block["error_nats"]["raw"] for block in modes["forced"]["by_position"][1:]]
    assert errors == sorted(errors)
    assert modes["forced"]["onset"]["position"] <= 100


def test_averaging_the_position_of_first_differences_overstates(seed):
    """Of replies that end with probability 1/L at each token the average is 1 + (1 - h) / (h L) times too large: 2.55 times at h 0.01 and L 64, 1.77 at 128."""
    chance = random.Random(seed)
    for mean, overstated in ((64, 2.547), (128, 1.773)):
        assert 1 + 0.99 / (0.01 * mean) == pytest.approx(overstated, abs=0.001)
        parted, exposed = [], 0
        for _ in range(700):
            length = 1
            while chance.random() >= 1 / mean:
                length += 1
            (choice,) = free(chance, length, since(0, 0.01)).choices
            exposed += choice.exposed
            if choice.first is not None:
                parted.append(choice.first.index + 1)
        assert len(parted) / exposed == pytest.approx(0.01, rel=5 / len(parted) ** 0.5)
        naive = len(parted) / sum(parted)
        assert naive / 0.01 == pytest.approx(overstated, rel=5 / len(parted) ** 0.5)


CUTS = {
    ("tools", "yes"): lambda request: request.has_tools,
    ("prompt_tokens", "4097-16384"): lambda request: request.prompt_tokens > 4096,
    ("cached_tokens", "most"): None,
}


@pytest.mark.parametrize("cut", CUTS, ids="=".join)
def test_a_fault_in_one_part_of_the_traffic_is_named_as_that_part_and_no_other(traffic, seed, cut):
    chance = random.Random(seed)
    for _ in range(240):
        prompt = chance.choice([200, 2000, 8000])
        request = RequestFacts(
            stream=chance.random() < 0.5, has_tools=chance.random() < 0.4, temperature=0.0, prompt_tokens=prompt
        )
        cached = chance.choice([0, prompt - 8])
        ill = cached > 0 if CUTS[cut] is None else CUTS[cut](request)
        traffic.add(
            free(chance, 24, since(8, 0.1 if ill else 0.002)), free(chance, 24, since(8, 0.002)), request=request, cached_tokens=cached
        )  # fmt: skip
    found = traffic.report()["candidate"]["slices"]
    assert [(one["dimension"], one["value"]) for one in found if one["named"]] == [cut]
    assert found[0]["candidate_bad"] > 0.6 * found[0]["conversations"] > 10 * found[0]["control_bad"] * 0.6
    assert {one["dimension"] for one in found} == {"tools", "prompt_tokens", "cached_tokens", "stream"}


def test_another_prompt_wherever_tools_are_offered_is_named_too(traffic, seed):
    """What could not be compared because the candidate read another prompt is bad, as for the verdict; what nobody can tell is in no slice."""
    chance = random.Random(seed)
    other = Comparison(Mode.FREE, incomparable="prompt_tokens", findings=("prompt_template",))
    untold = Comparison(Mode.FREE, incomparable="no_tokens")
    for number in range(200):
        request = RequestFacts(has_tools=number % 4 == 0, temperature=0.0)
        good = free(chance, 20, since(0, 0.0))
        traffic.add(other if request.has_tools else untold if number % 4 == 1 else good, good, request=request)
    (first, *_) = traffic.report()["candidate"]["slices"]
    assert (first["dimension"], first["value"], first["named"]) == ("tools", "yes", True)
    assert (first["conversations"], first["candidate_bad"], first["control_bad"]) == (50, 50, 0)


def test_arms_that_are_alike_have_no_slice_and_no_onset(traffic, seed):
    chance = random.Random(seed)
    for _ in range(150):
        request = RequestFacts(stream=chance.random() < 0.5, has_tools=chance.random() < 0.5, temperature=0.0)
        traffic.add(free(chance, 40, since(0, 0.01)), free(chance, 40, since(0, 0.01)), request=request)
    shown = traffic.report()
    assert not any(one["named"] for one in shown["candidate"]["slices"])
    assert "onset" not in shown["candidate"]["modes"]["free"]
    assert "slices" not in shown["control"]


def test_without_a_control_what_stands_out_is_said_without_a_floor(store, make, seed):
    traffic = Traffic(store, make)
    chance = random.Random(seed)
    for _ in range(150):
        request = RequestFacts(has_tools=chance.random() < 0.4, temperature=0.0)
        traffic.add(free(chance, 90, since(64, 0.2 if request.has_tools else 0.001)), None, request=request)
    shown = traffic.report()["candidate"]
    onset = shown["modes"]["free"]["onset"]
    assert (onset["position"], onset["floor"]) == (64, "assumed")
    assert onset["events_before"] == 0
    (first, *_) = shown["slices"]
    assert (first["dimension"], first["value"], first["named"]) == ("tools", "yes", True)
    assert not {"control_bad", "log_e_worse_than_control"} & first.keys()
    assert "control" not in shown["modes"]["free"]["survival"]


def test_a_conversation_is_one_however_often_it_asks(traffic, seed):
    """One talk that always differs is no evidence, and no interval."""
    chance = random.Random(seed)
    for number in range(40):
        traffic.add(
            free(chance, 90, since(64, 1.0)), free(chance, 90, since(0, 0.0)), conversation="one", exchange=f"x{number}"
        )
    shown = traffic.report()["candidate"]
    assert "onset" not in shown["modes"]["free"]
    assert shown["slices"] == []
    assert all(edges == [0.0, 1.0] for edges in shown["modes"]["free"]["survival"]["intervals"]["candidate"])


def test_where_conversations_are_not_known_there_are_numbers_and_no_evidence(store, make):
    batch = [
        make.record(number, make.free(FlipClass.GENUINE if number % 2 else None), exchange=f"x{number}")
        for number in range(40)
    ]
    store.settle([make.compared(one) for one in batch])
    (shown, _) = build_report(CONFIG, store, command="test", now=0.0)["shadows"]
    free_mode = shown["modes"]["free"]
    assert free_mode["survival"]["candidate"][-1] == 0.5
    assert "intervals" not in free_mode["survival"]
    assert free_mode["by_position"][1]["hazard_per_1000_tokens"].keys() == {"raw"}
    assert "onset" not in free_mode
    assert shown["slices"] == []
