"""A hosted API is asked nothing about its stack."""

import asyncio

import pytest

from engines.facts.gather import gather
from engines.registry import dialect


@pytest.mark.parametrize("name", ["together", "fireworks", "openrouter"])
def test_nothing_is_asked(scripted, name):
    fetch = scripted({})
    facts = asyncio.run(gather(fetch, name, {"id": "v/m"}, dialect(name).defaults))
    assert facts.probed == {"engine": name, "model": "v/m"}
    assert fetch.calls == []
