"""A configuration that changes while clients are served: taken over whole or refused, and nobody notices but what it says."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.demo.proxy_process import ProxyProcess
from tests.app.under_load import load
from tests.figures import Figure
from tests.running import parhelion, post, toy, until
from tests.whole import CHAT, kill, law, settle, shadows

SHORT = CHAT | {"max_tokens": 3}


def change(proxy: ProxyProcess, edit: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite the configuration file."""
    tree = yaml.safe_load(proxy.config.read_text())
    edit(tree)
    proxy.config.write_text(yaml.safe_dump(tree, sort_keys=False))


def answers(proxy: ProxyProcess) -> int:
    """How often the log said what became of a changed configuration."""
    return sum(proxy.log.read_bytes().count(word) for word in (b'"config_reloaded"', b'"config_refused"'))


def hang_up(proxy: ProxyProcess) -> None:
    """SIGHUP, and wait for the answer in the log."""
    before = answers(proxy)
    proxy._process.send_signal(signal.SIGHUP)
    until(lambda: answers(proxy) > before, what="an answer to SIGHUP")


def ask(proxy: ProxyProcess, count: int) -> list[bytes]:
    replies = [post(f"{proxy.clients}/v1/chat/completions", SHORT) for _ in range(count)]
    assert {status for status, _, _ in replies} == {200}
    return [body for _, _, body in replies]


