"""Rollouts out of a file of JSON lines, plain or compressed (.gz, .zst), one at a time.

House rules. The one file here that reads. A line is never held longer than it takes; what cannot be used is yielded as ``Unusable`` with where it stands, and the next line
is read. A last line without its end is a file that is still being written, or was cut, and is named so.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from engines.lenient_json import NotJson, loads
from proxy.rollouts.packed import BROKEN, lines, unpacked
from proxy.rollouts.rollout import Rollout, Unusable
from proxy.rollouts.spelling import rollouts_of

#: As in every dump of a batch that was seen, with much room; a longer line is no line of rollouts.
MOST_LINE = 256 << 20


class BadFile(Exception):
    """The file cannot be read at all, or its compression is broken; the text says which."""


def rollouts_in(path: Path) -> Iterator[tuple[int, Rollout | Unusable]]:
    """Yield line number (from 1) and rollout. Raises BadFile."""
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                if len(line) > MOST_LINE:
                    raise BadFile(f"{path}: line {number} is longer than {MOST_LINE >> 20} MiB")
                if line.strip():
                    yield from ((number, one) for one in _of(line, number))
    except BROKEN as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "the compressed data is cut or damaged"
        raise BadFile(f"{path}: {why}") from None


def _of(line: bytes, number: int) -> Iterator[Rollout | Unusable]:
    try:
        value = loads(line)
    except NotJson:
        if line.endswith(b"\n"):
            yield Unusable("not_json", "not JSON")
        else:
            yield Unusable(
                "truncated", "the file ends in the middle of this line: it is still being written, or was cut"
            )
        return
    yield from rollouts_of(value, f"line {number}")


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[bytes]]:
    """Its lines with their ends, none much longer than ``MOST_LINE``."""
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as packed:
            yield iter(partial(packed.readline, MOST_LINE + 1), b"")
    elif path.suffix in {".zst", ".zstd"}:
        with path.open("rb") as file:
            yield lines(unpacked(file), MOST_LINE)
    else:
        with path.open("rb") as file:
            yield iter(partial(file.readline, MOST_LINE + 1), b"")
