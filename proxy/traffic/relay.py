"""One exchange: a client's request on its way to the primary and the reply on its way back.

House rules. No socket and no parser here, only what passes between the two sides and the order of it. An exchange ends exactly once
(``_finish``), whoever ends it; afterwards every late call is ignored. A reply that has begun is never repaired: a cut stays a cut.

A request is sent twice in two cases only. A connection kept from an earlier exchange died without one byte of a reply, the
method is idempotent (RFC 9110 section 9.2.2) and the whole body is at hand; or the primary refused what ``inject`` had added.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from engines.dialect import Json
from proxy.counters import Slot
from proxy.exchange import Ended
from proxy.traffic import refusals, reply_head, request_head, tunnel
from proxy.traffic.capture import Capture
from proxy.traffic.inject import Injection, enlargeable
from proxy.traffic.known_head import KnownHead
from proxy.traffic.refusals import Refusal
from proxy.traffic.reply_head import Framing, ReplyHead
from proxy.traffic.writing import add_chunk

if TYPE_CHECKING:
    from proxy.traffic.client_side import ClientSide
    from proxy.traffic.primary_side import PrimarySide
    from proxy.traffic.service import Service, Snapshot

_IDEMPOTENT = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"TRACE"})
_REPLAYABLE = 64 << 10  # a larger body is not kept for a second sending
_WAITING = 64 << 10  # body bytes that may wait for a connection before the client is held
_STREAM_ENDS = (b"data: [DONE]\n\n", b"data: [DONE]\r\n\r\n", b"data:[DONE]\n\n")
# Members of an enumeration cost a lookup each time they are named.
_NONE, _LENGTH, _CHUNKED, _CLOSE = Framing
_COMPLETE = Ended.COMPLETE
_CLIENT_CLOSED = 499  # nginx's code for "client closed request"


class Relay:
    """Made by the client side for an accepted head; ``start`` once the bytes that came with it are in."""

    __slots__ = (
        "_asked", "_began", "_blocked", "_capture", "_client", "_close", "_framing", "_head", "_injection", "_known", "_last", "_over", "_primary",
        "_replay", "_service", "_snapshot", "_status", "_stream", "_waiting", "_waiting_size", "began_reply", "body_ended", "method",
        "request_sent", "websocket",
    )  # fmt: skip

    def __init__(
        self, service: Service, snapshot: Snapshot, client: ClientSide, known: KnownHead,
        capture: Capture | None, began: float,
    ) -> None:  # fmt: skip
        head = known.head
        self.method = head.method
        self.websocket = head.websocket
        self.request_sent = False
        self.began_reply = False
        self.body_ended = False  # its last byte has been written
        self._service = service
        self._snapshot = snapshot
        self._client = client
        self._head = head
        self._known = known
        self._capture = capture
        self._began = began
        self._primary: PrimarySide | None = None
        self._waiting_size = 0
        self._replay: list[bytes] | None = [] if head.method in _IDEMPOTENT else None
        self._injection: Injection | None = None
        self._blocked = False
        self._status = 0
        self._framing = _NONE
        self._close = False
        self._stream = False
        self._last = b""  # of a stream: the latest piece
        self._over = False
        self._asked = False
        service.open_exchanges += 1
        if snapshot.inject is not None and capture is not None and known.route.generates and enlargeable(head):
            self._injection = Injection(snapshot.inject, known.route.endpoint, snapshot.capture_bytes)
            self._waiting: list[bytes] = []
        else:
            self._waiting = [known.written(snapshot)]
            if self._replay is not None:
                self._replay += self._waiting

    # -- the request, from the client side

    def start(self) -> None:
        """Ask for a connection; while ``inject`` gathers the body there is nothing to send yet."""
        if self._injection is None:
            self._ask()

    def whole(self, body: bytes) -> None:
        """Take a request whose body, empty or not, has come with its head; stands for ``start``, ``body`` and ``body_end``."""
        if self._injection is not None or self._replay is not None:
            if body:
                self.body(body)
            self.body_end()
            return
        if body:
            if self._capture is not None:
                self._capture.request(body)
            self._waiting.append(body)
        self.request_sent = True
        self._ask()

    def body(self, piece: bytes) -> None:
        """Take a piece of the request's body."""
        if self._over:
            return
        if self._capture is not None:
            self._capture.request(piece)
        injection = self._injection
        if injection is None:
            self._send([b"%x\r\n" % len(piece), piece, b"\r\n"] if self._head.chunked else [piece])
        elif not injection.gather(piece) or (self._capture is not None and not self._capture.open):
            self._send_original(injection)
            self._ask()

    def body_end(self) -> None:
        """Note that the request is whole."""
        if self._over:
            return
        injection = self._injection
        enlarged = injection.shape(self._wanted) if injection is not None else None
        if enlarged is not None:
            self._send_enlarged(enlarged)
        else:
            if injection is not None:
                self._send_original(injection)
            if self._head.chunked:
                self._send([b"0\r\n\r\n"])
        self.request_sent = True
        self._ask()

    def client_gone(self) -> None:
        """Break off, since the client left: the primary must not work for nobody."""
        if self._over:
            return
        self._drop_primary()
        if self._stream and self._last.endswith(_STREAM_ENDS):
            # It has read the end of the events and did not wait for that of the framing, as OpenAI's own client does.
            self._finish(Ended.COMPLETE, code=self._status)
            return
        self._service.counters.add(Slot.CLIENT_DISCONNECTS)
        self._finish(Ended.CLIENT_GONE, code=_CLIENT_CLOSED)

    def client_blocked(self) -> None:
        """Hold the reply: the client does not keep up."""
        self._blocked = True
        if self._primary is not None:
            self._primary.pause_reading()

    def client_free(self) -> None:
        """Let the reply go on."""
        self._blocked = False
        if self._primary is not None:
            self._primary.resume_reading()

    def abandon(self, refusal: Refusal, ended: Ended) -> None:
        """Break off by our own decision: answer with the refusal if no reply has begun, else cut."""
        if not self._over:
            self._drop_primary()
            self._fail(refusal, ended)

    # -- from the pool and the primary side

    def attached(self, primary: PrimarySide) -> None:
        """Use the connection: what waited goes out in one write."""
        self._primary = primary
        if self._blocked:
            primary.pause_reading()
        if not self.request_sent:
            self._client.release()
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        primary.send(waiting)

    def unreachable(self) -> None:
        """Answer for a primary that no connection could be made to."""
        if not self._over:
            self._service.counters.add(Slot.PRIMARY_UNREACHABLE)
            self._fail(refusals.PRIMARY_UNREACHABLE, Ended.NO_REPLY)

    def upload_blocked(self) -> None:
        """Hold the client: the primary does not keep up with the request."""
        if not self.request_sent:
            self._client.hold()

    def upload_free(self) -> None:
        """Let the client go on."""
        if not self._over:
            self._client.touch()
            self._client.release()

    def reply(
        self, heads: list[ReplyHead], pieces: list[bytes], clock: float, as_came: bytes | None = None, *, over: bool = False,
    ) -> None:  # fmt: skip
        """Pass on what one read brought, in order and in one write.

        ``as_came`` are its very bytes when they would be written anew just so, ``over`` says that they end the reply.
        """
        client = self._client
        client.touch()
        out: list[bytes] = []
        for head in heads:
            if head.interim:
                if self._head.minor and self._injection is None:
                    out.append(reply_head.write(head, 1, close=False))
            elif self._injection is not None and self._injection.refused(head.status):
                self._ask_again(self._injection)
                return
            else:
                self._take_head(head, out, clock)
        if pieces:
            # What one read brought arrived at one time: it is one piece.
            self._last = piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if self._capture is not None:
                self._capture.reply(piece, clock)
        injection = self._injection
        if injection is not None:
            if pieces:
                self._emit(*injection.piece(piece), out)
        elif as_came is not None and (self._framing is _CHUNKED or (heads and self._head.minor and not self._close)):
            out = [as_came]  # the head is in it, too
            self.body_ended = over
        elif pieces and self._framing is _CHUNKED:
            add_chunk(piece, out)
        elif pieces:
            out.append(piece)
        if over and not self.body_ended:
            self._end_body(out)
        if out:
            client.write(out)

    def reply_over(self, clock: float) -> None:
        """End a whole reply."""
        if not self.body_ended:
            out: list[bytes] = []
            self._end_body(out)
            if out:
                self._client.write(out)
        close = self._close
        self._finish(_COMPLETE, code=self._status, clock=clock)
        self._client.exchange_over(close=close)

    def switched(self, primary: PrimarySide, beyond: bytes) -> None:
        """Leave the rest to a tunnel: the primary has agreed to speak websocket, its 101 is written, ``beyond`` came behind it."""
        self._primary = None
        over = partial(self._finish, Ended.COMPLETE, code=101)
        tunnel.join(self._service, self._snapshot.idle, self._client, primary, beyond, over)

    def primary_lost(self, primary: PrimarySide) -> None:
        """Deal with a connection that ended before the reply did."""
        stale = primary.reused and primary.silent and self.request_sent and not self.began_reply
        if stale and self._replay is not None:
            self._primary = None
            self._waiting, self._replay = self._replay, None
            self._service.pool.serve_anew(self)
            return
        self._fail(refusals.PRIMARY_CUT, Ended.PRIMARY_CUT if self._status else Ended.NO_REPLY)

    def primary_faulty(self) -> None:
        """Deal with a reply that is not HTTP that can be passed on."""
        self._fail(refusals.PRIMARY_PROTOCOL, Ended.PRIMARY_CUT if self._status else Ended.NO_REPLY)

    # -- inside

    def _end_body(self, out: list[bytes]) -> None:
        self.body_ended = True
        if self._injection is not None:
            self._emit(*self._injection.end(), out)
        if self._framing is _CHUNKED:
            out.append(b"0\r\n\r\n")

    def _wanted(self, body: Json) -> bool:
        capture, snapshot = self._capture, self._snapshot
        return capture is not None and capture.wants(snapshot.sampling, snapshot.salt, self._head.path, body)

    def _ask(self) -> None:
        if not self._asked and not self._over:
            self._asked = True
            self._service.counters.overhead(monotonic() - self._began)
            self._service.pool.serve(self)

    def _ask_again(self, injection: Injection) -> None:
        self._service.counters.add(Slot.INJECT_REFUSED)
        self._drop_primary()
        if self._capture is not None:
            self._capture.restart()
        self._send_original(injection)
        if self._head.chunked:
            self._queue(b"0\r\n\r\n")
        self._service.pool.serve(self)

    def _send_enlarged(self, body: bytes) -> None:
        if self._capture is not None:
            self._capture.injected = True
        self._service.counters.add(Slot.INJECTED)
        head = request_head.with_body(self._head, len(body), {b"accept-encoding": b"identity"})
        self._queue(request_head.write(head, self._snapshot.origin, keep_host=self._snapshot.keep_host))
        self._queue(body)

    def _send_original(self, injection: Injection) -> None:
        """Queue the client's own head and what of its body was gathered; nothing is injected any more."""
        self._injection = None
        self._queue(self._known.written(self._snapshot))
        body = injection.gathered
        if body:
            self._send([b"%x\r\n" % len(body), body, b"\r\n"] if self._head.chunked else [body])

    def _queue(self, piece: bytes) -> None:
        self._waiting.append(piece)
        self._waiting_size += len(piece)
        if self._replay is not None:
            self._replay.append(piece)

    def _send(self, pieces: list[bytes]) -> None:
        if self._primary is not None:
            self._primary.send(pieces)
            if self._replay is not None:
                self._replay += pieces
        else:
            for piece in pieces:
                self._queue(piece)
            if self._waiting_size > _WAITING:
                self._client.hold()
        if self._replay is not None and sum(map(len, self._replay)) > _REPLAYABLE:
            self._replay = None

    def _take_head(self, head: ReplyHead, out: list[bytes], clock: float) -> None:
        self._status = head.status
        if self._capture is not None:
            self._capture.reply_head(head.status, head.lines, clock)
        if head.stream:
            self._stream = True
            self._service.counters.add(Slot.OPEN_STREAMS)
        now = head if self._injection is None else self._injection.head(head)
        if now is not None:
            self._write_head(now, out)

    def _write_head(self, head: ReplyHead, out: list[bytes]) -> None:
        minor = self._head.minor
        framing = head.framing
        self._framing = framing if framing is _LENGTH else reply_head.towards_client(framing, minor)
        # An early reply leaves request bytes unread on the connection: nobody could tell where the next request starts.
        self._close = (
            not self._head.keep_alive or self._framing is _CLOSE or not self.request_sent or self._service.draining
        )
        out.append(reply_head.write(head, minor, close=self._close))
        self.began_reply = True

    def _emit(self, head: ReplyHead | None, data: bytes, out: list[bytes]) -> None:
        if head is not None:
            self._write_head(head, out)
        if data and self._framing is _CHUNKED:
            add_chunk(data, out)
        elif data:
            out.append(data)

    def _fail(self, refusal: Refusal, ended: Ended) -> None:
        if self._injection is not None and self._status:
            out: list[bytes] = []
            self._emit(*(self._injection.end() if self.began_reply else self._injection.give_up()), out)
            if out:
                self._client.write(out)
        complete = self.request_sent
        begun, framing = self.began_reply, self._framing
        self._finish(ended, code=self._status if begun else refusal.status)
        if begun:
            self._client.cut(reset=framing is Framing.CLOSE)
        elif complete and refusal.status >= 500 and self._head.keep_alive and not self._service.draining:
            self._client.write([refusal.keeping])
            self._client.exchange_over(close=False)
        else:
            self._client.refuse(refusal)

    def _drop_primary(self) -> None:
        primary, self._primary = self._primary, None
        if primary is not None:
            primary.abort()
        else:
            self._service.cancel(self)

    def _finish(self, ended: Ended, *, code: int, clock: float | None = None) -> None:
        self._over = True
        self._primary = None
        service = self._service
        service.open_exchanges -= 1
        clock = monotonic() if clock is None else clock
        if self._stream:
            service.counters.add(Slot.OPEN_STREAMS, -1)
        if self._capture is not None:
            self._capture.close(ended, clock, request_whole=self.request_sent)
        service.counters.finished(self._known.route.index, code, clock - self._began)
