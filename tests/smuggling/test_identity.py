"""What the engine gets is what the client sent, byte for byte, but for each hop's own fields: over a corpus of odd but sound requests."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from proxy.config import Primary
from tests.figures import Figure
from tests.wire.client import Wire
from tests.wire.engine import Engine, always, chunk
from tests.wire.proxied import proxied

COUNT = 800  # for each of the three settings
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
_TOKEN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!#$%&'*+^`|~"
_PATH = _TOKEN.replace("#", "") + '/:;=@?,()<>[]{}"\\'
_KNOWN = ["Authorization", "COOKIE", "accept", "Accept-Encoding", "User-Agent", "Content-Type", "X-Forwarded-For", "Via", "traceparent"]  # fmt: skip
_OWN = ["Connection", "KEEP-ALIVE", "te", "Trailer", "Upgrade", "Proxy-Authorization", "proxy-connection", "X-Parhelion"]  # fmt: skip
_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Sent:
    """A request as bytes on the wire, and the head and body that the engine must get."""

    raw: bytes
    head: bytes
    body: bytes


def _value(chance: random.Random) -> bytes:
    raw = bytes(
        chance.choice([*range(0x21, 0x7F), 0x20, 0x09, *range(0x80, 0x100)]) for _ in range(chance.randint(0, 30))
    )
    return raw.strip(b" \t")


def _fields(chance: random.Random) -> list[tuple[bytes, bytes]]:
    fields = []
    for _ in range(chance.randint(0, 12)):
        name = chance.choice(_KNOWN) if chance.random() < 0.5 else "X" + "".join(chance.choices(_TOKEN, k=8))
        fields.append((name.encode(), _value(chance)))
        if chance.random() < 0.2:
            fields.append((chance.choice([name, name.swapcase()]).encode(), _value(chance)))
    for name in chance.sample(_OWN, chance.randint(0, 3)):
        listed = chance.choice([name for name, _ in fields] or [b"x-none"]) if name == "Connection" else b"keep"
        if listed.lower() in (b"close", b"upgrade"):
            continue
        fields.insert(chance.randint(0, len(fields)), (name.encode(), listed))
    return fields


def sent(chance: random.Random, host: bytes | None, prefix: bytes) -> Sent:
    """One request. ``host``: what stands in the place of the client's (None: nothing does)."""
    method = chance.choice(_METHODS).encode()
    target = b"/" + "".join(chance.choices(_PATH, k=chance.randint(0, 40))).encode() + chance.choice([b"", b"%2F%zz", b"//", b"/../."])  # fmt: skip
    fields = _fields(chance)
    fields.insert(chance.randint(0, len(fields)), (chance.choice([b"Host", b"hOST"]), b"client.test:81"))
    body = chance.randbytes(chance.randint(1, 3000)) if method in (b"POST", b"PUT", b"PATCH") else b""
    framed = body
    if body and chance.random() < 0.5:
        fields.insert(chance.randint(0, len(fields)), (b"transfer-Encoding", b"chunked"))
        cut = chance.randint(1, len(body))
        framed = chunk(body[:cut]) + (chunk(body[cut:]) if body[cut:] else b"") + chunk(b"")
    elif body or chance.random() < 0.1:
        fields.insert(chance.randint(0, len(fields)), (b"content-LENGTH", b"%d" % len(body)))
    space = chance.choice([b" ", b"", b"  ", b"\t"])
    raw = b"%b %b HTTP/1.1\r\n%b\r\n%b" % (method, target, b"".join(b"%b:%b%b \r\n" % (name, space, value) for name, value in fields), framed)  # fmt: skip
    named = {value.lower() for name, value in fields if name.lower() == b"connection"}
    own = {name.lower().encode() for name in _OWN} | named - {b"host"}
    lines = [b"%b %b%b HTTP/1.1" % (method, prefix, target)]
    for name, value in fields:
        if name.lower() not in own:
            lines.append(b"%b: %b" % (name, host if host is not None and name.lower() == b"host" else value))
    return Sent(raw, b"\r\n".join(lines), body)


@pytest.mark.parametrize("setting", ["rewrite", "keep", "base path"])
def test_the_engine_gets_the_clients_request(setting: str, state: Path, figure: Figure) -> None:
    chance = random.Random(f"20261130 {setting}")

    async def main() -> int:
        async with Engine(always(_REPLY)) as engine:
            prefix = "/base/v2" if setting == "base path" else ""
            primary = Primary(url=engine.url + prefix, host="keep" if setting == "keep" else "rewrite")
            async with proxied(engine.url, state, primary=primary) as proxy:
                corpus = [
                    sent(chance, None if setting == "keep" else engine.host, prefix.encode()) for _ in range(COUNT)
                ]
                for start in range(0, COUNT, 40):
                    async with Wire(proxy.address) as wire:
                        for one in corpus[start : start + 40]:
                            await wire.send(one.raw)
                            assert await wire.until(b"\r\n\r\n") == _REPLY, one.raw
            same = 0
            for one, request in zip(corpus, engine.requests, strict=True):
                got = b"\r\n".join(line.rstrip(b" \t") for line in request.head.split(b"\r\n"))
                wanted = b"\r\n".join(line.rstrip(b" \t") for line in one.head.split(b"\r\n"))
                assert got == wanted, one.raw
                assert request.body == one.body
                same += 1
            return same

    same = uvloop.run(main())
    figure("row 2", f"{setting}: {same} of {COUNT} requests reach the engine as they were sent")
    assert same == COUNT