def test_what_is_changed_takes_effect_from_the_next_request_on(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy(noise=1.5, seed=7) as other,
        toy() as control,
        parhelion(tmp_path, primary, shadows(other, control)) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        first, second = (post(f"{url}/v1/chat/completions", SHORT)[2] for url in (primary, other))
        assert first != second
        assert set(ask(proxy, 5)) == {first}
        settle(proxy, 5)

        change(proxy, lambda tree: tree.update(sampling={"rate": 0.0}))
        hang_up(proxy)
        ask(proxy, 5)
        assert proxy.metric("parhelion_sampled_total") == 5
        assert proxy.metric("parhelion_not_sampled_total") == 5

        change(proxy, lambda tree: tree.update(sampling={"rate": 1.0}, primary={"url": other}))
        hang_up(proxy)
        assert set(ask(proxy, 4)) == {second}
        settle(proxy, 9)

        late = {"name": "late", "url": control, "modes": ["free"]}
        change(proxy, lambda tree: tree.update(shadows=[tree["shadows"][0], late]))
        hang_up(proxy)
        proxy.wait_known(["primary", "cand", "late"], 30)
        ask(proxy, 3)
        settle(proxy, 12)
        law(proxy, [("cand", "free"), ("cand", "forced"), ("late", "free")])
        assert proxy.metric("parhelion_shed_total", shadow="late", reason="not_configured") == 9
        assert proxy.metric("parhelion_compared_total", shadow="late") == 3
        assert proxy.metric("parhelion_engine_info", arm="control") == 0

        change(proxy, lambda tree: tree.update(shadows=shadows(other, control)))
        hang_up(proxy)
        kill(proxy, "judge")  # and its successor begins with what was changed
        ask(proxy, 2)
        settle(proxy, 14)
        law(proxy)


def test_a_changed_file_is_taken_over_without_a_signal(tmp_path: Path) -> None:
    with toy() as primary, parhelion(tmp_path, primary, shadows(primary, primary)) as proxy:
        ask(proxy, 1)
        change(proxy, lambda tree: tree.update(sampling={"rate": 0.0}))
        until(lambda: b'"config_reloaded"' in proxy.log.read_bytes(), 20, "the file to be read again")
        ask(proxy, 3)
        assert proxy.metric("parhelion_not_sampled_total") == 3


def test_a_bad_file_keeps_the_old_configuration_and_says_what_to_mend(tmp_path: Path) -> None:
    with toy() as primary, parhelion(tmp_path, primary, shadows(primary, primary)) as proxy:
        assert proxy.metric("parhelion_config_reload_failed") == 0
        good = proxy.config.read_text()
        for text, said in (
            (good.replace("rate: 1.0", "rate: 7"), "sampling.rate = 7"),
            (good + "samplng: {}\n", "samplng: unknown key; did you mean sampling?"),
            ("{", "is not YAML"),
            (good.replace("name: cand", "name: primary"), "shadows[0].name: 'primary' is taken"),
            (good.replace("drain: 5", "drain: ${NOT_SET_ANYWHERE}"), "NOT_SET_ANYWHERE is not set; export it"),
        ):
            proxy.config.write_text(text)
            hang_up(proxy)
            assert proxy.metric("parhelion_config_reload_failed") == 1
            assert said in proxy.log.read_text()
            ask(proxy, 1)
        proxy.config.unlink()
        hang_up(proxy)
        assert "cannot be read" in proxy.log.read_text()
        ask(proxy, 1)
        assert proxy.metric("parhelion_sampled_total") == 6
        os.mkfifo(proxy.config)
        hang_up(proxy)
        assert "is not a plain file" in proxy.log.read_text()
        assert proxy.metric("parhelion_config_reload_failed") == 1
        proxy.config.unlink()
        proxy.config.write_text(good)
        hang_up(proxy)
        assert proxy.metric("parhelion_config_reload_failed") == 0


def test_signals_that_come_to_the_last_moment_do_not_change_how_it_ends(tmp_path: Path) -> None:
    with toy() as primary, parhelion(tmp_path, primary, shadows(primary, primary)) as proxy:
        process = proxy._process

        def storm() -> None:
            while process.poll() is None:
                process.send_signal(signal.SIGHUP)
                time.sleep(0.001)

        with ThreadPoolExecutor(1) as pool:
            storming = pool.submit(storm)
            assert proxy.stop() == 0
            storming.result(timeout=30)


def test_what_needs_a_restart_is_named_and_stays_as_it_is(tmp_path: Path) -> None:
    with toy() as primary, parhelion(tmp_path, primary, []) as proxy:
        change(
            proxy,
            lambda tree: tree.update(
                listen="127.0.0.1:1", processes=2, records={"url": "sqlite:///elsewhere.db"}, sampling={"rate": 0.5}
            ),
        )
        hang_up(proxy)
        log = proxy.log.read_text()
        assert '"keys":["listen","processes","records.url"]' in log
        assert '"changed":["sampling"]' in log or '"changed":["sampling","records"]' in log
        ask(proxy, 1)


#: What a round of reloads does, one after the other; a function that returns text writes the file as it is.
def rounds(primary: str, other: str, control: str) -> list[Callable[[dict[str, Any]], str | None]]:
    late = {"name": "late", "url": control, "modes": ["free"]}
    return [
        lambda tree: tree.update(sampling={"rate": 0.3}),
        lambda tree: tree.update(primary={"url": other}),
        lambda _: "sampling: {rate: 7}\n",
        lambda tree: tree.update(shadows=[*shadows(other, control), late]),
        lambda tree: tree.update(limits={"in_flight": 8, "queue_bytes": "8MiB"}),
        lambda _: "{",
        lambda tree: tree.update(primary={"url": primary}, sampling={"rate": 1.0}),
        lambda tree: tree.update(shadows=shadows(other, control)),
        lambda _: "primary: {url: http://127.0.0.1:1}\nshadows: [{name: x}]\n",
        lambda tree: tree.update(limits={"in_flight": 64}),
    ]


@pytest.mark.slow
def test_a_hundred_reloads_under_load_drop_nothing(tmp_path: Path, figure: Figure) -> None:
    with (
        toy() as primary,
        toy(noise=1.5, seed=7) as other,
        toy() as control,
        parhelion(tmp_path, primary, shadows(other, control)) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        bodies = {post(f"{url}/v1/chat/completions", SHORT)[2] for url in (primary, other)}
        good = proxy.config.read_text()
        refused = 0
        with load(f"{proxy.clients}/v1/chat/completions", SHORT) as clients:
            for number in range(100):
                tree = yaml.safe_load(good)
                text = rounds(primary, other, control)[number % 10](tree)
                if text is None:
                    good = text = yaml.safe_dump(tree, sort_keys=False)
                else:
                    refused += 1
                proxy.config.write_text(text)
                answered = clients.count
                hang_up(proxy)
                assert proxy.metric("parhelion_config_reload_failed") == (text != good)
                until(lambda then=answered: clients.count > then + 3, what="clients to be answered on")
        figure(
            "row 19",
            f"100 reloads ({refused} bad) under load: {clients.count} answers, {len(clients.failures)} dropped,"
            f" slowest {clients.slowest:.3f} s",
        )
        assert not clients.failures
        assert set(clients.answers) == {(200, body) for body in bodies}
        assert refused == 30
        settle(proxy, 1)
        law(proxy)
        assert proxy.metric("parhelion_received_total") == clients.count
        assert proxy.metric("parhelion_sampled_total") < clients.count
        assert proxy.stop() == 0
