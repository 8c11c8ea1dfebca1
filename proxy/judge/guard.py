"""What a shadow may be asked, and when it must be left alone: rate, daily tokens, circuit breaker.

House rules. No clock of its own: times are monotonic seconds handed in, so tests need not wait. ``admit`` answers with None or
the reason for which the exchange is shed; nothing here ever waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_DAY = 86400.0
#: Consecutive failures that open the circuit; five in a row is what Envoy's outlier detection ejects a host at.
_FAILURES_TO_OPEN = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0


@dataclass(slots=True)
class Guard:
    """One shadow's limits.

    ``rate``: requests per second (a bucket of one second's worth, at least one); ``tokens_per_day``: completion and scored tokens in a
    window of 24 h that starts with the first one.
    """

    rate: float | None = None
    tokens_per_day: int | None = None
    _bucket: float = field(default=0.0, init=False)
    _refilled: float | None = field(default=None, init=False)
    _day: float | None = field(default=None, init=False)
    _tokens: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)
    _open_until: float | None = field(default=None, init=False)
    _pause: float = field(default=_FIRST_PAUSE, init=False)
    _trial: bool = field(default=False, init=False)

    @property
    def circuit_open(self) -> bool:
        """Whether the shadow is being left alone (a trial request may be under way)."""
        return self._open_until is not None

    def admit(self, now: float) -> str | None:
        """None to go ahead (and count it against the rate), else the reason to shed."""
        if self._open_until is not None and (self._trial or now < self._open_until):
            return "circuit_open"
        if self.tokens_per_day is not None and self._spent(now) >= self.tokens_per_day:
            return "token_budget"
        if self.rate is not None and not self._take(now, self.rate):
            return "rate_limit"
        if self._open_until is not None:
            self._trial = True
        return None

    def spent(self, tokens: int, now: float) -> None:
        """Count tokens against the day's budget."""
        self._spent(now)
        self._tokens += tokens

    def succeeded(self) -> None:
        """The shadow answered: close the circuit."""
        self._failures, self._open_until, self._pause, self._trial = 0, None, _FIRST_PAUSE, False

    def failed(self, now: float) -> None:
        """The shadow refused, hung or broke off: open the circuit after five in a row, longer each time a trial fails."""
        self._failures += 1
        if self._trial:
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        if self._trial or self._failures >= _FAILURES_TO_OPEN:
            self._open_until, self._trial = now + self._pause, False

    def released(self) -> None:
        """A request that was admitted ended without saying anything about the shadow's health (cancelled)."""
        self._trial = False

    def _spent(self, now: float) -> int:
        if self._day is None or now - self._day >= _DAY:
            self._day, self._tokens = now, 0
        return self._tokens

    def _take(self, now: float, rate: float) -> bool:
        size = max(1.0, rate)
        passed = now - self._refilled if self._refilled is not None else size / rate
        self._bucket = min(size, self._bucket + passed * rate)
        self._refilled = now
        if self._bucket < 1.0:
            return False
        self._bucket -= 1.0
        return True
