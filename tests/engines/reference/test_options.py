"""What the reference engine may be started with; all but the template file is checked before anything is loaded."""

from __future__ import annotations

import pytest

from engines.reference.options import ReferenceOptions


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"temperature": -0.1}, "--temperature -0.1: between 0 (greedy) and 100"),
        ({"temperature": 101.0}, "--temperature"),
        ({"temperature": float("nan")}, "--temperature"),
        ({"threads": 0}, "--threads 0: at least 1"),
        ({"dtype": "int4"}, "--dtype int4: choose one of"),
        ({"port": 70000}, "--port 70000"),
    ],
)
def test_what_cannot_work_is_refused_by_its_option(wrong, named):
    with pytest.raises(ValueError, match=named.replace("(", r"\(").replace(")", r"\)")):
        ReferenceOptions(model="x", **wrong)


def test_left_out_they_are_the_models_own():
    assert (ReferenceOptions(model="x").chat_template, ReferenceOptions(model="x").temperature) == (None, None)
    assert ReferenceOptions(model="x", temperature=0.0).temperature == 0.0
