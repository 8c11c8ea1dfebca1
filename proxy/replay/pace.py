"""When the next request may begin: so many a second, or with the gaps that were recorded.

House rules. Only says how long to wait; whoever asks has the clock.
"""

from __future__ import annotations

from collections.abc import Sequence


class Pace:
    """``rate``: requests a second at most (None: as fast as there is room); ``times``: recorded moments of the plan's requests, kept ``speed`` times as fast."""

    def __init__(self, rate: float | None, times: Sequence[float] = (), speed: float = 1.0) -> None:
        self._rate, self._times, self._speed = rate, times, speed
        self._begun: float | None = None
        self._first = 0
        self._next = 0.0

    def wait(self, position: int, now: float) -> float:
        """Return the seconds until the request at ``position`` may begin, ``now`` on a clock that never goes back; 0 for one that is late."""
        if self._begun is None:
            self._begun, self._first = now, position
        due = now
        if self._times:
            due = self._begun + (self._times[position] - self._times[self._first]) / self._speed
        if self._rate is not None:
            due = max(due, self._next)
            self._next = max(due, now) + 1 / self._rate
        return max(0.0, due - now)
