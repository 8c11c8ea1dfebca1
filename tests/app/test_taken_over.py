"""Which part of a changed configuration takes effect, and what it comes to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from proxy.app.reload import Reload, taken_over
from proxy.config import Config, Primary, Records, Sampling, Shadow
from proxy.config_file import ConfigError

OLD = Config(primary=Primary(url="http://p:1"), listen="127.0.0.1:8000")


def test_what_is_bound_or_opened_once_keeps_its_value() -> None:
    new = replace(
        OLD,
        listen="127.0.0.1:9000",
        processes=3,
        records=Records(url="sqlite:///other.db", keep=60.0),
        sampling=Sampling(rate=0.5),
    )
    config, changed, waiting = taken_over(OLD, new)
    assert waiting == ["listen", "processes", "records.url"]
    assert changed == ["sampling", "records"]
    assert (config.listen, config.processes, config.records) == (OLD.listen, 1, Records(keep=60.0))
    assert config.sampling.rate == 0.5


def test_the_mixture_of_old_and_new_must_hold_too() -> None:
    """A primary where clients were listened for is fine only if listening has moved away, which it cannot before a restart."""
    new = replace(OLD, listen="127.0.0.1:9000", primary=Primary(url="http://127.0.0.1:8000"))
    with pytest.raises(ConfigError, match=r"primary\.url: .*every request would come back to us"):
        taken_over(OLD, new)


def test_nothing_is_applied_when_nothing_has_changed_and_a_refusal_keeps_the_old_one() -> None:
    applied: list[Config] = []
    sources: list[Config | ConfigError] = [
        OLD,
        ConfigError("sampling.rate: is wrong"),
        replace(OLD, shadows=(Shadow("a", "http://a"),)),
        replace(OLD, shadows=(Shadow("b", "http://b"),)),
    ]

    def load() -> Config:
        found = sources.pop(0)
        if isinstance(found, ConfigError):
            raise found
        return found

    async def apply(config: Config) -> bool:
        applied.append(config)
        return config.shadows[0].name == "b"

    async def main() -> None:
        reload = Reload(OLD, load, apply)
        results = []
        for _ in range(4):
            await reload.again()
            results.append((reload.failed, len(applied), len(reload.config.shadows)))
        assert results == [(False, 0, 0), (True, 0, 0), (True, 1, 0), (False, 2, 1)]

    asyncio.run(main())


def test_a_file_is_read_when_it_has_settled_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.app.reload._LOOK_EVERY", 0.02)
    file = tmp_path / "c.yaml"
    (tmp_path / "first").write_text("1")
    (tmp_path / "second").write_text("22")
    file.symlink_to(tmp_path / "first")
    read: list[str] = []

    def load() -> Config:
        read.append(file.read_text())
        return OLD

    async def apply(_: Config) -> bool:
        return True

    async def main() -> None:
        reload = Reload(OLD, load, apply, file)
        running = asyncio.ensure_future(reload.run())
        await asyncio.sleep(0.2)
        assert read == []
        scratch = tmp_path / "scratch"
        scratch.symlink_to(tmp_path / "second")
        scratch.replace(file)  # as Kubernetes swaps what a ConfigMap's files point at
        async with asyncio.timeout(10):
            while not read:  # noqa: ASYNC110 - the file system sends no event
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert read == ["22"]
        reload.ask()
        async with asyncio.timeout(10):
            while len(read) < 2:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
