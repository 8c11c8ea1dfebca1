"""What a shadow may be asked, and when it must be left alone: rate, daily tokens, circuit breaker.

House rules. No clock of its own: times are monotonic seconds handed in, so tests need not wait. ``admit`` answers with None or
the reason for which the exchange is shed; nothing here ever waits. A shadow that is well again is noticed within 5 s of traffic: no pause is longer
than 4 s, and a trial that hangs does not keep the next one away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Why nothing is asked of a shadow that was switched off.
KILL_SWITCH = "kill_switch"
_DAY = 86400.0
#: Consecutive failures that open the circuit; five in a row is what Envoy's outlier detection ejects a host at.
_FAILURES_TO_OPEN = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 4.0
_TRIAL = 4.0  # a trial that has said nothing for so long has not failed, but another may be made beside it


@dataclass(slots=True)
class Guard:
    """One shadow's limits.

    ``rate``: requests per second (a bucket of one second's worth, at least one); ``tokens_per_day``: completion and scored tokens in a
    window of 24 h that starts with the first one. What is expected of requests under way counts against it too, so that it is passed only by as
    much as a reply is longer than expected.
    """

    rate: float | None = None
    tokens_per_day: int | None = None
    stopped: bool = False  # by the kill switch
    faults: int = field(default=0, init=False)  # heard of in its life
    _bucket: float = field(default=0.0, init=False)
    _refilled: float | None = field(default=None, init=False)
    _day: float | None = field(default=None, init=False)
    _tokens: int = field(default=0, init=False)
    _expected: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)
    _open_until: float | None = field(default=None, init=False)
    _pause: float = field(default=_FIRST_PAUSE, init=False)
    _trial_until: float | None = field(default=None, init=False)

    @property
    def circuit_open(self) -> bool:
        """Whether the shadow is being left alone (a trial request may be under way)."""
        return self._open_until is not None

    def admit(self, now: float, tokens: int = 0) -> str | None:
        """None to go ahead (and count it against the rate), else the reason to shed. ``tokens`` expected are held back until ``returned``."""
        if self.stopped:
            return KILL_SWITCH
        if self._open_until is not None and (now < self._open_until or self._on_trial(now)):
            return "circuit_open"
        if self.tokens_per_day is not None:
            spent = self._spent(now) + self._expected
            if spent >= self.tokens_per_day or spent + tokens > self.tokens_per_day:
                return "token_budget"
        if self.rate is not None and not self._take(now, self.rate):
            return "rate_limit"
        self._expected += tokens
        if self._open_until is not None:
            self._trial_until = now + _TRIAL
        return None

    def charge(self, now: float) -> None:
        """Count one more request of work that was admitted as one; the next to ask waits the longer for it."""
        if self.rate is not None:
            self._refill(now, self.rate)
            self._bucket -= 1.0

    def returned(self, tokens: int) -> None:
        """Work that was admitted with so many ``tokens`` has ended; what it really took is told to ``spent``."""
        self._expected -= tokens

    def spent(self, tokens: int, now: float) -> None:
        """Count tokens against the day's budget."""
        self._spent(now)
        self._tokens += tokens

    def day(self, now: float) -> tuple[float, int]:
        """How many seconds ago the day's window began, and what has been spent in it: what a later life must know."""
        return (0.0, 0) if self._day is None else (now - self._day, self._tokens)

    def resume(self, now: float, ago: float, tokens: int) -> None:
        """Go on with the window of an earlier life."""
        if 0.0 <= ago < _DAY:
            self._day, self._tokens = now - ago, tokens

    def succeeded(self) -> None:
        """The shadow answered: close the circuit."""
        if not self._failures and self._open_until is None and self._trial_until is None:
            return
        self._failures, self._open_until, self._pause, self._trial_until = 0, None, _FIRST_PAUSE, None

    def failed(self, now: float) -> None:
        """The shadow refused, hung or broke off: open the circuit after five in a row, longer each time a trial fails."""
        self._failures += 1
        self.faults += 1
        trial = self._trial_until is not None
        if trial:
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        if trial or self._failures >= _FAILURES_TO_OPEN:
            self._open_until, self._trial_until = now + self._pause, None

    def released(self) -> None:
        """A request that was admitted ended without saying anything about the shadow's health (cancelled)."""
        self._trial_until = None

    def _on_trial(self, now: float) -> bool:
        return self._trial_until is not None and now < self._trial_until

    def _spent(self, now: float) -> int:
        if self._day is None or now - self._day >= _DAY:
            self._day, self._tokens = now, 0
        return self._tokens

    def _take(self, now: float, rate: float) -> bool:
        self._refill(now, rate)
        if self._bucket < 1.0:
            return False
        self._bucket -= 1.0
        return True

    def _refill(self, now: float, rate: float) -> None:
        size = max(1.0, rate)
        passed = now - self._refilled if self._refilled is not None else (size - self._bucket) / rate
        self._bucket = min(size, self._bucket + passed * rate)
        self._refilled = now
