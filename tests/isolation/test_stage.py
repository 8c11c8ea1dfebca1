"""What the tests of this folder measure with."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.isolation.stage import descriptors


def test_a_descriptor_that_closes_while_they_are_counted_is_one_less_and_not_none() -> None:
    there, over = len(list(Path("/proc/self/fd").iterdir())), threading.Event()

    def open_and_close() -> None:
        while not over.is_set():
            for one in [os.open(os.devnull, os.O_RDONLY) for _ in range(50)]:
                os.close(one)

    busy = threading.Thread(target=open_and_close)
    busy.start()
    try:
        counted = [descriptors(os.getpid()) for _ in range(300)]
    finally:
        over.set()
        busy.join()
    assert min(counted) >= there - 2  # less the one that the listing itself had open
    assert max(counted) <= there + 52
