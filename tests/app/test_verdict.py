"""The verdict of a whole proxy over engines whose truth is known: right on each side, counted once over deaths, the same after a restart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from proxy.compare.verdict import State, Tally, Terms, judge
from proxy.demo.proxy_process import ProxyProcess
from tests.running import ROOT, parhelion, post, toy, until
from tests.whole import CHAT, kill, settle

TERMS = {"alpha": 0.01, "margin": 0.3, "allowance": 0.3}
ASKED = CHAT | {"logprobs": True, "top_logprobs": 8, "return_token_ids": True}
#: Conversations after which an arm that is always right has a PASS, and one that is always wrong a FAIL.
RIGHT, WRONG = (
    next(n for n in range(1, 200) if judge(Tally(**{name: n}), Terms(**TERMS)).state is not State.WATCH)
    for name in ("neither", "worse")
)
ENOUGH = max(RIGHT, WRONG)


def talk(proxy: ProxyProcess, first: int, count: int) -> None:
    for number in range(first, first + count):
        asked = ASKED | {"messages": [{"role": "user", "content": f"Question {number}, about halos."}]}
        assert post(f"{proxy.clients}/v1/chat/completions", asked)[0] == 200


def verdicts(proxy: ProxyProcess) -> dict[str, dict[str, Any]]:
    return {one["name"]: one["verdict"] for one in proxy.report()["shadows"] if "verdict" in one}


def exit_code(proxy: ProxyProcess) -> int:
    return subprocess.run(
        [sys.executable, "-P", "-m", "proxy.cli", "report", "-c", str(proxy.config)],
        stdout=subprocess.DEVNULL,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ).returncode


def test_the_verdict_of_three_candidates_over_a_kill_and_a_restart(tmp_path: Path) -> None:
    with toy() as primary, toy() as control, toy() as same, toy(noise=4.0, seed=7) as wrong, toy() as ill:
        arms = [
            {"name": "control", "role": "control", "url": control},
            *({"name": name, "url": url} for name, url in (("same", same), ("wrong", wrong), ("ill", ill))),
        ]
        with parhelion(tmp_path, primary, arms, verdict=TERMS) as proxy:
            proxy.wait_known(["primary", *(str(one["name"]) for one in arms)], 60)
            talk(proxy, 0, 5)
            settle(proxy, 5)
            early = verdicts(proxy)["same"]
            assert early["state"] == "KEEP WATCHING"
            assert abs(early["conversations_needed"] - (RIGHT - 5)) <= 1

            assert post(f"{ill}/ill/error", b"")[0] == 200
            talk(proxy, 5, 3)
            kill(proxy, "judge")
            talk(proxy, 8, ENOUGH - 8)
            talk(proxy, 0, 4)  # the same prompts on the same day
            settle(proxy, ENOUGH + 4)
            found = verdicts(proxy)
            assert found.keys() == {"same", "wrong", "ill"}
            assert found["same"]["tally"] == {"worse": 0, "better": 0, "both": 0, "neither": ENOUGH, "missing": 0}
            assert found["wrong"]["tally"]["worse"] == found["wrong"]["conversations"] == ENOUGH
            assert (found["same"]["state"], found["wrong"]["state"]) == ("PASS", "FAIL")
            assert found["wrong"]["bad_by"] == [{"by": "genuine_flip", "candidate": ENOUGH, "control": 0}]
            assert (found["ill"]["state"], found["ill"]["conversations"]) == ("KEEP WATCHING", 5)
            assert found["ill"]["tally"]["missing"] == ENOUGH - 5
            assert found["ill"]["missing_by"].keys() <= {"shadow_error", "circuit_open", "shadow_unready"}
            assert exit_code(proxy) == 1
        with parhelion(tmp_path, primary, arms, verdict=TERMS) as proxy:
            until(lambda: proxy.metric("parhelion_verdict", shadow="wrong") == -1, what="the verdict to be there again")
            assert proxy.metric("parhelion_verdict", shadow="same") == 1
            assert proxy.metric("parhelion_verdict", shadow="ill") == 0
            assert proxy.metric("parhelion_trials_total", shadow="same", result="neither") == ENOUGH
            assert proxy.metric("parhelion_log_e_value", shadow="wrong", test="fail") > 0
            again = verdicts(proxy)
            assert again == found


def test_a_candidate_that_is_always_down_has_no_verdict_but_what_is_missing(tmp_path: Path) -> None:
    with (
        toy() as primary,
        parhelion(tmp_path, primary, [{"name": "gone", "url": "http://127.0.0.1:1"}], verdict=TERMS) as proxy,
    ):
        proxy.wait_known(["primary"], 30)
        talk(proxy, 0, ENOUGH)
        settle(proxy, ENOUGH)
        found = verdicts(proxy)["gone"]
        assert (found["state"], found["floor"], found["conversations"]) == ("KEEP WATCHING", "assumed", 0)
        assert (found["tally"]["missing"], found["coverage"]) == (ENOUGH, 0.0)
        assert exit_code(proxy) == 3
