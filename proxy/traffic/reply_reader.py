"""Reads the replies of one connection with llhttp: heads judged, body pieces as they came, and where each reply ends.

House rules. No socket: bytes in, findings out. The parser's callbacks only collect, so that an error of ours is never taken for the
peer's. What is not understood makes the reply ``faulty``; it is never guessed. What is held beside body pieces is bounded.
"""

from __future__ import annotations

import httptools

from proxy.traffic import reply_head
from proxy.traffic.reply_head import Framing, ReplyHead
from proxy.traffic.request_head import MAX_HEAD


class ReplyReader:
    """``begin`` one reply, ``feed`` what arrives, look at the attributes.

    ``heads`` and ``pieces`` are what the last feed brought (interim heads first, then the one in ``head``); ``complete`` and ``faulty`` end
    a reply; ``extra`` tells of bytes after its end, ``keep`` whether the peer keeps the connection.
    """

    __slots__ = (
        "_fields",
        "_method",
        "_parser",
        "_quiet",
        "_reason",
        "complete",
        "extra",
        "faulty",
        "head",
        "heads",
        "keep",
        "pieces",
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.begin(b"GET")

    def begin(self, method: bytes) -> None:
        """Expect the reply to a request of ``method``."""
        self._method = method
        self._reason = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._quiet = 0  # bytes since the last body byte: heads and trailers are bounded by this
        self.head: ReplyHead | None = None
        self.heads: list[ReplyHead] = []
        self.pieces: list[bytes] = []
        self.complete = False
        self.faulty = False
        self.extra = False
        self.keep = False

    def feed(self, data: bytes) -> None:
        """Read what arrived. Never raises for what a peer sends."""
        self.heads, self.pieces = [], []
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.faulty = True
        except httptools.HttpParserError:
            self.extra = self.complete
            self.faulty = not self.complete
        self._quiet = 0 if self.pieces else self._quiet + len(data)
        if self._quiet > MAX_HEAD and not self.complete:
            self.faulty = True

    @property
    def silent(self) -> bool:
        """Tell whether not one byte of the reply has come."""
        return self.head is None and not self._quiet

    @property
    def ends_with_connection(self) -> bool:
        """Tell whether the end of the connection is the proper end of the reply."""
        return self.head is not None and self.head.framing is Framing.CLOSE

    def on_message_begin(self) -> None:
        """Note a reply that nobody asked for, or the next after an interim one."""
        if self.complete:
            self.extra = True
        self._reason = b""
        self._fields = []

    def on_status(self, reason: bytes) -> None:
        """Collect the reason phrase, which may come in parts."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field; after the head it is a trailer, which is dropped."""
        if self.head is None:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        """Judge the head."""
        if self.complete or self.faulty:
            return
        head = reply_head.read(self._parser.get_status_code(), self._reason, self._fields, self._method)
        version = self._parser.get_http_version()
        # RFC 9112 section 6.1: Transfer-Encoding in a 1.0 message is faulty framing.
        old = version == "1.0" and (head is None or head.framing is not Framing.CHUNKED)
        if head is None or not (version == "1.1" or old):
            self.faulty = True
            return
        self.heads.append(head)
        if head.interim:
            return
        self.head = head
        self.keep = self._parser.should_keep_alive()
        if self._method == b"HEAD":
            # llhttp does not know the method and would wait for a body.
            self.complete = True
            self._parser = httptools.HttpResponseParser(self)

    def on_body(self, piece: bytes) -> None:
        """Collect a piece of the body."""
        if self.complete or self.faulty:
            self.extra = True
        else:
            self.pieces.append(piece)

    def on_message_complete(self) -> None:
        """Note the end; an interim reply's is none."""
        if self.head is not None:
            self.complete = True
