"""The key canary: keys that exist nowhere else go in at every opening, things go wrong on every side, and nothing the product leaves or says holds one."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from proxy.demo.proxy_process import ProxyProcess
from tests.fidelity.parrot import Parrot, parrot
from tests.running import ROOT, until
from tests.whole import child

#: Where a key goes in. None may come out but on the wire to where it was addressed.
OPENINGS = (
    "authorization", "api-key", "x-api-key", "cookie", "proxy-authorization", "query", "odd-query", "path", "body-key", "body-base", "body-headers",
    "blank-before-colon", "folded", "nul", "in-the-line", "absolute-form", "two-lengths", "too-long", "admin-header", "admin-query", "admin-malformed", "admin-body",
    "websocket", "sampled-by", "of-the-shadow", "of-the-primary", "of-the-admin", "of-the-salt", "config-url", "config-kind", "config-flag",
)  # fmt: skip
KEYS = {opening: f"sk-canary-{number:02d}-{os.urandom(9).hex()}" for number, opening in enumerate(OPENINGS)}
PROMPT = f"tell me of {os.urandom(9).hex()}"
GONE = "http://127.0.0.1:9"


def command(*words: str, cwd: Path) -> bytes:
    """What a command says, on either stream."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "proxy.cli", *words],
        capture_output=True,
        cwd=cwd,
        env=env,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def raw(address: str, request: bytes) -> bytes:
    """Send bytes as they are, and take what comes until the end."""
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        sock.sendall(request)
        got = b""
        while piece := sock.recv(1 << 16):
            got += piece
        return got


def request(target: str, fields: str, body: bytes, method: str = "POST", host: str = "api.test") -> bytes:
    return (
        f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{fields}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )


def chat(trap: str) -> bytes:
    """A chat that names keys, and a destination in every word that gateways know for one."""
    picture = {"type": "image_url", "image_url": {"url": f"{trap}/a.png"}}
    return orjson.dumps({
        "model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": PROMPT}, picture]}], "temperature": 0,
        "api_key": KEYS["body-key"], "api_base": f"{trap}/{KEYS['body-base']}", "extra_headers": {"Authorization": KEYS["body-headers"]},
        "base_url": trap, "url": trap, "endpoint": trap, "host": trap, "proxy": trap, "webhook": trap,
    })  # fmt: skip


def traffic(clients: str, trap: str) -> None:
    """Requests that are understood: every opening that leads to the primary."""
    fields = "".join(
        f"{name}: {KEYS[key]}\r\n"
        for name, key in (
            ("API-Key", "api-key"),
            ("x-api-key", "x-api-key"),
            ("Proxy-Authorization", "proxy-authorization"),
            ("X-Tenant", "sampled-by"),
        )
    )
    fields += f"Authorization: Bearer {KEYS['authorization']}\r\nCookie: a={KEYS['cookie']}\r\n"
    where = trap.removeprefix("http://")
    fields += f"X-Forwarded-Host: {where}\r\nForwarded: host={where}\r\nX-Original-URL: {trap}\r\nX-Rewrite-URL: {trap}\r\nDestination: {trap}\r\n"
    targets = [
        f"/v1/chat/completions?api_key={KEYS['query']}&tenant={KEYS['odd-query']}",
        f"/{KEYS['path']}/v1/chat/completions",
    ]
    for number in range(10):
        raw(clients, request(targets[number % 2], fields, chat(trap), host=where))
    raw(clients, request(f"/v1/models?key={KEYS['query']}", fields, b"", "GET"))
    raw(clients, request("/v1/chat/completions", fields, chat(trap)[:-1]))


def malformed(address: str, keys: list[str]) -> None:
    """Requests that are refused, each with its key where the fault is."""
    for key, head in zip(
        keys,
        (
            "POST / HTTP/1.1\r\nHost: x\r\nAuthorization : {}\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\n {}\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: {}\0\r\n\r\n",
            "{} / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET http://{}@evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: {}\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: {}" + "x" * 70_000 + "\r\n\r\n",
        ),
        strict=True,
    ):
        answer = raw(address, head.replace("{}", KEYS[key]).encode())
        assert KEYS[key].encode() not in answer, key


