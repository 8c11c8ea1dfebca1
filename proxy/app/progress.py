"""How far a long command is, on standard error, where that is a terminal; nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_T = TypeVar("_T")
_TOLD_EVERY = 500


@contextmanager
def progress(word: str) -> Iterator[Callable[[int], None]]:
    """Show how many there were so far of what ``word`` says; yields what is told of more."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} " + word), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=None)
        yield lambda more: shown.advance(task, more)


def telling(values: Iterable[_T], told: Callable[[int], None]) -> Iterator[_T]:
    """Yield the values, and tell of them every few hundred."""
    source = iter(values)
    while some := list(islice(source, _TOLD_EVERY)):
        yield from some
        told(len(some))
