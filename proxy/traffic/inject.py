"""Logprobs asked for on our account (``primary.logprobs: inject``): the request is enlarged, the reply is stripped again.

House rules. The one declared exception to byte identity, and it can never break a client: what cannot be enlarged goes out as it came,
what cannot be stripped (another content type, a coding, a body over the limit, an event that is no JSON) is passed on as it came (but
for an event that the end of its stream cuts short, see ``end``), and a refusal of the enlarged request is answered by sending the client's own (``refused``). No socket here: bytes in, bytes out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

import orjson

from engines.dialect import Dialect, DialectError, Endpoint, Json
from proxy.compare.sse import Event, SseReader, SseTooLarge
from proxy.traffic import exact_json, reply_head
from proxy.traffic.reply_head import Framing, ReplyHead
from proxy.traffic.request_head import RequestHead

TOP = 20  # the most alternatives vLLM, SGLang and OpenAI give by default

_JSON = b"application/json"
#: A data line: the colon with the blank that is no part of the value, the value, and the blanks that an SSE reader cuts.
_DATA = re.compile(rb"data(?:(: ?)([^\r\n]*?)([ \t]*))?(?=[\r\n]|\Z)")
_BOM = b"\xef\xbb\xbf"
#: The keys under which an enlarged request brings back more than the client's would (see the dialects' ``strip``), however they go on.
_OURS = (b"logprob", b"token", b"prompt_token", b"response_token", b"output_", b"__verbose")


class _Mode(Enum):
    AS_IT_IS = 1
    WHOLE = 2
    STREAM = 3


def enlargeable(head: RequestHead) -> bool:
    """Tell whether a body can be enlarged: a client that waits for 100-continue sends none, an encoded one is not ours to read."""
    return not head.expects_continue and all(lower != b"content-encoding" for lower, _, _ in head.fields)


class Injection:
    """One exchange: ``gather`` the request's body, ``shape`` it, then ``head``, ``piece`` and ``end`` for the reply."""

    def __init__(self, dialect: Dialect, endpoint: str, limit: int) -> None:
        self._dialect = dialect
        self._endpoint = Endpoint(endpoint)
        self._limit = limit
        self._request: list[bytes] = []
        self._size = 0
        self._client_body: Json = {}
        self._mode = _Mode.AS_IT_IS
        self._held_head: ReplyHead | None = None
        self._held: list[bytes] = []
        self._held_size = 0
        self._reader = SseReader(limit)
        self._pending = bytearray()
        self._first = True  # no event of a stream has come yet

    # -- the request

    def gather(self, piece: bytes) -> bool:
        """Keep a piece; false when the body is over the limit (the piece is kept all the same: take everything with ``gathered``)."""
        self._request.append(piece)
        self._size += len(piece)
        return self._size <= self._limit

    @property
    def gathered(self) -> bytes:
        """The client's body as far as it has come."""
        return b"".join(self._request)

    def shape(self, wanted: Callable[[Json], bool]) -> bytes | None:
        """Return the enlarged body; None when it must go as it came: not a JSON object, not ``wanted``, not for this dialect."""
        try:
            gathered = self.gathered
            body = exact_json.read(gathered, strict=True)
            add, most = self._dialect.inject, self._dialect.max_top_logprobs
            if add is None or not isinstance(body, dict) or not wanted(body):
                return None
            enlarged = exact_json.rewrite(
                gathered, body, add(self._endpoint, body, TOP if most is None else min(TOP, most))
            )
            self._client_body = body
            return None if enlarged is gathered else enlarged
        except (exact_json.Unreadable, DialectError, orjson.JSONEncodeError):  # the last: nested too deeply for a key
            return None

    # -- the reply

    @staticmethod
    def refused(status: int) -> bool:
        """Tell whether a status may be the enlargement's fault, so that the client's own request is to be sent.

        Credentials, rate limits and an overloaded or absent engine are not.
        """
        return (400 <= status < 500 and status not in (401, 403, 429)) or status in (500, 501)

    def head(self, head: ReplyHead) -> ReplyHead | None:
        """Return the head to send now; None while the body must be whole first."""
        coding = head.value(b"content-encoding")
        kind = (head.value(b"content-type") or b"").partition(b";")[0].strip().lower()
        if head.status != 200 or (coding is not None and coding.strip().lower() != b"identity"):
            return head
        if head.stream:
            self._mode = _Mode.STREAM
            return reply_head.as_chunked(head) if head.framing is Framing.LENGTH else head
        if kind == _JSON:
            self._mode = _Mode.WHOLE
            self._held_head = head
            return None
        return head

    def piece(self, piece: bytes) -> tuple[ReplyHead | None, bytes]:
        """Return what to send for a piece that came: a head that was held back, and bytes (either may be nothing)."""
        match self._mode:
            case _Mode.AS_IT_IS:
                return None, piece
            case _Mode.STREAM:
                return None, self._stream(piece)
            case _Mode.WHOLE:
                self._held.append(piece)
                self._held_size += len(piece)
                if self._held_size <= self._limit:
                    return None, b""
                return self.give_up()

    def give_up(self) -> tuple[ReplyHead | None, bytes]:
        """Everything held back, as it came; the rest will follow as it comes."""
        self._mode = _Mode.AS_IT_IS
        head, self._held_head = self._held_head, None
        held, self._held = b"".join(self._held) + self._pending, []
        self._pending.clear()
        return head, held

    def end(self) -> tuple[ReplyHead | None, bytes]:
        """Return what to send at the end of the reply, and where a stream whose head is out breaks off.

        An event that the end leaves incomplete is withheld when it is no whole JSON and names anything that may be ours: nothing could be
        taken out of it, and by the standard a client drops it anyway.
        """
        match self._mode:
            case _Mode.AS_IT_IS:
                return None, b""
            case _Mode.STREAM:
                try:
                    events = self._reader.finish()
                except SseTooLarge:
                    return self.give_up()
                return None, b"".join(self._last(event) for event in events)
            case _Mode.WHOLE:
                assert self._held_head is not None
                data = b"".join(self._held)
                body = self._strip(data)
                head = self._held_head if body is data else reply_head.with_length(self._held_head, len(body))
                return head, body

    def _stream(self, piece: bytes) -> bytes:
        self._pending += piece
        try:
            events = self._reader.feed(piece)
        except SseTooLarge:
            return self.give_up()[1]
        del self._pending[: sum(len(event.raw) for event in events)]
        return b"".join(self._strip_event(event) for event in events)

    def _last(self, event: Event) -> bytes:
        shown = self._strip_event(event)
        return b"" if not event.whole and _holds_ours(event.data) else shown

    def _strip_event(self, event: Event) -> bytes:
        """Put what is left of the data in place of it, line by line; all other fields, line ends, blanks and a mark of byte order stay."""
        mark = _BOM if self._first and event.raw.startswith(_BOM) else b""
        self._first = False
        if not event.dispatched:
            return event.raw
        stripped = self._strip(event.data)
        if stripped is event.data:
            return event.raw
        if not stripped:
            return mark
        left = stripped.split(b"\n")
        lines: list[bytes] = []
        for line in event.raw[len(mark) :].splitlines(keepends=True):
            if not (found := _DATA.match(line)):
                lines.append(line)
            elif left:
                value = left.pop(0)
                lines.append(b"data%b%b" % (found[1] or b": " * bool(value), value) + line[found.end(2) :])
        return mark + b"".join(lines)

    def _strip(self, data: bytes) -> bytes:
        """Take out what ``inject`` added: the same object when nothing changes or it is not ours to read, empty when it is to be dropped."""
        try:
            before = exact_json.read(data)
            if not isinstance(before, dict):
                return data
            after = self._dialect.strip(self._endpoint, self._client_body, exact_json.read(data))
            return b"" if after is None else exact_json.rewrite(data, before, after)
        except (exact_json.Unreadable, DialectError):
            return data


def _holds_ours(data: bytes) -> bool:
    """Whether an object that is cut short may hold, or just begin, one of our keys."""
    if not data.lstrip().startswith(b"{"):
        return False
    try:
        exact_json.read(data)
    except exact_json.Unreadable:
        begun = data.rpartition(b'"')[2]
        return any(name in data or (begun and name.startswith(begun)) for name in _OURS)
    return False
