"""Row 23: the share of a million keys that is sampled, and that the same key is decided alike by every replica and after every restart."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.config import Sampling
from proxy.traffic.sample import Standing, conversation_key, decide, position
from tests.isolation.stage import Sick, arms, settled
from tests.running import ROOT, parhelion, post

SALT = "a-salt-that-replicas-share"
IDS = 1_000_000
#: Standard deviations: a fair sampler exceeds them once in ten million runs.
DEVIATIONS = 5.33

DIGEST = f"""
import hashlib
from proxy.config import Sampling
from proxy.traffic.sample import Standing, decide, position
sampling = Sampling(rate=0.05)
bits = bytes(decide(sampling, position({SALT!r}, b"id-%d" % n), "/") is Standing.SAMPLED for n in range(50_000))
print(hashlib.sha256(bits).hexdigest())
"""


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.05, 0.5, 1.0])
def test_the_share_of_a_million_keys(rate: float, figure: Callable[[str, str], None]) -> None:
    sampled = sum(where < rate for where in _positions())
    bound = DEVIATIONS * (IDS * rate * (1 - rate)) ** 0.5
    figure("row 23", f"rate {rate}: {sampled} of {IDS} sampled, expected {IDS * rate:.0f} +- {bound:.0f}")
    assert abs(sampled - IDS * rate) <= bound


def _positions(known: list[float] = []) -> list[float]:  # noqa: B006 - computed once for all rates
    if not known:
        known += [position(SALT, b"id-%d" % number) for number in range(IDS)]
    return known


def test_decisions_are_those_of_every_other_process() -> None:
    def elsewhere(seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    sampling = Sampling(rate=0.05)
    bits = bytes(decide(sampling, where, "/") is Standing.SAMPLED for where in _positions()[:50_000])
    assert {elsewhere("0"), elsewhere("1")} == {hashlib.sha256(bits).hexdigest()}


def _chat(number: int) -> dict[str, Any]:
    return {
        "model": "toy",
        "messages": [{"role": "user", "content": f"talk {number}"}],
        "temperature": 0,
        "max_tokens": 2,
    }


@pytest.mark.slow
@pytest.mark.parametrize("by", ["header:x-session", "conversation"])
def test_the_same_key_is_decided_alike_by_every_replica_and_after_a_restart(
    by: str, primary: Sick, tmp_path: Path
) -> None:
    """Requests that must be sampled all are, those that must not never are: on two replicas, and on one of them in its next life."""
    rate, settings = 0.3, {"rate": 0.3, "by": by, "salt": SALT}

    def key(number: int) -> bytes:
        return f"session {number}".encode() if by != "conversation" else conversation_key(_chat(number))

    chosen = {number for number in range(60) if position(SALT, key(number)) < rate}
    assert 5 < len(chosen) < 40
    for replica, asked in (("a", 0), ("b", 0), ("a", 60)):
        folder = tmp_path / replica
        folder.mkdir(exist_ok=True)
        with parhelion(folder, primary.url, arms("http://127.0.0.1:9"), sampling=settings) as proxy:
            seen = settled(proxy, asked)
            known = seen.sum("sampled_total")
            for members, more in ((chosen, len(chosen)), (set(range(60)) - chosen, 0)):
                for number in members:
                    assert (
                        post(
                            f"{proxy.clients}/v1/chat/completions",
                            orjson.dumps(_chat(number)),
                            x_session=f"session {number}",
                        )[0]
                        == 200
                    )
                known += more
                seen = settled(proxy, asked + (len(chosen) if members is chosen else 60))
                assert seen.sum("sampled_total") == known, replica
                assert seen.sum("not_sampled_total") == seen.sum("received_total") - known
