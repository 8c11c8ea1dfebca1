"""Clients that keep asking while something is done to the proxy, and remember every answer that was not whole."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson


@dataclass
class Load:
    """``answers`` by (status, body), ``failures`` what a client saw instead of an answer, ``slowest`` in seconds."""

    url: str
    body: dict[str, Any]
    answers: Counter[tuple[int, bytes]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def count(self) -> int:
        """Whole answers so far."""
        return self.answers.total()

    def run(self, pause: float) -> None:
        """Ask on one kept-alive connection after the other until stopped; a connection is closed only by us, or announced by the server."""
        parts = urlsplit(self.url)
        payload = orjson.dumps(self.body)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                connection.request("POST", parts.path, payload, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                answer = (reply.status, reply.read())
            except (OSError, http.client.HTTPException) as error:
                with self._lock:
                    self.failures.append(type(error).__name__)
                connection.close()
                continue
            with self._lock:
                self.answers[answer] += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
            time.sleep(pause)
        connection.close()

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def load(url: str, body: dict[str, Any], *, clients: int = 3, pause: float = 0.005) -> Iterator[Load]:
    """``clients`` threads that ask for as long as the context lasts."""
    one = Load(url, body)
    threads = [threading.Thread(target=one.run, args=(pause,), daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield one
    finally:
        one.stop()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
