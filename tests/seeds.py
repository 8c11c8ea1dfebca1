"""Seeds of tests that draw: the same few in every run, or fresh ones on request, named so that a failure can be repeated.

``PARHELION_FRESH_SEEDS=10`` draws ten; ``PARHELION_SEEDS=17,4711`` sets them. What a test claims of chance must hold but once in a hundred thousand seeds, so that fresh ones
find faults and not bad luck. The environment carries them, so that all processes of one run use the same.
"""

from __future__ import annotations

import os
import secrets

import pytest

FIXED = (1, 2)
_FRESH, _GIVEN = "PARHELION_FRESH_SEEDS", "PARHELION_SEEDS"


def chosen() -> tuple[int, ...]:
    """The seeds of this run."""
    given = os.environ.get(_GIVEN, "")
    return tuple(int(one) for one in given.split(",")) if given else FIXED


def pytest_configure() -> None:
    """Draw fresh seeds once, before other processes inherit the environment."""
    if (fresh := os.environ.get(_FRESH)) and not os.environ.get(_GIVEN):
        os.environ[_GIVEN] = ",".join(str(secrets.randbelow(2**31)) for _ in range(int(fresh)))


def pytest_report_header() -> str:
    """Say how to repeat this run."""
    return f"seeds: {_GIVEN}={','.join(map(str, chosen()))}"


@pytest.fixture(scope="session")
def seeds() -> tuple[int, ...]:
    """Seeds to go through: fixed ones, or those that the environment asks for."""
    return chosen()
