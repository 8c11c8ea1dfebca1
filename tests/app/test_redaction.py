"""A running proxy with a redaction hook: what the hook takes out is in no file but the spool's, which is emptied; what it fails on is counted, and comparing goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proxy.ledger.store import Store
from tests.running import parhelion, post, toy, until
from tests.whole import CHAT, shadows

CARD = "4111-2222-3333"
HOOK = f"""
def hide(kind, value):
    if "explode" in str(value):
        raise RuntimeError(str(value))
    if kind == "request":
        for message in value["messages"]:
            message["content"] = message["content"].replace("{CARD}", "[card]")
    return value
"""


def test_what_the_hook_takes_out_is_kept_nowhere_and_what_it_fails_on_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "redact_of_a_test.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    records = {"url": f"sqlite:///{tmp_path / 'records.db'}", "content": "text", "redact": "redact_of_a_test:hide"}
    with toy() as primary, toy(seed=2) as candidate, toy() as control:
        with parhelion(tmp_path, primary, shadows(candidate, control), records=records) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            for text in (f"my card is {CARD}", f"explode {CARD}", f"again {CARD}"):
                asked = CHAT | {"messages": [{"role": "user", "content": text}], "logprobs": True, "top_logprobs": 5}
                assert post(f"{proxy.clients}/v1/chat/completions", asked)[0] == 200
            until(lambda: proxy.metric("parhelion_sampled_total") == 3, 30, "the sampling")
            until(lambda: proxy.open_work() == 0, 60, "the settling")
            until(lambda: (proxy.metric("parhelion_redaction_failures_total") or 0) > 0, 10, "the count")
            failed = proxy.metric("parhelion_redaction_failures_total")
        with Store.open_read_only(records["url"]) as store:
            found = [(one, store.detail(one.id)) for one in store.records()]
    kept = [one.content.request for one, _ in found if one.content is not None]
    assert sum("[card]" in text for text in kept) == len(kept) - failed
    assert kept.count("") == failed > 0
    assert all(CARD not in repr(pair) and "explode" not in repr(pair) for pair in found)
    said = (tmp_path / "proxy.log").read_text()
    assert said.count('"redaction_failed"') == 1, said
    for file in (path for path in tmp_path.rglob("*") if path.is_file() and path.name != "redact_of_a_test.py"):
        assert CARD.encode() not in file.read_bytes(), file
