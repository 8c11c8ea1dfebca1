"""The way out of a traffic process: exchanges to the judge over a unix socket, in batches, never waiting.

House rules. ``offer`` returns at once whatever the judge does. What waits is bounded by ``queue_bytes`` (captures still open,
what the judge has not acknowledged, and what it says to hold count too); beyond that the newest is dropped and counted. What has been given to the transport counts as
handed over and is held until the judge acknowledges it, in shared memory and so without waking anybody; when the connection ends before that, it
is handed over again. A missing, dead or hung judge is tried again from the coarse timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

from proxy.counters import Counters, Slot
from proxy.exchange import Exchange
from proxy.traffic.connecting import connected
from proxy.traffic.heap import Heap
from proxy.traffic.wire import PREFIX, Hello, encode, encode_frame, prefix

_BATCH = 256 << 10
_JOINED = 64 << 10  # below this one copy costs less than a list of small buffers; above it nothing is copied
_HIGH_WATER = 512 << 10  # with one more batch on top the transport holds less than 1 MiB
_GATHER = 0.002  # how long finished exchanges gather into one write
_FIRST_RETRY = 0.25
_LONGEST_RETRY = 1.0  # a connect is cheap, and what waits here dies with this process
_QUEUED, _QUEUED_BYTES, _HANDED_OVER, _ACKNOWLEDGED, _JUDGE_BYTES = (
    int(Slot.QUEUED),
    int(Slot.QUEUED_BYTES),
    int(Slot.HANDED_OVER),
    int(Slot.ACKNOWLEDGED),
    int(Slot.JUDGE_BYTES),
)  # a member costs a lookup
_HUNG = 30.0  # a judge that takes nothing for this long is left for a new connection: there may be a new judge


class _Line(asyncio.Protocol):
    """One connection to a judge; tells its owner what happens to it."""

    def __init__(self, owner: Handoff) -> None:
        self._owner = owner
        self.transport: asyncio.WriteTransport | None = None
        self.paused = False
        self.paused_at = 0.0
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        self._owner._up(self)  # noqa: SLF001 - the two halves of one thing

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter: the rest is lost
        self.transport = None
        self.closed.set()
        self._owner._down(self)  # noqa: SLF001 - the two halves of one thing

    async def end(self, seconds: float) -> None:
        """Close; what is in the transport still goes out if the judge reads it in time."""
        if self.transport is None:
            return
        self.transport.close()
        try:
            async with asyncio.timeout(seconds):
                await self.closed.wait()
        except TimeoutError:
            self.transport.abort()
            await self.closed.wait()

    def pause_writing(self) -> None:
        self.paused = True
        self.paused_at = self._owner.now()

    def resume_writing(self) -> None:
        self.paused = False
        self._owner._flush()  # noqa: SLF001 - the two halves of one thing


class Handoff:
    """The queue and the connection of one traffic process (``incarnation``) to the judge listening at ``path``."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, path: str, incarnation: str, counters: Counters, queue_bytes: int
    ) -> None:
        self._loop = loop
        self._path = path
        self._incarnation = incarnation
        self._counters = counters
        self._limit = queue_bytes
        self._queue: deque[bytes] = deque()  # payloads of frames
        self._queued = 0  # bytes in it, prefixes included
        self._sent: deque[bytes] = deque()  # handed over and not acknowledged
        self._unacknowledged = 0  # bytes in it
        self._held = 0  # bytes of captures still open
        self._partial: memoryview | None = None  # rest of a payload whose first slice has gone out
        self._line: _Line | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self._retry = _FIRST_RETRY
        self._gathering: asyncio.TimerHandle | None = None
        self._closed = False
        self._heap = Heap()

    def now(self) -> float:
        """Read the loop's clock."""
        return self._loop.time()

    def limit(self, queue_bytes: int) -> None:
        """Change how much may wait; what waits already stays."""
        self._limit = queue_bytes

    def hold(self, size: int) -> bool:
        """Take ``size`` bytes (negative: give back) of the budget for an open capture; false, and nothing taken, when there is no room."""
        held = self._held + size
        if size > 0 and held + self._queued + self._unacknowledged + self._counters.slots[_JUDGE_BYTES] > self._limit:
            return False
        self._held = held
        return True

    def offer(self, exchange: Exchange) -> None:
        """Queue an exchange, or drop and count it. Never waits, never raises."""
        payload = encode(exchange)
        queued, slots = self._queued + len(payload) + PREFIX, self._counters.slots
        if self._closed or self._held + queued + self._unacknowledged + slots[_JUDGE_BYTES] > self._limit:
            self._counters.add(Slot.SHED_QUEUE)
            return
        self._queue.append(payload)
        self._queued = queued
        slots[_QUEUED] += 1
        slots[_QUEUED_BYTES] = queued + self._unacknowledged
        if self._gathering is None and self._line is not None:
            self._gathering = self._loop.call_later(_GATHER, self._gathered)

    def tick(self, now: float) -> None:
        """Connect when there is no connection and the time has come; leave a hung judge. Called by the coarse timer."""
        self._let_go()
        self._heap.holds(self._held + self._queued + self._unacknowledged)
        line = self._line
        if line is None:
            if self._connecting is None and now >= self._retry_at and not self._closed:
                self._connecting = self._loop.create_task(self._connect())
        elif line.paused and now - line.paused_at > _HUNG and line.transport is not None:
            line.transport.abort()

    async def close(self, seconds: float) -> None:
        """Give what waits up to ``seconds`` to leave, then close; the rest is counted as shed."""
        end = self.now() + seconds
        if self._queue and self._line is None:
            await self._connect_now()
        while (self._queue or self._sent) and self._line is not None and self.now() < end:
            self._flush()
            await asyncio.sleep(0.005)
            self._let_go()
        self._closed = True
        for handle in (self._gathering, self._connecting):
            if handle is not None:
                handle.cancel()
        self._gathering = None
        if self._connecting is not None:
            await asyncio.gather(self._connecting, return_exceptions=True)
        self._counters.add(Slot.SHED_QUEUE, len(self._queue))
        self._unqueued(len(self._queue), self._queued)
        self._queue.clear()
        if self._line is not None:
            await self._line.end(end - self.now())
        self._sent.clear()
        self._counters.slots[_QUEUED_BYTES] = self._unacknowledged = 0

    async def _connect_now(self) -> None:
        """Try once, without waiting for the next try's time: a judge that has just begun to listen may not have been tried since."""
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())
        await self._connecting

    async def _connect(self) -> None:
        line = _Line(self)
        try:
            async with asyncio.timeout(_LONGEST_RETRY):
                await connected(line, self._loop.create_unix_connection(lambda: line, self._path))
        except (OSError, TimeoutError):
            self._retry_at = self.now() + self._retry
            self._retry = min(self._retry * 2, _LONGEST_RETRY)
        finally:
            self._connecting = None

    def _up(self, line: _Line) -> None:
        self._line = line
        self._retry = _FIRST_RETRY
        assert line.transport is not None
        line.transport.write(encode_frame(Hello(self._incarnation, self._counters[Slot.HANDED_OVER])))
        self._flush()

    def _down(self, line: _Line) -> None:
        if line is self._line:
            self._line = None
            self._partial = None
            self._counters.slots[_JUDGE_BYTES] = 0  # nobody is there; the next judge says what it holds
            self._take_back()
            self._retry_at = self.now() + self._retry
            self._retry = min(self._retry * 2, _LONGEST_RETRY)

    def _let_go(self) -> None:
        """Hold no longer what the judge has acknowledged."""
        sent, slots = self._sent, self._counters.slots
        for _ in range(len(sent) - max(0, slots[_HANDED_OVER] - slots[_ACKNOWLEDGED])):
            self._unacknowledged -= len(sent.popleft()) + PREFIX
        slots[_QUEUED_BYTES] = self._queued + self._unacknowledged

    def _take_back(self) -> None:
        """What was handed over and not acknowledged goes to the next judge, in the same order."""
        self._let_go()
        if self._closed or not self._sent:
            return
        again, self._unacknowledged = self._unacknowledged, 0
        self._counters.slots[_HANDED_OVER] -= len(self._sent)
        self._unqueued(-len(self._sent), -again)
        self._queue.extendleft(reversed(self._sent))
        self._sent.clear()

    def _gathered(self) -> None:
        self._gathering = None
        self._flush()

    def _flush(self) -> None:
        line = self._line
        while (
            line is not None
            and line.transport is not None
            and not line.paused
            and (self._queue or self._partial is not None)
        ):
            batch, size = self._next_batch()
            if size < _JOINED:
                line.transport.write(b"".join(batch))
            else:
                line.transport.writelines(batch)

    def _next_batch(self) -> tuple[list[bytes | memoryview], int]:
        """About ``_BATCH`` bytes of frames, and how many; a frame begins to count as handed over with its first byte."""
        self._let_go()
        batch: list[bytes | memoryview] = []
        size = 0
        if self._partial is not None:
            batch.append(self._partial[:_BATCH])
            size = len(batch[0])
            self._partial = self._partial[size:] if size < len(self._partial) else None
        begun = taken = 0
        while self._queue and size < _BATCH:
            payload = self._queue.popleft()
            self._sent.append(payload)
            begun += 1
            taken += len(payload) + PREFIX
            batch.append(prefix(payload))
            room = _BATCH - size
            if len(payload) > room:
                self._partial = memoryview(payload)[room:]
                batch.append(memoryview(payload)[:room])
                size += PREFIX + room
                break
            batch.append(payload)
            size += PREFIX + len(payload)
        self._unacknowledged += taken
        self._unqueued(begun, taken)
        self._counters.slots[_HANDED_OVER] += begun
        return batch, size

    def _unqueued(self, frames: int, size: int) -> None:
        self._queued -= size
        slots = self._counters.slots
        slots[_QUEUED] -= frames
        slots[_QUEUED_BYTES] = self._queued + self._unacknowledged
