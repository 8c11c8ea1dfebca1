"""Row 24: ten thousand models and as many paths leave a page of metrics that a Prometheus can hold, and what was folded is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import uvloop

from proxy.ledger.labels import MODELS_SEEN
from tests.isolation import load
from tests.isolation.stage import Metrics, arms, settled
from tests.isolation.threaded import threaded
from tests.running import parhelion, until
from tests.wire.engine import Connection, reply

NAMES = 10_000
MOST = 2_000
ANSWER = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}'
MODELS = b'{"object":"list","data":[{"id":"model-0"}]}'


async def engine_of_few_words(connection: Connection) -> None:
    while True:
        request = await connection.request()
        await connection.send(reply(MODELS if request.line.startswith(b"GET /v1/models") else ANSWER))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_names_from_outside_make_no_series(tmp_path: Path, figure: Callable[[str, str], None]) -> None:
    models = [
        load.post(
            orjson.dumps({"model": f"model-{number}", "messages": [{"role": "user", "content": "a"}], "temperature": 0})
        )
        for number in range(NAMES)
    ]
    paths = [load.post(b"{}", f"/v1/path-{number}/{number}?q={number}") for number in range(NAMES)]
    with threaded(engine_of_few_words) as engine:
        settings = {"url": engine.url, "engine": "openai"}
        with parhelion(tmp_path, engine.url, arms(engine.url, engine="openai"), primary=settings) as proxy:
            proxy.wait_known(["primary", "cand"], 30)
            [wanted] = uvloop.run(load.expect(engine.url, models[:1]))
            for corpus in (models, paths):
                tally = load.Tally()
                uvloop.run(load.drive(proxy.clients, NAMES, [wanted] * NAMES, tally, corpus=corpus))
                assert (tally.failed, tally.wrong) == (0, [])
            compared = settled(proxy, 2 * NAMES, 120).sum("compared_total")
            until(lambda: made(Metrics(proxy)) == compared, 10, "the judge's next word")
            seen = Metrics(proxy)
            by_model = seen.by("comparisons_total", "model")
            figure(
                "row 24",
                f"{NAMES} models and {NAMES} paths: {len(seen.samples)} series; {len(by_model) - 1} models by name, {by_model['other']} comparisons under `other`",
            )
            assert len(seen.samples) <= MOST
            assert len(by_model) == MODELS_SEEN + 1
            assert sum(seen.ended("cand").values()) == NAMES
            assert seen.sum("requests_total", endpoint="other") == NAMES


def made(seen: Metrics) -> float:
    """Comparisons that could be made: a shadow that was late for one, as on a busy machine, leaves one that could not."""
    return seen.sum("comparisons_total") - seen.sum("comparisons_total", outcome="incomparable")