def on_the_admin_port(admin: str) -> None:
    """Wrong tokens, wrong paths, wrong everything."""
    raw(admin, request("/api/v1/records", f"Authorization: Bearer {KEYS['admin-header']}\r\n", b"", "GET", admin))
    raw(admin, request("/api/v1/mirror", f"Authorization: Bearer {KEYS['admin-header']}\r\n", b"{}", host=admin))
    raw(
        admin,
        request(
            "/api/v1/mirror", f"Authorization: Bearer {KEYS['of-the-admin']}\r\n", orjson.dumps({KEYS["admin-body"]: 1})
        ),
    )
    for target in (
        f"/api/v1/records?shadow={KEYS['admin-query']}",
        f"/api/v1/records?limit={KEYS['admin-query']}",
        f"/{KEYS['admin-query']}",
    ):
        raw(admin, request(target, "", b"", "GET", admin))
    malformed(admin, ["admin-malformed"] * 7)


def mistakes(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What commands say of configurations with a key in the wrong place."""
    for name, text in (
        ("a key in a URL", f"primary: {{url: 'http://user:{KEYS['config-url']}@127.0.0.1:9'}}"),
        ("a key of another type", f"primary: {{url: {GONE}, api_key: [{KEYS['config-kind']}]}}"),
        ("a key where a number belongs", f"primary: {{url: {GONE}}}\ndrain: {KEYS['config-kind']}"),
        ("a key where a word belongs", f"primary: {{url: {GONE}, logprobs: {KEYS['config-kind']}}}"),
        ("a key for an address", f"primary: {{url: {GONE}}}\nlisten: {KEYS['config-kind']}"),
        ("a key for a URL", f"primary: {{url: {KEYS['config-url']}}}"),
        ("a key in a URL's query", f"primary: {{url: '{GONE}/?key={KEYS['config-url']}'}}"),
    ):
        file = folder / "wrong.yaml"
        file.write_text(text)
        yield name, command("check", "-c", str(file), cwd=folder)
    yield "a key in a flag", command("check", "--primary", f"http://user:{KEYS['config-flag']}@127.0.0.1:9", cwd=folder)


def surfaces(proxy: ProxyProcess, admin: str) -> Iterator[tuple[str, bytes]]:
    """Everything that the product says while it runs."""
    for path in (
        "/",
        "/metrics",
        "/healthz",
        "/readyz",
        "/api/v1/report",
        "/api/v1/records",
        "/api/v1/mirror",
        "/nowhere",
    ):
        yield path, raw(admin, request(path, "", b"", "GET", admin))
    listed = orjson.loads(proxy.get("/api/v1/records?limit=100"))["records"]
    assert listed
    for one in listed:
        yield "a record", proxy.get(f"/api/v1/records/{one['id']}")


def commands(proxy: ProxyProcess, folder: Path) -> Iterator[tuple[str, bytes]]:
    """What the other commands say and write."""
    config = str(proxy.config)
    yield "check", command("check", "-c", config, "--json", str(folder / "check.json"), cwd=folder)
    yield "report", command("report", "-c", config, "--json", str(folder / "report.json"), cwd=folder)
    yield "export", command("export", str(folder / "records.jsonl"), "-c", config, cwd=folder)
    yield "help", b"".join(command(*words, "--help", cwd=folder) for words in ((), ("serve",)))


def spooled(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What lies in the spool while exchanges are under way: bodies as they came, and with them what a body names."""

    def found() -> bytes:
        return b"".join(path.read_bytes() for path in (folder / "spool").rglob("*") if path.is_file())

    until(lambda: PROMPT.encode() in found(), what="the spool")
    yield "the spool", found()


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Everything that it leaves: log, store and its journal, counters, state, exports."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let processes dump their memory if they want to, into a folder of its own: where they are started."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    folder = tmp_path / "started-here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest.mark.slow
@pytest.mark.parametrize("content", ["hash", "text"])
def test_no_key_is_anywhere_and_prompts_only_where_text_is_kept(
    content: str, tmp_path: Path, dumps: Path, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str, str], None]
) -> None:
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    folder = tmp_path / "kept"
    folder.mkdir()
    with parrot() as primary, parrot(0.3) as shadow, parrot() as trap:
        settings = {
            "listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "state": str(folder / "state"), "drain": 5, "admin_token": KEYS["of-the-admin"],
            "primary": {"url": primary.url, "engine": "openai", "api_key": KEYS["of-the-primary"], "logprobs": "rescore"},
            "shadows": [
                {"name": "cand", "url": shadow.url, "engine": "openai", "api_key": KEYS["of-the-shadow"]},
                {"name": "gone", "url": GONE, "engine": "openai", "api_key": KEYS["of-the-shadow"]},
            ],
            "sampling": {"rate": 1.0, "salt": KEYS["of-the-salt"], "by": "header:X-Tenant"},
            "spool": {"path": str(folder / "spool")},
            "records": {"url": f"sqlite:///{folder / 'records.db'}", "content": content},
        }  # fmt: skip
        with ProxyProcess(settings, folder) as proxy:
            clients, admin = urlsplit(proxy.clients).netloc, urlsplit(proxy.admin).netloc
            said = list(ordeal(proxy, clients, admin, trap.url, folder))
            said += mistakes(tmp_path)
        proxy.config.unlink()
        checked(said + list(files(folder)), content, figure)
        assert not list(dumps.iterdir())
        reached(primary, shadow, trap)


