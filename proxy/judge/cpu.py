"""Processor time of the judge's process by stage: ``compare`` and ``store`` are measured where they happen, ``mirror`` is all the rest.

House rules. Process-wide, as processor time is. A stage is entered by one thread at a time, never twice at once and never across an
``await``: what runs meanwhile would be counted with it.
"""

from __future__ import annotations

from time import process_time_ns, thread_time_ns


class Stage:
    """A stage's processor time in nanoseconds so far; ``with stage:`` measures the thread that runs it."""

    __slots__ = ("_since", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self._since = 0

    def __enter__(self) -> None:
        self._since = thread_time_ns()

    def __exit__(self, *_: object) -> None:
        self.spent += thread_time_ns() - self._since


#: Token reading, comparing, and what is learned and counted of it; on the event loop's thread.
COMPARE = Stage()
#: The same of large exchanges, on a thread of their own.
COMPARE_ASIDE = Stage()
#: Writing to the store; on its thread.
STORE = Stage()


class Meter:
    """Tells what each stage has spent since it was last asked."""

    def __init__(self) -> None:
        self._told = by_stage()

    def since_last(self) -> dict[str, float]:
        """Seconds by stage since the call before (or the beginning)."""
        now = by_stage()
        spent = {stage: (now[stage] - before) / 1e9 for stage, before in self._told.items()}
        self._told = now
        return spent


def by_stage() -> dict[str, int]:
    """Nanoseconds by stage since the process began, all threads."""
    compare, store = COMPARE.spent + COMPARE_ASIDE.spent, STORE.spent
    return {"mirror": max(0, process_time_ns() - compare - store), "compare": compare, "store": store}
