"""Ten thousand exchanges through the proxy and past it: the client gets the same, the engine gets the same."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from proxy.config import Limits
from tests.fidelity import player
from tests.fidelity.corpus import CODINGS, FRAMINGS, KINDS, exchanges
from tests.fidelity.reading import Message
from tests.wire.proxied import proxied

SEED = 20_261_130


def test_ten_thousand_exchanges_are_the_same_through_the_proxy_and_past_it(
    state: Path, figure: Callable[[str, str], None]
) -> None:
    table = list(exchanges(SEED))
    assert len(table) >= 10_000
    replies: dict[str, dict[int, Message | None]] = {"past": {}, "through": {}}
    asked: dict[str, dict[int, Message]] = {"past": {}, "through": {}}

    async def main() -> None:
        async with player.engine(table, asked["past"], in_pieces=False) as direct:
            await player.run(direct, table, 16, replies["past"].__setitem__)
        async with (
            player.engine(table, asked["through"], in_pieces=True) as (host, port),
            proxied(f"http://{host}:{port}", state, limits=Limits(queue_bytes=4 << 20)) as proxy,
        ):
            await player.run(proxy.address, table, 16, replies["through"].__setitem__)
            assert proxy.balanced()

    started = time.monotonic()
    uvloop.run(main())
    seconds = time.monotonic() - started
    unlike = [
        exchange.name
        for number, exchange in enumerate(table)
        if told(replies["past"][number]) != told(replies["through"][number])
    ]
    changed = [
        exchange.name
        for number, exchange in enumerate(table)
        if unhosted(asked["past"][number]) != unhosted(asked["through"][number])
    ]
    figure(
        "row 1",
        f"{len(table) - len(unlike)} of {len(table)} replies equal through and past ({len(CODINGS)} codings x {len(FRAMINGS)} framings x {len(KINDS)} kinds, "
        f"{sum(len(one.pieces) for one in table)} pieces), in {seconds:.0f} s",
    )
    figure("row 2", f"{len(table) - len(changed)} of {len(table)} requests reach the engine as they would directly")
    assert not unlike, (len(unlike), unlike[:10])
    assert not changed, (len(changed), changed[:10])


def told(reply: Message | None) -> str:
    assert reply is not None
    assert reply.whole
    return reply.digest()


def unhosted(request: Message) -> str:
    """What an engine must get, but for Host, which names whoever is asked."""
    fields = [(name, b"" if name.lower() == b"host" else value) for name, value in request.end_to_end()]
    return hashlib.sha256(repr((request.start, fields, request.body)).encode()).hexdigest()
