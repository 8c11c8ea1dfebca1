"""Steps are measured, waits are not, and results, errors and cancellation go through."""

from __future__ import annotations

import asyncio

import pytest

from proxy.judge.stepped import stepped


class Counting:
    """Counts its entries, and tells whether it is inside."""

    def __init__(self) -> None:
        self.entered, self.inside = 0, False

    def __enter__(self) -> None:
        assert not self.inside
        self.entered, self.inside = self.entered + 1, True

    def __exit__(self, *_: object) -> None:
        self.inside = False


def test_each_step_is_inside_and_each_wait_is_outside() -> None:
    around = Counting()

    async def work() -> int:
        assert around.inside
        await asyncio.sleep(0)
        assert around.inside
        await asyncio.sleep(0.001)
        assert around.inside
        return 7

    async def main() -> None:
        task = asyncio.ensure_future(stepped(work(), around))
        await asyncio.sleep(0)
        assert not around.inside
        assert await task == 7
        assert around.entered == 3

    asyncio.run(main())


def test_an_error_goes_through() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    async def main() -> None:
        with pytest.raises(KeyError, match="x"):
            await stepped(work(), Counting())

    asyncio.run(main())


@pytest.mark.parametrize("minds", [False, True])
def test_cancellation_is_the_coroutines_to_deal_with(minds: bool) -> None:
    around = Counting()

    async def work() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert around.inside
            if minds:
                return "finished all the same"
            raise
        return "never"

    async def main() -> None:
        task = asyncio.ensure_future(stepped(work(), around))
        await asyncio.sleep(0.01)
        task.cancel()
        if minds:
            assert await task == "finished all the same"
        else:
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
