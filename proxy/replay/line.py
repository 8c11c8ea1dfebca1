"""One line of a replayed file, whatever its format was; and what is wrong with one.

House rules. Values only. The text of an error quotes names of fields and numbers, never what a request says.
"""

from __future__ import annotations

from msgspec import Struct


class Replied(Struct, frozen=True):
    """A recorded reply: the body's bytes as an engine sent them; ``stream``: server-sent events, else one JSON object."""

    body: bytes
    stream: bool
    status: int = 200


class Line(Struct, frozen=True):
    """One request to ask again.

    ``number``: from 1, as editors count; ``path``: the route, without query; ``body``: a JSON object; ``time``: when it was asked (Unix seconds), None when the file does not say;
    ``conversation``: what the file calls the conversation it belongs to, "" when it names none; ``key``: by which its reply is found in another file; ``exchange``: lines that share it
    are one request ("" : a request by itself).
    """

    number: int
    path: str
    body: bytes
    time: float | None = None
    conversation: str = ""
    key: str = ""
    exchange: str = ""
    reply: Replied | None = None


class TrafficError(Exception):
    """A file that cannot be replayed; the text names file, line and remedy."""


class LineError(Exception):
    """A line that cannot be replayed; ``remedy`` says how to mend it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy
