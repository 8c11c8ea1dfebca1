"""A migration that nobody should make, on real engines: llama.cpp again with another chat template. It is foretold when that FAILs, and it does by then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engines.launch import start_llama
from proxy.demo.proxy_process import ProxyProcess
from tests.e2e.moment import command, consistent, counted_alike, look
from tests.engine_fixtures import MODEL
from tests.figures import Figure
from tests.known_truth.real.arms import QUESTIONS, foretold, greedy
from tests.ledger import agreement
from tests.running import parhelion, post, until

pytestmark = [pytest.mark.slow, pytest.mark.llama, pytest.mark.timeout(600)]
TEMPLATE = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}[assistant] "
FEW = 4


def talk(proxy: ProxyProcess, first: int, count: int) -> None:
    """Ask as many questions, one conversation each, and wait until they have been judged."""
    for question in QUESTIONS[first : first + count]:
        asked = greedy(question, 8, logprobs=True, top_logprobs=20)
        assert post(f"{proxy.clients}/v1/chat/completions", asked)[0] == 200
    until(lambda: proxy.open_work() == 0, 240, "the settling")


def test_another_chat_template_fails_when_it_is_foretold(smollm2_q4: Path, tmp_path: Path, figure: Figure) -> None:
    edited = tmp_path / "other-template.gguf"
    words = ["-m", "gguf.scripts.gguf_new_metadata", "--force", "--chat-template", TEMPLATE, smollm2_q4, edited]
    subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=120)
    with (
        start_llama(smollm2_q4, alias=MODEL, extra=("--no-prompt-cache",), log=tmp_path / "primary.log") as primary,
        start_llama(edited, alias=MODEL, extra=("--no-prompt-cache",), log=tmp_path / "candidate.log") as candidate,
    ):
        shadows = [
            {"name": "template", "url": candidate.url, "modes": ["free"]},
            {"name": "control", "role": "control", "url": primary.url, "modes": ["free"]},
        ]
        with parhelion(tmp_path, primary.url, shadows, limits={"in_flight": 1}) as proxy:
            proxy.wait_known(["primary", "template", "control"], 120)
            talk(proxy, 0, FEW)
            early = look(proxy.admin, proxy.config, tmp_path)
            consistent(early)
            before = early.verdicts()["template"]
            assert (before["state"], before["tally"]["worse"], early.status) == ("KEEP WATCHING", FEW, 3)
            assert before["conversations_needed"] == pytest.approx(foretold() - FEW, abs=1)
            talk(proxy, FEW, foretold() - FEW)
            late = look(proxy.admin, proxy.config, tmp_path)
            assert command(proxy.config, "export", str(tmp_path / "records.jsonl")).returncode == 0
    consistent(late)
    assert counted_alike(late) > 10
    agreement.check_verdicts(late.report, tmp_path / "records.jsonl")
    agreement.check_headlines(late.file, tmp_path / "records.jsonl")
    verdict = late.verdicts()["template"]
    (bad,) = verdict["bad_by"]
    figure("verdict on the demo's engines", f"llama.cpp with another chat template: {verdict['state']} after {verdict['conversations']}, {before['conversations_needed']} more foretold after {FEW}, by {bad['by']}")  # fmt: skip
    assert (verdict["state"], verdict["conversations"], late.status) == ("FAIL", foretold(), 1)
    assert (bad["candidate"], bad["control"]) == (foretold(), 0)
    assert bad["by"] in {"prompt_template", "prompt_tokens"}
