"""Signing in: a session instead of the token, nothing without either where it is needed, and no way in by guessing, from elsewhere or by an old cookie."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import ClientResponse, DummyCookieJar
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from proxy.config import Config, Records, Shadow
from proxy.ledger.admin import make_admin
from proxy.ledger.operation import Standing
from proxy.ledger.pages.forms import local
from proxy.ledger.sessions import LIFETIME, MOST_TRIES, WINDOW, Sessions, Tries
from proxy.switch import ON, Switch

TOKEN = "s3cret-admin-token"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Replica:
    """A running one: its configuration, its switch, a clock to turn."""

    def __init__(self, config: Config) -> None:
        self.config, self.switch, self.now = config, ON, 1_700_000_000.0

    def ready(self) -> bool:
        return True

    def standing(self) -> Standing:
        return Standing({one.name: self.switch.on(one.name) for one in self.config.shadows}, False, self.now)

    async def turn(self, switch: Switch) -> bool:
        self.switch = switch
        return True


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    for folder in ("counters", "judge"):
        (tmp_path / "state" / folder).mkdir(parents=True)
    shadows = (Shadow("candidate", "http://c"),)
    records = Records(url=f"sqlite:///{tmp_path}/none.db")
    config = Config(state=str(tmp_path / "state"), records=records, shadows=shadows, admin_token=TOKEN)
    return Replica(replace(config, admin="0.0.0.0:8001"))


Ask = Callable[..., Awaitable[tuple[ClientResponse, str]]]


def talk(replica: Replica, steps: Callable[[Ask], Awaitable[None]]) -> None:
    """Run steps that ask one admin port, no cookie kept and no redirect followed."""

    async def main() -> None:
        app = make_admin(replica.config, ready=replica.ready, clock=lambda: replica.now, operation=replica)
        async with TestClient(TestServer(app), cookie_jar=DummyCookieJar()) as client:

            async def ask(path: str, data: str | None = None, **headers: str) -> tuple[ClientResponse, str]:
                given = (FORM if data is not None else {}) | headers
                method = "GET" if data is None else "POST"
                async with client.request(method, path, data=data, headers=given, allow_redirects=False) as answer:
                    return answer, await answer.text()

            await steps(ask)

    asyncio.run(main())


async def sign_in(ask: Ask, after: str = "/engines") -> str:
    """The cookie as a browser sends it."""
    answer, _ = await ask("/login", f"token={TOKEN}&next={after}")
    assert (answer.status, answer.headers["Location"]) == (303, after)
    return answer.headers["Set-Cookie"].partition(";")[0]


def test_a_browser_without_the_token_is_led_to_the_sign_in_and_back(replica):
    async def steps(ask: Ask) -> None:
        answer, _ = await ask("/?a=b%26c")
        assert (answer.status, answer.headers["Location"]) == (303, "/login?next=%2F%3Fa%3Db%2526c")
        answer, text = await ask("/login?next=/?a=b%2526c")
        assert answer.status == 200
        assert 'name="next" value="/?a=b%26c"' in text
        cookie = await sign_in(ask)
        answer, text = await ask("/", Cookie=cookie)
        assert answer.status == 200
        assert TOKEN not in text
        assert TOKEN not in cookie
        answer, _ = await ask("/login?next=/api", Cookie=cookie)
        assert (answer.status, answer.headers["Location"]) == (303, "/api")

    talk(replica, steps)


def test_a_program_without_the_token_is_told(replica):
    async def steps(ask: Ask) -> None:
        answer, text = await ask("/api/v1/records")
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "bearer token" in text
        cookie = await sign_in(ask)
        assert (await ask("/api/v1/mirror", Cookie=cookie))[0].status == 200

    talk(replica, steps)


def test_the_cookie_is_for_this_port_and_no_script(replica):
    async def steps(ask: Ask) -> None:
        answer, _ = await ask("/login", f"token={TOKEN}")
        cookie = answer.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={int(LIFETIME)}"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        host = answer.request_info.headers["Host"]
        answer, _ = await ask("/login", f"token={TOKEN}", Origin=f"https://{host}")
        assert "Secure" in answer.headers["Set-Cookie"].split("; ")

    talk(replica, steps)


@pytest.mark.parametrize("why", ["expired", "signed out", "another token", "forged", "nonsense", "restarted"])
def test_a_session_ends(replica, why):
    async def steps(ask: Ask) -> None:
        cookie = await sign_in(ask)
        match why:
            case "expired":
                replica.now += LIFETIME
            case "signed out":
                answer, _ = await ask("/logout", "", Cookie=cookie)
                assert answer.status == 303
                assert "Max-Age=0" in answer.headers["Set-Cookie"]
            case "another token":
                replica.config = replace(replica.config, admin_token="another")
            case "forged":
                cookie = cookie[:-1] + ("0" if cookie[-1] != "0" else "1")
            case "nonsense":
                cookie = "parhelion_session=9"
            case "restarted":
                talked = []

                async def again(ask: Ask) -> None:
                    talked.append((await ask("/", Cookie=cookie))[0].status)

                await asyncio.to_thread(talk, replica, again)
                assert talked == [303]
                return
        assert (await ask("/", Cookie=cookie))[0].status == 303

    talk(replica, steps)


def test_wrong_tokens_are_counted_by_address(replica):
    async def steps(ask: Ask) -> None:
        for _ in range(MOST_TRIES):
            answer, text = await ask("/login", "token=wrong")
            assert answer.status == 401
            assert "Set-Cookie" not in answer.headers
            assert "not the token" in text
        answer, _ = await ask("/login", f"token={TOKEN}")
        assert answer.status == 429
        assert 0 < int(answer.headers["Retry-After"]) <= WINDOW
        answer, _ = await ask("/api/v1/mirror", Authorization=f"Bearer {TOKEN}")
        assert (answer.status, "Retry-After" in answer.headers) == (429, True)
        replica.now += WINDOW
        assert (await ask("/login", f"token={TOKEN}"))[0].status == 303

    talk(replica, steps)


def test_wrong_bearer_tokens_count_as_well(replica):
    async def steps(ask: Ask) -> None:
        for _ in range(MOST_TRIES):
            assert (await ask("/api/v1/mirror", Authorization="Bearer wrong"))[0].status == 401
        assert (await ask("/login", f"token={TOKEN}"))[0].status == 429

    talk(replica, steps)


def test_the_kill_switch_as_a_form(replica):
    async def steps(ask: Ask) -> None:
        answer, _ = await ask("/mirror", "enabled=no")
        assert (answer.status, answer.headers["Location"]) == (303, "/login?next=%2F")
        assert replica.switch == ON
        cookie = await sign_in(ask)
        origin = f"http://{answer.request_info.headers['Host']}"
        for wrong in ({}, {"Origin": "null"}, {"Origin": "http://evil.example"}):
            answer, _ = await ask("/mirror", "enabled=no", Cookie=cookie, **wrong)
            assert answer.status in (303, 403)
            assert replica.switch == ON, wrong
        answer, _ = await ask("/mirror", "enabled=no&shadow=candidate", Cookie=cookie, Origin=origin)
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert replica.switch == Switch(off=("candidate",))
        _, text = await ask("/", Cookie=cookie)
        assert "Start <bdi>candidate</bdi>" in text
        for wrong, named in (
            ("enabled=maybe", "enabled"),
            ("enabled=no&shadow=x", "candidate"),
            ("enabled=no&enabled=yes", "more than once"),
        ):
            answer, text = await ask("/mirror", wrong, Cookie=cookie, Origin=origin)
            assert answer.status == 400
            assert named in text

    talk(replica, steps)


def test_on_loopback_reading_is_open_and_a_change_asks_for_the_token(replica):
    replica.config = replace(replica.config, admin="127.0.0.1:8001")

    async def steps(ask: Ask) -> None:
        answer, text = await ask("/")
        assert answer.status == 200
        assert "Sign in" in text
        answer, _ = await ask("/mirror", "enabled=no")
        assert (answer.status, replica.switch) == (303, ON)
        for path, data in (("/", None), ("/login", None), ("/login", f"token={TOKEN}"), ("/mirror", "enabled=no")):
            answer, text = await ask(path, data, Host="evil.example")
            assert answer.status == 421
            assert "Set-Cookie" not in answer.headers
        answer, _ = await ask("/login", f"token={TOKEN}", Origin="http://evil.example")
        assert answer.status == 403

    talk(replica, steps)


def test_without_a_token_in_force_nobody_signs_in(replica):
    replica.config = replace(replica.config, admin="127.0.0.1:8001", admin_token=None)

    async def steps(ask: Ask) -> None:
        assert "PARHELION_ADMIN_TOKEN" in (await ask("/login"))[1]
        answer, _ = await ask("/login", "token=")
        assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)
        answer, text = await ask("/mirror", "enabled=no")
        assert answer.status == 403
        assert "admin_token" in text

    talk(replica, steps)


def test_what_comes_from_another_site_is_asked_again_from_here(replica):
    """A strict cookie does not come with a link from a dashboard; a page of this port that asks again has it."""

    async def steps(ask: Ask) -> None:
        answer, text = await ask("/login?next=/engines", **{"Sec-Fetch-Site": "cross-site"})
        assert answer.status == 200
        assert 'http-equiv="refresh" content="0; url=/login?next=%2Fengines"' in text

    talk(replica, steps)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("/engines?x=1", "/engines?x=1"), ("", "/"), ("engines", "/"), ("//evil.example", "/"), ("/\\evil.example", "/"),
        ("https://evil.example", "/"), ("/a\r\nSet-Cookie: x", "/"), ("/\u202e", "/"), ("/\tx", "/"),
    ],
)  # fmt: skip
def test_one_goes_on_to_this_port_alone(given, address):
    assert local(given) == address


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", f'{{"token": "{TOKEN}"}}'),
        (
            "multipart/form-data; boundary=x",
            f'--x\r\nContent-Disposition: form-data; name="token"\r\n\r\n{TOKEN}\r\n--x--',
        ),
        ("application/x-www-form-urlencoded", "token=%ff&token"),
        ("application/x-www-form-urlencoded", "&".join(f"f{n}=1" for n in range(50))),
    ],
)
def test_a_form_that_cannot_be_read_is_refused(replica, content_type, body):
    async def steps(ask: Ask) -> None:
        answer, text = await ask("/login", body, **{"Content-Type": content_type})
        assert answer.status == 400
        assert TOKEN not in text

    talk(replica, steps)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True), ("2001:db8::1", "2001:db8:0:1::1", False), ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False), ("fe80::1%eth0", "fe80::2%eth0", True), ("", "nonsense", False),
    ],
)  # fmt: skip
def test_one_machine_has_one_count(one, other, same):
    tries = Tries()
    for _ in range(MOST_TRIES):
        tries.wrong(one, 0.0)
    assert tries.wait(one, 1.0) == WINDOW - 1
    assert bool(tries.wait(other, 1.0)) is same


def test_what_is_remembered_is_bounded():
    tries, sessions = Tries(), Sessions()
    for number in range(10_000):
        tries.wrong(f"a{number}", 0.0)
        sessions.end(sessions.begin("t", 0.0), "t", 0.0)
        sessions.end("strange.9.0", "t", 0.0)
    assert len(tries._wrong) == len(sessions._ended) == 4096
    sessions.end(sessions.begin("t", 2 * LIFETIME), "t", 2 * LIFETIME)
    assert len(sessions._ended) == 1
