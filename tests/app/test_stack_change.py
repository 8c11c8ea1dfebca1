"""An engine that is started again as another one, under load: what was compared before and after is never put together."""

from __future__ import annotations

import urllib.parse
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from proxy.demo.proxy_process import ProxyProcess
from proxy.ledger.store import Store
from tests.app.under_load import load
from tests.running import parhelion, post, toy, until

BODY = {
    "model": "toy",
    "messages": [{"role": "user", "content": "hello there"}],
    "temperature": 0,
    "max_tokens": 6,
    "logprobs": True,
    "top_logprobs": 5,
    "return_token_ids": True,
}
ENOUGH = 5


def forced(proxy: ProxyProcess) -> float:
    return proxy.metric("parhelion_compared_total", shadow="cand", mode="forced")


def test_a_shadow_started_again_with_another_dtype_splits_the_comparisons(tmp_path: Path) -> None:
    with toy() as primary, ExitStack() as first:
        shadow = first.enter_context(toy(noise=0.01))
        arms = [{"name": "cand", "url": shadow}]
        with parhelion(tmp_path, primary, arms, recheck=2) as proxy, ExitStack() as second:
            proxy.wait_known(["primary", "cand"], 60)
            with load(f"{proxy.clients}/v1/chat/completions", BODY, clients=2, pause=0.05):
                until(lambda: forced(proxy) >= ENOUGH, 60)
                assert proxy.metric("parhelion_footprint_changes_total") == 0
                first.close()
                port = urllib.parse.urlsplit(shadow).port
                second.enter_context(toy(noise=1.0, dtype="bfloat16", version="1", port=port))
                until(lambda: proxy.metric("parhelion_footprint_changes_total", arm="cand") == 1, 60, "a change")
                before = forced(proxy)
                until(lambda: forced(proxy) >= before + ENOUGH, 60)
            until(lambda: proxy.open_work() == 0, 60)
            assert proxy.metric("parhelion_footprint_changes_total") == 1
            assert proxy.metric("parhelion_findings_total", shadow="cand", finding="footprint_changed") == 1
            assert proxy.metric("parhelion_engine_info", arm="cand", dtype="bf16", version="1") == 1
            assert proxy.metric("parhelion_engine_info", arm="cand") == 1
            assert proxy.metric("parhelion_engine_level", arm="cand", level="full") == 1
            report = proxy.report()
    (change,) = report["changes"]
    assert change["arm"] == "cand"
    assert change["fields"] == {
        "version": {"before": "0", "after": "1"},
        "dtype": {"before": "fp32", "after": "bf16"},
    }
    (cand,) = report["shadows"]
    (finding,) = [one for one in cand["findings"] if one["finding"] == "footprint_changed"]
    assert (finding["count"], finding["layer"]) == (1, "stack")
    assert finding["evidence"] == {"arm": "cand", "version": "0 → 1", "dtype": "fp32 → bf16"}
    assert cand["capability"]["level"] == "full"
    (earlier,) = cand["earlier"]
    assert {one["field"] for one in earlier["changed_since"]["cand"]} == {"version", "dtype"}
    assert earlier["footprint_ids"]["shadow"] == change["footprint_ids"]["before"]
    assert cand["footprint_ids"]["shadow"] == change["footprint_ids"]["after"]
    check_apart(tmp_path / "records.db", cand, earlier)
    verdict = cand["verdict"]
    assert verdict["footprint_ids"]["shadow"] == change["footprint_ids"]["after"]
    (before_it,) = verdict["earlier"]
    assert before_it["footprint_ids"]["shadow"] == change["footprint_ids"]["before"]
    # One prompt on one day: one conversation of each pair.
    assert [one["conversations"] + one["tally"]["missing"] for one in (verdict, before_it)] == [1, 1]


def test_a_primary_that_nobody_saw_away_is_found_out_about_and_what_may_be_of_either_is_left_out(
    tmp_path: Path,
) -> None:
    with toy() as primary, toy() as shadow:
        arms = [{"name": "cand", "url": shadow, "modes": ["free"]}]
        with parhelion(tmp_path, primary, arms, recheck=4) as proxy:
            proxy.wait_known(["primary", "cand"], 60)

            def compared() -> float:
                return proxy.metric("parhelion_compared_total", shadow="cand")

            with load(f"{proxy.clients}/v1/chat/completions", BODY, clients=1, pause=0.05):
                until(lambda: compared() >= ENOUGH, 60)
                assert post(f"{primary}/become/bfloat16", b"")[0] == 200
                until(lambda: proxy.metric("parhelion_footprint_changes_total", arm="primary") == 1, 60, "a change")
                before = compared()
                until(lambda: compared() >= before + ENOUGH, 60)
            until(lambda: proxy.open_work() == 0, 60)
            report, total = proxy.report(), compared()
    (change,) = report["changes"]
    assert (change["arm"], list(change["fields"])) == ("primary", ["dtype"])
    assert report["primary"]["footprint_id"] == change["footprint_ids"]["after"]
    assert report["primary"]["footprint_origins"]["dtype"] == "probed"
    (cand,) = report["shadows"]
    assert [one["finding"] for one in cand["findings"]] == ["footprint_changed"]
    parts = [cand["modes"]["free"]["requests"], *(one["modes"]["free"]["requests"] for one in cand["earlier"])]
    assert cand["left_out_between_stacks"] > 0
    assert sum(parts) + cand["left_out_between_stacks"] == total


def check_apart(path: Path, cand: dict, earlier: dict) -> None:
    """Every number of each segment is that of its own records, and no record is in both."""
    with Store.open_read_only(f"sqlite:///{path}") as store:
        records = [one for one in store.records() if one.comparison.incomparable is None]
        (event,) = [one for one in store.events() if one.kind == "footprint_changed"]
    for block, ids in ((cand, cand["footprint_ids"]), (earlier, earlier["footprint_ids"])):
        own = [
            one
            for one in records
            if (one.primary_footprint, one.shadow_footprint) == (ids["primary"], ids["shadow"])
            and not event.detail["confirmed"] <= one.time < event.time
        ]
        for mode in ("free", "forced"):
            made = [one.comparison for one in own if one.comparison.mode.value == mode]
            assert block["modes"][mode]["requests"] == len(made) >= 1
        errors = [
            abs(p - q)
            for one in own
            if one.comparison.mode.value == "forced"
            for choice in one.comparison.choices
            for p, q in zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True)
            if p is not None and q is not None
        ]
        assert block["modes"]["forced"]["logprob_error_nats"]["median"] == pytest.approx(median(errors))
    small, large = (one["modes"]["forced"]["logprob_error_nats"] for one in (earlier, cand))
    assert small["max"] < 0.03 < large["median"]  # the noise of the first is 0.01 nat on each logit, of the second 1
    assert len({(one.primary_footprint, one.shadow_footprint) for one in records}) == 2
    assert all((one.time >= event.time) == (one.shadow_footprint == cand["footprint_ids"]["shadow"]) for one in records)