def ordeal(proxy: ProxyProcess, clients: str, admin: str, trap: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Traffic, errors on all sides, crashes; what is said before and after."""
    proxy.wait_known(["primary", "cand"], 30)
    traffic(clients, trap)
    malformed(
        clients, ["blank-before-colon", "folded", "nul", "in-the-line", "absolute-form", "two-lengths", "too-long"]
    )
    offer = f"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: {KEYS['websocket']}\r\n\r\n"
    raw(clients, offer.encode())
    on_the_admin_port(admin)
    until(lambda: proxy.metric("parhelion_sampled_total") >= 11 and proxy.open_work() == 0, 60, "the settling")
    yield from surfaces(proxy, admin)
    for role in ("judge", "traffic"):
        until(lambda role=role: child(proxy, role) > 1, what=f"a {role} process")
        before = child(proxy, role)
        os.kill(before, signal.SIGSEGV)
        until(lambda role=role, before=before: child(proxy, role, but=before) > 1, what=f"another {role} process")
    until(lambda: b" 200 " in raw(admin, request("/readyz", "", b"", "GET", admin)), what="readiness")
    traffic(clients, trap)
    yield from spooled(folder)
    until(lambda: proxy.metric("parhelion_sampled_total") >= 22 and proxy.open_work() == 0, 60, "the settling")
    yield from surfaces(proxy, admin)
    yield from commands(proxy, folder)


def checked(said: list[tuple[str, bytes]], content: str, figure: Callable[[str, str], None]) -> None:
    content_of = {
        "body-key",
        "body-base",
        "body-headers",
        "path",
    }  # what a body or a path holds is content: a spool has it until it is settled
    hits = [
        (place, opening)
        for place, data in said
        for opening, key in KEYS.items()
        if (key.encode() in data or key.encode().hex().encode() in data)
        and not (place == "the spool" and opening in content_of)
    ]
    size = sum(len(data) for _, data in said) >> 10
    figure("row 20", f"content: {content}: {len(hits)} hits of {len(KEYS)} keys in {len(said)} places, {size} KiB")
    assert not hits
    kept = {place for place, data in said if PROMPT.encode() in data}
    allowed = {"a record", "records.db", "records.db-wal", "records.jsonl"} if content == "text" else set()
    assert kept - {"the spool"} <= allowed
    assert "the spool" in kept
    assert (len(kept) > 1) == (content == "text")
    assert any(b"child_died" in data for place, data in said if place == "proxy.log")


def reached(primary: Parrot, shadow: Parrot, trap: Parrot) -> None:
    """The keys were on their way, and each came where it was addressed, and nowhere else."""
    for opening in (
        "authorization",
        "api-key",
        "x-api-key",
        "cookie",
        "query",
        "odd-query",
        "path",
        "body-key",
        "body-base",
        "body-headers",
        "of-the-primary",
    ):
        assert primary.sent(KEYS[opening]), opening
    assert primary.sent(KEYS["authorization"], KEYS["query"], PROMPT)
    assert shadow.sent(KEYS["of-the-shadow"], PROMPT)
    for opening, key in KEYS.items():
        if opening not in {"of-the-shadow", "path"}:  # a path may be anything: it names the route, at the shadow too
            assert not shadow.sent(key), opening
    assert not shadow.sent("api_base")
    assert trap.visits == 0  # nothing in a request chose where anything went
