"""Reads the replies of one connection with llhttp: heads judged, body pieces as they came, and where each reply ends.

House rules. No socket: bytes in, findings out. The parser's callbacks only collect, so that an error of ours is never taken for the
peer's. What is not understood makes the reply ``faulty``; it is never guessed. What is held beside body pieces is bounded.
"""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace
from typing import Any

import httptools

from proxy.traffic import known_head, reply_head
from proxy.traffic.known_head import KnownReply
from proxy.traffic.reply_head import Framing, ReplyHead
from proxy.traffic.request_head import MAX_HEAD

_LENGTH = Framing.LENGTH  # a member of an enumeration costs a lookup each time it is named
_CHUNK = re.compile(rb"([1-9a-fA-F][0-9a-fA-F]{0,6})\r\n")


class ReplyReader:
    """``begin`` one reply, ``feed`` what arrives, look at the attributes.

    ``heads`` and ``pieces`` are what the last feed brought (interim heads first, then the one in ``head``); ``complete`` and ``faulty`` end
    a reply; ``extra`` tells of bytes after its end, ``keep`` whether the peer keeps the connection. ``whole_chunks`` is true when the last feed was
    nothing but whole chunks in plain spelling, ``as_came`` when it was a head that would be written anew just so with all or some of its body: its bytes
    may then be passed on as they are.
    """

    __slots__ = (
        "_aligned",
        "_ended",
        "_fields",
        "_known",
        "_left",
        "_method",
        "_offered",
        "_own",
        "_parser",
        "_quiet",
        "_reason",
        "_sink",
        "_ticked",
        "_ticks",
        "as_came",
        "complete",
        "extra",
        "faulty",
        "head",
        "heads",
        "keep",
        "pieces",
        "switched",
        "whole_chunks",
    )

    def __init__(self) -> None:
        self._parser: Any = None
        self._sink: list[bytes] = []  # the parser's pieces, of all that one feed brings
        self._own = -1  # how many of them are this reply's, once that is known
        self._ticks = itertools.count()  # of chunks that have ended
        self._ticked = self._ended = 0  # before this feed, and by it
        self._known: KnownReply | None = None  # the latest reply's head
        self._fields: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self.begin(b"GET")

    def begin(self, method: bytes, *, offered: bool = False) -> None:
        """Expect the reply to a request of ``method``; ``offered``: it may be 101 (``switched`` is then what came behind it)."""
        self._method = method
        self._offered = offered
        self.switched: bytes | None = None
        self._quiet = 0  # bytes since the last body byte: heads and trailers are bounded by this
        self._left = -1  # body bytes still to come, when the parser is not needed for them
        self.head: ReplyHead | None = None
        self.heads: list[ReplyHead] = []
        self.pieces: list[bytes] = []
        self.complete = self.faulty = self.extra = self.keep = self.whole_chunks = self.as_came = False
        self._aligned = False  # a chunked body has begun, and every feed of it so far ended with a chunk

    def feed(self, data: bytes) -> None:
        """Read what arrived. Never raises for what a peer sends."""
        if self._left >= 0:
            self.heads, self.as_came = [], False
            self._count(data)
            return
        if self._aligned and (found := _CHUNK.match(data)) is not None:
            begin = found.end()
            if len(data) == begin + int(found[1], 16) + 2 and data.endswith(b"\r\n"):
                # One whole chunk, the rule for a paced stream: the parser, which stands between two chunks, need not see it.
                self.heads, self.pieces, self.whole_chunks = [], [data[begin:-2]], True
                self._quiet = 0
                return
        if self.head is None and not self._quiet:
            plain = known_head.read_reply(self._known, data, self._method)
            if plain is not None:
                self._known, end = plain
                self._begun(self._known, data[end:])
                return
        self._parse(data)

    def _begun(self, known: KnownReply, rest: bytes) -> None:
        """Take a head in plain spelling, and what came of its body."""
        self.head = head = known.head
        self.keep = known.keep
        self.heads = [head]
        stated = head.framing is _LENGTH
        self._left = (head.length or 0) if stated else 0
        self._count(rest)
        self.as_came = known.as_came and stated and not self.extra

    def _count(self, data: bytes) -> None:
        """Take bytes of a body of known length."""
        if self.complete:
            self.pieces = []
            self.extra = True
            return
        left = self._left - len(data)
        if left <= 0:
            self.complete = True
            if left:
                self.extra = True
                data = data[:left]
        self._left = max(left, 0)
        self.pieces = [data] if data else []

    def _parse(self, data: bytes) -> None:
        self.heads = []
        self._own = 0 if self.complete else -1
        self.whole_chunks = False
        if self._parser is None:
            self._parser = self._new_parser()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            if self.heads and self.heads[-1].status == 101:
                self.switched = data[stop.args[0] :]
            else:
                self.faulty = True
        except httptools.HttpParserError:
            self.extra = self.complete
            self.faulty = not self.complete
        self._take_pieces()
        self._quiet = 0 if self.pieces else self._quiet + len(data)
        if self._quiet > MAX_HEAD and not self.complete:
            self.faulty = True
        if self.heads:
            if not self.complete and self.head is not None and self.head.framing is Framing.CHUNKED:
                self._align(data)
        elif self._aligned:
            self._align(data)

    def _new_parser(self) -> Any:
        # A stream is a thousand pieces: what is called for each of them and its end is no function of ours.
        return httptools.HttpResponseParser(
            SimpleNamespace(
                on_message_begin=self.on_message_begin,
                on_status=self.on_status,
                on_header=self.on_header,
                on_headers_complete=self.on_headers_complete,
                on_body=self._sink.append,
                on_chunk_complete=self._ticks.__next__,
                on_message_complete=self.on_message_complete,
            )
        )

    def _take_pieces(self) -> None:
        """Take what the parser found in one feed: pieces, of which those behind the reply's end are none of its, and ends of chunks."""
        ticked = next(self._ticks)  # this look is a tick, too
        self._ended, self._ticked = ticked - self._ticked, ticked + 1
        self.pieces = pieces = self._sink[:]
        self._sink.clear()
        if 0 <= self._own < len(pieces):
            self.extra = True
            del pieces[self._own :]

    def _align(self, data: bytes) -> None:
        """See whether this feed was whole chunks to the byte.

        The parser tells pieces and ends of chunks, not the bytes between them: only when these add up to the plain spelling was there no
        extension, trailer or leading zero among them.
        """
        size = 5 if self.complete else 0  # 0, two line ends
        for piece in self.pieces:
            length = len(piece)
            size += length + 4 + (length.bit_length() + 3 >> 2)
        begin = 0
        if self.heads:  # where the head ended is known only when it came in this one feed
            begin = data.find(b"\r\n\r\n") + 4 if data.startswith(b"HTTP/") else -1
        whole = self._ended == len(self.pieces) + self.complete and begin + size == len(data)
        whole = whole and not self.extra and not self.faulty
        self.whole_chunks = whole and not self.heads
        self._aligned = whole and not self.complete

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
        head = reply_head.read(
            self._parser.get_status_code(), self._reason, self._fields, self._method, offered=self._offered
        )
        version = self._parser.get_http_version()
        # RFC 9112 section 6.1: Transfer-Encoding in a 1.0 message is faulty framing.
        old = version == "1.0" and (head is None or head.framing is not Framing.CHUNKED)
        if head is None or not (version == "1.1" or old):
            self.faulty = True
            self._own = len(self._sink)
            return
        self.heads.append(head)
        if head.interim:
            return
        self.head = head
        # llhttp keeps a 1.0 connection that says both keep-alive and close; the peer will close it.
        closes = any(name.lower() == b"connection" and b"close" in value.lower() for name, value in self._fields)
        self.keep = self._parser.should_keep_alive() and not closes
        if self._method == b"HEAD":
            # llhttp does not know the method and would wait for a body.
            self.complete = True
            self._own = len(self._sink)
            self._parser = None

    def on_message_complete(self) -> None:
        """Note the end; an interim reply's is none."""
        if self.head is not None and not self.complete:
            self.complete = True
            self._own = len(self._sink)
