"""The kill switch's position, and the configuration the live path sees through it."""

from __future__ import annotations

import pytest

from proxy.app import switch_file
from proxy.config import Config, Shadow
from proxy.config_file import ConfigError
from proxy.switch import ON, Switch, mirrored

CONFIG = Config(shadows=(Shadow("a", "http://a"), Shadow("b", "http://b")))


def names(switch: Switch) -> list[str]:
    return [shadow.name for shadow in mirrored(CONFIG, switch).shadows]


def test_one_is_off_or_all_are() -> None:
    assert names(ON) == ["a", "b"]
    assert mirrored(CONFIG, ON) is CONFIG
    without = ON.turned(enabled=False, shadow="a")
    assert names(without) == ["b"]
    assert names(without.turned(enabled=False, shadow=None)) == []
    assert names(without.turned(enabled=False, shadow=None).turned(enabled=True, shadow=None)) == ["b"]
    assert without.turned(enabled=True, shadow="a") == ON
    assert without.turned(enabled=False, shadow="a") == without


def test_the_position_is_kept(tmp_path) -> None:
    assert switch_file.load(tmp_path) == ON
    switch = Switch(enabled=False, off=("a", "gone"))
    switch_file.save(tmp_path, switch)
    assert switch_file.load(tmp_path) == switch
    assert (tmp_path / switch_file.FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"{", b'{"enabled": 1}', b'{"enbled": true}', b"\xff"])
def test_a_position_that_cannot_be_read_is_said_and_not_guessed(tmp_path, content: bytes) -> None:
    (tmp_path / switch_file.FILE).write_bytes(content)
    with pytest.raises(ConfigError, match="does not say what may be mirrored; mend it, or delete it"):
        switch_file.load(tmp_path)
