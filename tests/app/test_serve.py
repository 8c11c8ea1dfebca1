"""The whole process tree over toy engines: replies untouched, every sampled request counted once, whatever dies."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.demo.proxy_process import ProxyError, ProxyProcess
from tests.faults import FAULTS
from tests.running import faulty, parhelion, post, toy, until
from tests.whole import CHAT, child, kill, law, settle, shadows


def test_a_client_sees_the_primary_and_the_shadows_are_compared(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy(noise=1.5, seed=7) as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control)) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        for role in ("traffic", "judge"):  # a list of processes tells them apart
            words = Path(f"/proc/{child(proxy, role)}/cmdline").read_bytes().split(b"\0")
            assert words[-2].startswith(f"{role}0-".encode())
        for change in ({}, {"stream": True}, {"logprobs": True, "top_logprobs": 3}, {"n": 2}, {"temperature": 1}):
            body = CHAT | change
            assert post(f"{proxy.clients}/v1/chat/completions", body) == post(f"{primary}/v1/chat/completions", body)
        settle(proxy, 5)
        law(proxy)
        report = proxy.report()
        candidate_, control_ = report["shadows"]
        assert report["requests"]["sampled"] == 5
        assert candidate_["modes"]["free"]["incomparable"] == {"sampled": 1}
        assert sum(candidate_["modes"]["free"]["divergences"].values()) >= 3
        assert control_["modes"]["free"]["identical"] == control_["modes"]["free"]["requests"] == 4
        assert control_["modes"]["forced"]["logprob_error_nats"]["max"] < 1e-9
        until(lambda: proxy.metric("parhelion_shadow_tokens_total", shadow="cand", kind="completion") == 5 * 12)
        until(lambda: proxy.metric("parhelion_shadow_tokens_total", shadow="cand", kind="scored") == 6 * 12)
        assert proxy.stop() == 0


def test_what_comes_before_the_engines_are_known_waits_for_them(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy() as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control)) as proxy,
    ):
        for _ in range(3):
            post(f"{proxy.clients}/v1/chat/completions", CHAT)
        settle(proxy, 3)
        law(proxy)
        for shadow in proxy.report()["shadows"]:
            assert {mode: (found["incomparable"], found["shed"]) for mode, found in shadow["modes"].items()} == {
                "free": ({}, {}),
                "forced": ({}, {}),
            }


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/nowhere"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages": 3}', b'{"model": "other", "messages": []}'])
def test_what_the_primary_refuses_the_client_sees(path: str, body: bytes, wired: tuple[ProxyProcess, str]) -> None:
    proxy, primary = wired
    assert post(proxy.clients + path, body) == post(primary + path, body)
    assert post(proxy.clients + path, body, content_type="text/plain") == post(
        primary + path, body, content_type="text/plain"
    )


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with (
        toy() as primary,
        toy() as other,
        parhelion(tmp_path_factory.mktemp("wired"), primary, shadows(other, other)) as proxy,
    ):
        yield proxy, primary
        settle(proxy, 1)
        law(proxy)


def test_a_folder_of_our_packages_name_where_it_is_started_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("proxy", "engines"):
        (tmp_path / "here" / name).mkdir(parents=True)
        (tmp_path / "here" / name / "__init__.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path / "here")
    with toy() as primary, parhelion(tmp_path, primary, []) as proxy:
        assert post(f"{proxy.clients}/v1/chat/completions", CHAT) == post(f"{primary}/v1/chat/completions", CHAT)


def test_a_missing_key_is_the_primarys_to_refuse_and_a_clients_key_goes_to_nobody_else(tmp_path: Path) -> None:
    with toy(key="of-clients") as primary, toy(key="of-the-shadow") as candidate, toy(key="of-the-control") as control:
        keys = {"cand": "of-the-shadow", "control": "of-the-control"}
        arms = [one | {"api_key": keys[one["name"]]} for one in shadows(candidate, control)]
        with parhelion(tmp_path, primary, arms, primary={"url": primary, "api_key": "of-clients"}) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            for key in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer of-clients"}):
                replies = [post(f"{url}/v1/chat/completions", CHAT, **key) for url in (proxy.clients, primary)]
                assert replies[0] == replies[1]
                assert replies[0][0] == (200 if "of-clients" in str(key) else 401)
            settle(proxy, 3)
            law(proxy)
            assert proxy.metric("parhelion_compared_total") == 4  # the shadows' own keys opened them
            assert proxy.metric("parhelion_incomparable_total", reason="primary_error") == 8
            everything = (
                proxy.log.read_bytes()
                + proxy.get("/metrics")
                + proxy.get("/api/v1/records")
                + (tmp_path / "records.db").read_bytes()
            )
            assert b"of-clients" not in everything
            assert b"Bearer" not in everything


def test_shadows_that_are_gone_change_nothing_and_everything_is_counted(tmp_path: Path) -> None:
    with toy() as primary, parhelion(tmp_path, primary, shadows("http://127.0.0.1:1", "http://127.0.0.1:2")) as proxy:
        direct = post(f"{primary}/v1/chat/completions", CHAT)
        for _ in range(20):
            assert post(f"{proxy.clients}/v1/chat/completions", CHAT) == direct
        settle(proxy, 20)
        law(proxy)
        assert (
            proxy.metric("parhelion_shed_total", reason="shadow_unready") + proxy.metric("parhelion_incomparable_total")
            == 80
        )


@pytest.mark.slow
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_whatever_ails_a_shadow_the_client_sees_the_primary_and_everything_is_counted(
    fault: str, tmp_path: Path
) -> None:
    with toy() as primary, toy() as control, faulty(fault) as ill:
        arms = [
            {"name": "cand", "url": ill, "engine": "reference", "deadline": 1},
            {"name": "control", "role": "control", "url": control},
        ]
        with parhelion(tmp_path, primary, arms, timeouts={"connect": 1}) as proxy:
            proxy.wait_known(["primary", "control"], 30)
            direct = post(f"{primary}/v1/chat/completions", CHAT)
            for _ in range(25):
                assert post(f"{proxy.clients}/v1/chat/completions", CHAT) == direct
            settle(proxy, 25)
            law(proxy)
            assert proxy.metric("parhelion_compared_total", shadow="control") == 50
            assert proxy.metric("parhelion_compared_total", shadow="cand") == 0
            assert proxy.metric("parhelion_divergences_total", shadow="cand") == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["hang", "garbage", "reset", "cut", "error", "empty"])
@pytest.mark.parametrize("who", ["cand", "control"])
def test_a_shadow_that_falls_ill_under_way(who: str, how: str, tmp_path: Path) -> None:
    with toy() as primary, toy() as candidate, toy() as control:
        arms = [one | {"deadline": 1} for one in shadows(candidate, control)]
        with parhelion(tmp_path, primary, arms) as proxy:
            proxy.wait_known(["primary", "cand", "control"], 30)
            direct = post(f"{primary}/v1/chat/completions", CHAT)
            for number in range(30):
                if number == 5:
                    settle(proxy, 5)
                    assert post(f"{candidate if who == 'cand' else control}/ill/{how}", b"")[0] == 200
                assert post(f"{proxy.clients}/v1/chat/completions", CHAT) == direct
            settle(proxy, 30)
            law(proxy)
            assert proxy.metric("parhelion_compared_total", shadow=who, mode="free") == 5
            assert proxy.metric("parhelion_divergences_total") == 0
            if who == "cand":
                assert proxy.metric("parhelion_compared_total", shadow="control") == 60
            until(lambda: proxy.metric("parhelion_shadow_errors_total", shadow=who) > 0)


def test_a_killed_judge_is_replaced_and_what_it_held_is_counted_as_lost(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy() as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control)) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        for round_ in range(3):
            for _ in range(10):
                assert post(f"{proxy.clients}/v1/chat/completions", CHAT)[0] == 200
            if round_ < 2:
                kill(proxy, "judge")
        settle(proxy, 30)
        law(proxy)
        assert proxy.metric("parhelion_sampled_total") == 30


def test_a_killed_traffic_process_is_replaced_and_its_counts_stay(tmp_path: Path) -> None:
    with (
        toy() as primary,
        toy() as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control)) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        for _ in range(10):
            assert post(f"{proxy.clients}/v1/chat/completions", CHAT)[0] == 200
        old = kill(proxy, "traffic")
        until(lambda: child(proxy, "traffic", old) != 0, what="a new traffic process")
        for _ in range(5):
            assert post(f"{proxy.clients}/v1/chat/completions", CHAT)[0] == 200
        settle(proxy, 15)
        law(proxy)
        assert proxy.metric("parhelion_received_total") == 15


def test_counts_go_on_where_the_last_life_ended(tmp_path: Path) -> None:
    with toy() as primary, toy() as candidate, toy() as control:
        for lives in (1, 2):
            with parhelion(tmp_path, primary, shadows(candidate, control)) as proxy:
                proxy.wait_known(["primary", "cand", "control"], 30)
                for _ in range(4):
                    post(f"{proxy.clients}/v1/chat/completions", CHAT)
                settle(proxy, 4 * lives)
                law(proxy)
                assert proxy.metric("parhelion_sampled_total") == 4 * lives
                assert proxy.stop() == 0


def test_rules_that_need_the_body_are_settled_by_the_judge(tmp_path: Path) -> None:
    rules = {"rate": 0.0, "rules": [{"match": {"has_tools": True}, "rate": 1.0}]}
    with (
        toy() as primary,
        toy() as candidate,
        toy() as control,
        parhelion(tmp_path, primary, shadows(candidate, control), sampling=rules) as proxy,
    ):
        proxy.wait_known(["primary", "cand", "control"], 30)
        for number in range(6):
            post(
                f"{proxy.clients}/v1/chat/completions",
                CHAT | ({"tools": [{"type": "function"}]} if number % 3 == 0 else {}),
            )
        until(lambda: proxy.metric("parhelion_not_sampled_total") == 4)
        settle(proxy, 2)
        law(proxy)
        assert proxy.metric("parhelion_sampled_total") == 2


def test_injected_replies_are_what_the_client_would_have_got(tmp_path: Path) -> None:
    with toy() as primary, toy() as candidate, toy() as control, ProxyProcess(
        {
            "listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "state": str(tmp_path / "state"), "sampling": {"rate": 1.0},
            "primary": {"url": primary, "engine": "reference", "logprobs": "inject"}, "shadows": shadows(candidate, control),
            "records": {"url": f"sqlite:///{tmp_path / 'r.db'}"},
        },
        tmp_path,
    ) as proxy:  # fmt: skip
        proxy.wait_known(["primary", "cand", "control"], 30)
        through, direct = (
            orjson.loads(post(f"{url}/v1/chat/completions", CHAT)[2]) for url in (proxy.clients, primary)
        )
        assert through == direct
        through, direct = (
            post(f"{url}/v1/chat/completions", CHAT | {"stream": True})[2] for url in (proxy.clients, primary)
        )
        assert events(through) == events(direct)
        settle(proxy, 2)
        law(proxy)
        assert proxy.report()["primary"]["tokens_source"]["inject"] == 2


def events(body: bytes) -> list[Any]:
    """The parsed events of a stream."""
    found = [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line]
    return [one if one == b"[DONE]" else orjson.loads(one) for one in found]


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        for key in ("listen", "admin"):
            with (
                pytest.raises(ProxyError, match=rf"parhelion: {key}: {where} is in use; stop what listens there"),
                parhelion(tmp_path, "http://127.0.0.1:9", [], **{key: where}),
            ):
                pass


def test_a_state_directory_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    same = {"state": str(tmp_path / "state")}
    with (
        parhelion(tmp_path, "http://127.0.0.1:9", []),
        pytest.raises(ProxyError, match="in use by another parhelion"),
        parhelion(tmp_path / "second", "http://127.0.0.1:9", [], **same),
    ):
        pass


def refused(tmp_path: Path, *, shadow: dict[str, Any] | None = None, **settings: Any) -> str:
    arms = [{"name": "a", "url": "http://127.0.0.1:8"} | (shadow or {})]
    with pytest.raises(ProxyError) as caught, parhelion(tmp_path, "http://127.0.0.1:9", arms, **settings):
        pass
    return str(caught.value)


def test_a_store_that_cannot_be_had_stops_the_start_in_one_line(tmp_path: Path) -> None:
    said = refused(tmp_path, records={"url": f"sqlite:///{tmp_path / 'no' / 'such' / 'r.db'}"})
    assert "parhelion: records.url: " in said
    assert "Traceback" not in (tmp_path / "proxy.log").read_text()


def test_a_salt_that_is_none_stops_the_start_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "salt").write_bytes(b"")
    assert "does not hold a salt" in refused(tmp_path)


def test_sizes_and_keys_that_cannot_be(tmp_path: Path) -> None:
    assert "limits.capture_bytes" in refused(tmp_path, limits={"capture_bytes": "99999999999GB"})
    assert "limits.in_flight" in refused(tmp_path, limits={"in_flight": 100_000_000})
    assert "shadows[0].api_key" in refused(tmp_path, shadow={"api_key": "k\n"})
