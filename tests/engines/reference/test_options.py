"""What the reference engine may be started with; all but the template file is checked before anything is loaded."""

from __future__ import annotations

import pytest

from engines.reference.options import ReferenceOptions
from engines.reference.planted import HEALTHY, Plant
from engines.reference.server import _warning


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"temperature": -0.1}, "--temperature -0.1: between 0 (greedy) and 100"),
        ({"temperature": 101.0}, "--temperature"),
        ({"temperature": float("nan")}, "--temperature"),
        ({"threads": 0}, "--threads 0: at least 1"),
        ({"dtype": "int4"}, "--dtype int4: choose one of"),
        ({"port": 70000}, "--port 70000"),
        ({"planted": "logit-noise=-1"}, "--planted logit-noise=-1: Expected"),
        ({"planted": "noise=1"}, "known are logit-noise, noise-seed, round-logits"),
    ],
)
def test_what_cannot_work_is_refused_by_its_option(wrong, named):
    with pytest.raises(ValueError, match=named.replace("(", r"\(").replace(")", r"\)")):
        ReferenceOptions(model="x", **wrong)


def test_an_engine_with_faults_says_so_when_it_starts():
    assert _warning(ReferenceOptions(model="x", planted="ties=lowest")) is None
    assert "(ties=highest)" in _warning(ReferenceOptions(model="x", planted="ties=highest"))
    assert "/planted/" in _warning(ReferenceOptions(model="x", planted_routes=True))


def test_left_out_they_are_the_models_own():
    assert (ReferenceOptions(model="x").chat_template, ReferenceOptions(model="x").temperature) == (None, None)
    assert ReferenceOptions(model="x", temperature=0.0).temperature == 0.0
    assert ReferenceOptions(model="x").plant == HEALTHY


def test_faults_that_are_named_are_planted():
    assert ReferenceOptions(model="x", planted="ties=highest,from-position=4").plant == Plant(
        ties="highest", from_position=4
    )
