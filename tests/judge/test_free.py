"""What is held of a request while shadows answer it on their own."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

from proxy.compare.comparison import Mode
from proxy.exchange import Exchange
from proxy.judge.case import LONG, Got, Mirrored
from proxy.judge.examine import Examiner
from tests.judge.test_examine import ASKED, Bench, of, run


def test_a_long_request_is_compared_though_its_values_were_not_kept() -> None:
    """What waits for an engine holds a long body as bytes alone; the same comes of it."""

    async def test(bench: Bench) -> None:
        short = await bench.ask(ASKED)
        mirror, waited = bench.examiner.mirror, list[Mirrored]()

        def watched(exchange: Exchange, then: Callable[[Mirrored], None]) -> int:
            def came(mirrored: Mirrored) -> None:
                waited.append(mirrored)
                then(mirrored)

            sent = mirror(exchange, came)
            assert sent > 2 * LONG  # to either shadow
            return sent

        with mock.patch.object(Examiner, "mirror", lambda _, exchange, then: watched(exchange, then)):
            long = await bench.ask(ASKED | {"metadata": {"padding": "x"}, "ignored": "y" * LONG})
        [mirrored] = waited
        assert (mirrored.asked, mirrored.long) == (None, True)
        assert [got.body for got in mirrored.answers.values() if isinstance(got, Got)] == [None, None]
        assert long.asked is not None
        assert long.asked.body["ignored"] == "y" * LONG
        assert long.source is short.source
        for shadow in ("candidate", "control"):
            for mode, outcome in ((Mode.FREE, "identical"), (Mode.FORCED, "scored")):
                assert of(long, shadow, mode).comparison.outcome == outcome
                assert of(long, shadow, mode).comparison.choices[0].compared == 24

    run(test)
