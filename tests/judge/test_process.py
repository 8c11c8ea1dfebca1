"""The judge process: what looks after it goes on for as long as it lives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proxy.config import Config, Primary, Records, Spool
from proxy.judge.process import Judge


def test_housekeeping_goes_on_after_something_in_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("proxy.judge.process._SNAPSHOT_EVERY", 0.01)

    async def main() -> None:
        records, spool = Records(url=f"sqlite:///{tmp_path / 'r.db'}"), Spool(path=str(tmp_path / "spool"))
        judge = Judge(Config(primary=Primary(url="http://p"), state=str(tmp_path), records=records, spool=spool), "j0")
        look, looks, again = judge.ledger.look, 0, asyncio.Event()

        async def fails_once(*given: Any) -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise RuntimeError("once")
            await look(*given)
            again.set()

        monkeypatch.setattr(judge.ledger, "look", fails_once)
        keeping = asyncio.ensure_future(judge._housekeeping())
        async with asyncio.timeout(20):
            await again.wait()
        keeping.cancel()
        await asyncio.wait([keeping])
        await judge.ledger.close()
        judge.spool.close()
        await judge.engines.close()

    asyncio.run(main())
    assert caplog.text.count("housekeeping_failed") == 1


@pytest.mark.parametrize(("part", "work"), [("pipeline", "compare"), ("ledger", "run"), ("engines", "watch")])
def test_a_judge_of_which_a_part_has_failed_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str, work: str
) -> None:
    async def main() -> int:
        records, spool = Records(url=f"sqlite:///{tmp_path / 'r.db'}"), Spool(path=str(tmp_path / "spool"))
        judge = Judge(Config(primary=Primary(url="http://p"), state=str(tmp_path), records=records, spool=spool), "j0")

        async def fails() -> None:
            raise RuntimeError("what a client said")

        monkeypatch.setattr(getattr(judge, part), work, fails)
        async with asyncio.timeout(30):
            return await judge.run(lambda: None, asyncio.Event())

    assert asyncio.run(main()) == 1
    assert caplog.text.count("judge_broken") == 1
    assert "what a client said" not in caplog.text
