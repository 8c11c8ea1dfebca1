"""Arms across a change of configuration: what is known of an engine stays for as long as it is the same one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from msgspec.structs import replace

from engines.registry import dialect
from proxy.config import Config, Limits, Primary, Shadow, Timeouts
from proxy.judge.arm import Arm
from proxy.judge.spec import Spec, of_primary, of_shadow

SHADOW = Shadow("a", "http://a:1", models={"m": "n"}, api_key="k")
CONFIG = Config(primary=Primary(url="http://p:1"), shadows=(SHADOW,))


def spec(shadow: Shadow = SHADOW, **changes: Any) -> Spec:
    return of_shadow(replace(CONFIG, **changes), shadow)


def known(before: Spec) -> Arm:
    arm = before.arm(None)
    arm.dialect, arm.footprint = dialect("vllm"), "f"
    arm.guard.spent(10, time.monotonic())
    return arm


def test_an_engine_that_has_not_changed_is_the_same_arm() -> None:
    async def main() -> None:
        before = spec()
        arm = known(before)
        assert spec(replace(SHADOW, role="control", modes=("free",), top_logprobs=5)).arm((before, arm)) is arm

    asyncio.run(main())


def test_other_limits_make_other_connections_and_keep_what_is_known() -> None:
    async def main() -> None:
        before = spec()
        arm = known(before)
        after = spec(timeouts=Timeouts(connect=1.0), limits=Limits(in_flight=3, requests_per_second=2.0))
        new = after.arm((before, arm))
        assert new is not arm
        assert new.client is not arm.client
        assert (new.dialect, new.footprint, new.guard) == (arm.dialect, "f", arm.guard)
        assert new.guard.rate == 2.0
        later = replace(SHADOW, deadline=5.0)
        assert spec(later).arm((before, arm)).deadline == 5.0

    asyncio.run(main())


def test_another_engine_is_found_out_about_anew_and_has_the_same_budget() -> None:
    async def main() -> None:
        before = spec()
        arm = known(before)
        for shadow in (replace(SHADOW, url="http://b:1"), replace(SHADOW, api_key="other"), replace(SHADOW, models={})):
            new = spec(shadow, limits=Limits(tokens_per_day=11)).arm((before, arm))
            assert new.dialect is None
            assert new.footprint == ""
            assert new.guard.admit(time.monotonic(), 2) == "token_budget"

    asyncio.run(main())


def test_the_primary_is_asked_a_little_only() -> None:
    assert (of_primary(CONFIG).at_once, of_primary(CONFIG).name) == (2, "primary")
