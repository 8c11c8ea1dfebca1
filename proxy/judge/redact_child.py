"""Where a redaction hook runs: ``python -m proxy.judge.redact_child MODULE:FUNCTION SECONDS``, a process of its own beside the judge.

Frames of four bytes of length and msgpack: in comes a list of [kind, value], out goes ["ok", [values]] or ["failed", reason]. House rules. What the hook prints goes nowhere, what it raises is told
by its kind alone: both may quote what a client said. A hook that takes longer than SECONDS for a frame ends this process, and be it in the middle of a regular expression.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

#: What a hook is called with, and what it may return for it beside None.
KINDS: dict[str, type] = {"request": dict, "output": str}
_SIZE = 4

Hook = Callable[[str, Any], Any]


def main(spec: str, seconds: float) -> int:
    """Answer frames until there are no more."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a handler in Python would wait for what hangs
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        hook = find(spec)
    except Exception:  # noqa: BLE001 - importing runs somebody else's code
        hook = None
    while (frame := read(incoming)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        answer = ("failed", "not_importable") if hook is None else answered(hook, msgspec.msgpack.decode(frame))
        signal.setitimer(signal.ITIMER_REAL, 0)
        data = msgspec.msgpack.encode(answer)
        outgoing.write(len(data).to_bytes(_SIZE, "big") + data)
        outgoing.flush()
    return 0


def find(spec: str) -> Hook:
    """Import a hook named ``module:function``. Raises whatever importing it raises, TypeError for what cannot be called."""
    module, _, name = spec.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{spec} cannot be called")
    hook: Hook = found
    return hook


def read(incoming: BinaryIO) -> bytes | None:
    """Read one frame; None at the end."""
    size = incoming.read(_SIZE)
    return incoming.read(int.from_bytes(size, "big")) if len(size) == _SIZE else None


def answered(hook: Hook, asked: list[tuple[str, Any]]) -> tuple[str, Any]:
    """Return what the hook makes of all of them, or why it cannot be used."""
    values = []
    for kind, value in asked:
        try:
            said = hook(kind, value)
        except Exception:  # noqa: BLE001 - somebody else's code
            return "failed", "raised"
        if said is not None and not isinstance(said, KINDS[kind]):
            return "failed", "wrong_type"
        values.append(said)
    try:
        msgspec.msgpack.encode(values)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return "failed", "wrong_type"
    return "ok", values


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
