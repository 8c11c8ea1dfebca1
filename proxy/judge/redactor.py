"""The judge's end of the redaction hook: asks the process it runs in, within a time, and begins it anew when it has ended.

House rules. Never raises for what a hook does: an answer or a bounded reason. Called from one thread, that of the store. A hook that hangs or ends time and again is left alone for a while, and what would
have been asked meanwhile counts as withheld: recording goes on, with nothing of what it was to look at.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from proxy.config import Config
from proxy.ledger import redaction
from proxy.ledger.record import Settlement

#: Seconds for the texts of one record; a hook that needs longer would hold up everything that is recorded.
SECONDS = 1.0
#: Seconds for its first answer: it has to be imported first, and some import a model.
_START = 10.0
_COSTLY = frozenset({"hung", "died", "not_importable"})  # one that raises is quickly asked again
_GRACE = 0.5  # the child ends itself; only one that cannot is killed
_PATIENCE, _REST = 3, 60.0  # failures in a row, and the seconds that it is left alone for then
_LARGEST = 1 << 28
_SIZE = 4

Texts = Sequence[tuple[str, Any]]


class Said(NamedTuple):
    """``values``: one for each text, None for what is to be kept nothing of; or the reason why there are none."""

    values: list[Any] | None = None
    failure: str = ""


class Redactor:
    """One hook, named ``module:function``."""

    def __init__(self, spec: str, seconds: float = SECONDS) -> None:
        self.spec, self._seconds = spec, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._fresh = True
        self._failed_in_a_row = 0
        self._rests_until = 0.0

    def ask(self, texts: Texts) -> Said:
        """Have texts looked at: of kind ``request`` (a JSON object) or ``output``."""
        if not texts:
            return Said([])
        if time.monotonic() < self._rests_until:
            return Said(failure="resting")
        said = self._asked(texts)
        if said.failure not in _COSTLY:
            self._failed_in_a_row = 0
            return said
        self._failed_in_a_row += 1
        if said.failure == "not_importable" or self._failed_in_a_row >= _PATIENCE:
            self._rests_until = time.monotonic() + _REST
            self._failed_in_a_row = 0
            self.close()
        return said

    def _asked(self, texts: Texts) -> Said:
        try:
            data = msgspec.msgpack.encode(texts)
            answer = self._exchange(len(data).to_bytes(_SIZE, "big") + data)
            how, values = msgspec.msgpack.decode(answer, type=tuple[str, Any])
        except TimeoutError:
            self.close()
            return Said(failure="hung")
        except (OSError, msgspec.DecodeError, UnicodeEncodeError, OverflowError):
            self.close()
            return Said(failure="died")
        if how == "ok" and isinstance(values, list) and len(values) == len(texts):
            return Said(values)
        known = isinstance(values, str) and values in {"raised", "wrong_type", "not_importable"}
        return Said(failure=values if known else "died")

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        words = [sys.executable, "-P", "-m", "proxy.judge.redact_child", self.spec, str(self._seconds)]
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": path},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        self._fresh = True
        return process

    def _exchange(self, frame: bytes) -> bytes:
        """Send a frame, return the one that comes back. Raises TimeoutError, OSError."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        until = time.monotonic() + self._seconds + (_START if self._fresh else _GRACE)
        to, back = process.stdin.fileno(), process.stdout.fileno()
        left, came = memoryview(frame), bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(back, selectors.EVENT_READ)
            selector.register(to, selectors.EVENT_WRITE)
            while (wanted := _wanted(came)) is None or len(came) < wanted:
                ready = selector.select(until - time.monotonic()) if time.monotonic() < until else []
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    if key.fd == to:
                        left = left[os.write(to, left) :]
                        if not left:
                            selector.unregister(to)
                    elif data := os.read(back, 1 << 20):
                        came += data
                    else:
                        raise self._ended(process)
        self._fresh = False
        return bytes(came[_SIZE:])

    def _ended(self, process: subprocess.Popen[bytes]) -> OSError:
        """Say how it ended: by its own alarm, which is a hook that hung, or otherwise."""
        try:
            alarmed = process.wait(_GRACE) == -signal.SIGALRM
        except subprocess.TimeoutExpired:
            alarmed = False
        return TimeoutError() if alarmed else ConnectionError()

    def redacted(self, batch: Sequence[Settlement], told: Callable[[str], None]) -> list[Settlement]:
        """Return the settlements as they may be kept; ``told`` hears of each whose texts were withheld because the hook failed, with the reason."""
        return [self._redacted(one, told) for one in batch]

    def _redacted(self, one: Settlement, told: Callable[[str], None]) -> Settlement:
        texts = redaction.texts(one)
        if not texts:
            return one
        said = self.ask(texts)
        if said.failure:
            told(said.failure)
        return redaction.applied(one, said.values)

    def close(self) -> None:
        """End its process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _wanted(came: bytearray) -> int | None:
    """How many bytes a frame has in all, None while that is not known. Raises OSError for one that cannot be meant."""
    if len(came) < _SIZE:
        return None
    size = int.from_bytes(came[:_SIZE], "big")
    if size > _LARGEST:
        raise ConnectionError
    return _SIZE + size


def of(config: Config, before: Redactor | None) -> Redactor | None:
    """Return the hook of a configuration: the one from ``before`` where it is the same; None where none is named, or no text is kept."""
    spec = config.records.redact if config.records.content == "text" else None
    if before is not None and before.spec == spec:
        return before
    return None if spec is None else Redactor(spec)


_MENDING = {
    "not_importable": "it cannot be imported: install its module for the proxy's interpreter, or name its folder in PYTHONPATH",
    "raised": "it raises for a plain text: it has to take every kind and value",
    "wrong_type": "it returns something else for a text than a text or None",
    "hung": f"it takes longer than {SECONDS:g} s for a short text",
    "died": "it ends its process",
}


def trouble(config: Config) -> list[str]:
    """Try the hook of a configuration on a text; what is wrong with it, in one line for a person."""
    hook = of(config, None)
    if hook is None:
        return []
    try:
        failure = hook.ask([("output", "a text")]).failure
    finally:
        hook.close()
    return [f"records.redact: {hook.spec}: {_MENDING[failure]}"] if failure else []
