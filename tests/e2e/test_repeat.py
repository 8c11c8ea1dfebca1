"""From a record to the same difference again, on real engines: llama.cpp Q4_1 answers, F32 is asked too; the commands that a record gives are run as they are printed."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engines.launch import start_llama
from proxy.demo import weights
from proxy.ledger.detail import Detail
from proxy.ledger.query import Filter
from proxy.ledger.record import Record
from proxy.ledger.store import Store
from tests.engine_fixtures import MODEL
from tests.running import parhelion, post, until

pytestmark = [pytest.mark.slow, pytest.mark.llama, pytest.mark.timeout(600)]

CHAT, COMPLETION = "v1/chat/completions", "v1/completions"
ASKED = [
    (CHAT, {"messages": [{"role": "user", "content": "It's \"quoted\" $HOME `id` \\n \u202e ö: why do cats purr?"}], "max_tokens": 32, "stream": True}),
    (COMPLETION, {"prompt": "The train stopped where there was no station, and", "max_tokens": 32}),
]  # fmt: skip
_POSITION = re.compile(
    r"position (\d+): primary (\"(?:[^\"\\]|\\.)*\")?.*?, shadow (?:would say )?(\"(?:[^\"\\]|\\.)*\")?"
)


def test_the_commands_of_a_record_find_the_same_tokens_at_the_same_place(smollm2_q4: Path, tmp_path: Path) -> None:
    full = weights.f32(smollm2_q4, print)
    with ExitStack() as stack:
        primary, shadow = (
            stack.enter_context(
                start_llama(model, alias=MODEL, extra=("--no-prompt-cache",), log=tmp_path / f"{number}.log")
            ).url
            for number, model in enumerate((smollm2_q4, full))
        )
        proxy = stack.enter_context(parhelion(tmp_path, primary, [{"name": "f32", "url": shadow}]))
        proxy.wait_known(["primary", "f32"], 120)
        for path, body in ASKED:
            values = {"logprobs": True, "top_logprobs": 5} if path == CHAT else {"logprobs": 5}
            asked = body | {"model": MODEL, "temperature": 0} | values
            assert post(f"{proxy.clients}/{path}", asked)[0] == 200
        until(lambda: proxy.metric("parhelion_sampled_total") == len(ASKED), 30, "the sampling")
        until(lambda: proxy.open_work() == 0, 180, "the settling")
        with Store.open_read_only(f"sqlite:///{tmp_path / 'records.db'}") as store:
            differing = [(one, store.detail(one.id)) for one in store.records(Filter(differing=True))]
        modes = [one.comparison.mode.value for one, _ in differing]
        assert modes.count("free") == len(ASKED), modes
        assert modes.count("forced") >= 1, modes
        for record, detail in differing:
            assert detail is not None
            _held_against_its_record(record, detail)
            _repeated(record, f"{proxy.admin}/api/v1/records/{record.id}/repeat", tmp_path)


def _held_against_its_record(record: Record, detail: Detail) -> None:
    """What is shown is what was compared."""
    compared, shown = record.comparison.choices[0], detail.choices[0]
    assert shown.primary.texts is not None
    assert record.content is not None
    assert "".join(shown.primary.texts) == record.content.primary[0]
    for flip in (compared.first, *compared.flips):
        if flip is not None:
            assert (shown.primary.texts[flip.index], shown.primary.ids[flip.index]) == (
                flip.primary.text,
                flip.primary.id,
            )
            best = shown.shadow.top(flip.index)[0]
            assert (best.text, best.id) == (flip.shadow.text, flip.shadow.id)
            assert len(shown.primary.top(flip.index)) >= 5
    if compared.first is not None and record.comparison.mode.value == "free":
        assert "".join(shown.shadow.texts or ()) == record.content.shadow[0]


def _repeated(record: Record, address: str, directory: Path) -> None:
    with urllib.request.urlopen(address, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    done = subprocess.run(
        ["bash", "-c", found["shell"]], capture_output=True, text=True, timeout=120, check=False, cwd=directory
    )
    assert done.stderr == "", done.stderr
    seen = _POSITION.match(done.stdout)
    assert seen is not None, done.stdout
    choice = record.comparison.choices[0]
    flip = choice.first or choice.flips[0]
    tokens = [None if one is None else json.loads(one) for one in seen.groups()[1:]]
    assert (int(seen[1]), *tokens) == (flip.index, flip.primary.text, flip.shadow.text), done.stdout
