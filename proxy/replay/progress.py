"""What a replay has done, in its own store: which file, engines and choices it is of, and which of its requests are settled.

A request's number (its place in the plan, from 1) goes into the store with its settlements, in one transaction: what is there is done, whatever died since. Settlements go in in the
plan's order, so that what is done is a beginning of the plan, and what was learned on the way can be learned again from the records.

House rules. A store of another file, of other engines or of other choices is never gone on with: that would be one report of two things.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from proxy.config import Config
from proxy.judge.noise import NoiseBook
from proxy.ledger.store import Store
from proxy.replay.line import TrafficError

_KEY = "replay"
_SQLITE = b"SQLite format 3\0"
#: What differs between two replays, in words.
_WORDS = {
    "file": "the file's content",
    "engines": "the configured engines",
    "verdict": "the configuration's `verdict`",
    "content": "`records.content` or `records.redact`",
    "choices": "the options that choose requests",
}


class Identity(Struct, frozen=True):
    """Of what a replay is, each part as a hash or a text; ``choices`` may be shown."""

    file: str
    engines: str
    verdict: str
    content: str
    choices: str


class Begun(Struct, frozen=True):
    """A replay's beginning: ``at`` Unix seconds, ``block`` see ``runner``, ``since`` the moment that an age meant then."""

    identity: Identity
    at: float
    block: int
    since: float | None = None


class Done(Struct, frozen=True):
    """How far it is: the first ``count`` requests of the plan."""

    count: int


def identity(config: Config, digest: str, choices: Mapping[str, Any]) -> Identity:
    """Of what a replay is; keys and limits do not matter."""
    shadows = [
        [one.name, one.role, one.url, one.engine, one.models, one.modes, one.top_logprobs, one.declare]
        for one in config.shadows
    ]
    primary = [config.primary.url, config.primary.engine, config.primary.logprobs == "rescore", config.primary.declare]
    return Identity(
        digest,
        _hash([primary, shadows]),
        _hash(config.verdict),
        config.records.content + (f" redacted by {hook}" if (hook := config.records.redact) else ""),
        " ".join(f"{name}={value}" for name, value in sorted(choices.items())),
    )


def _hash(value: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=12).hexdigest()


def begun(store: Store) -> Begun | None:
    """Read how a replay began; None for a store of none. Raises StoreError."""
    kept = store.get_state(_KEY)
    return None if kept is None else msgspec.msgpack.decode(kept, type=Begun)


def begin(store: Store, this: Begun) -> None:
    """Write it down. Raises StoreError."""
    store.settle([], state={_KEY: msgspec.msgpack.encode(this)})


def refuse_foreign(out: Path) -> None:
    """Raise TrafficError for a file that is there and was begun by no replay: it would be thrown away, set aside as damaged, or written into. Changes nothing."""
    if not out.exists():
        return
    what = f"{out} is no store of a replay, and is left as it is: name another file with --out"
    try:
        with out.open("rb") as file:
            head = file.read(len(_SQLITE))
        if not head:
            return
        if head != _SQLITE:
            raise TrafficError(what)
        with closing(sqlite3.connect(f"{out.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                return
            ours = connection.execute("SELECT 1 FROM state WHERE key = ?", (_KEY,)).fetchone()
            used = connection.execute("SELECT 1 FROM counts LIMIT 1").fetchone()
    except OSError as error:
        raise TrafficError(f"{out}: cannot be read: {error.strerror}; name another store with --out") from None
    except sqlite3.Error:
        raise TrafficError(what) from None
    if used and not ours:  # one that was killed before it wrote down what it is of has counted nothing
        raise TrafficError(f"{out} holds records that are of no replay: name another store with --out")


def refuse_another(was: Identity, now: Identity, out: str) -> None:
    """Raise TrafficError unless a store is of this replay."""
    other = [words for name, words in _WORDS.items() if getattr(was, name) != getattr(now, name)]
    if other:
        raise TrafficError(
            f"{out} is of another replay: {', '.join(other)} differ; begin anew with --fresh, or name another store with --out"
        )


def settled(store: Store) -> int:
    """How many requests of the plan are done. Raises StoreError, and TrafficError for a store that lacks some in between."""
    numbers = store.spooled()
    if numbers and max(numbers) != len(numbers):
        raise TrafficError(f"{store.path} lacks some of what it has counted: begin anew with --fresh")
    return len(numbers)


def learned_again(store: Store, configured: float | None, block: int, count: int) -> tuple[NoiseBook, dict[int, bytes]]:
    """Learn the noise again from the records in the order they were settled, and what was known after each block of the ``count`` requests done (by its number from 1), encoded. Raises StoreError."""
    book, after, at = NoiseBook(configured), {}, 0
    for record in store.records():
        position = position_of(record.exchange)
        while position >= (at + 1) * block:
            at += 1
            after[at] = book.encode()
        book.learn(record.model, record.comparison, control=record.role == "control")
    while count >= (at + 1) * block:
        at += 1
        after[at] = book.encode()
    return book, after


def exchange_id(digest: str, position: int) -> str:
    """Return the id of a request's exchange: the same whenever the same file is replayed by the same choices."""
    return f"replay-{digest[:12]}-{position}"


def position_of(exchange: str) -> int:
    """Return the place in the plan that an exchange's id names."""
    return int(exchange.rpartition("-")[2])
