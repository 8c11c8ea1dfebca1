"""Client request heads: which are accepted, and how they are written anew for the primary.

House rules. Pure: fields in, a value or a refusal out; no socket, no parser object, no clock. ``httptools`` (llhttp in its strict mode)
has split the head into fields before this file sees it and already refuses folded lines, bare CR or LF, NUL, blanks before a colon
and the like; the rules here close what it lets through, each under the sentence it enforces. Nothing that was not understood is passed
on: what the primary gets is written from the accepted fields alone.

Decisions. ``Upgrade`` is ignored, as RFC 9110 section 7.8 allows: the request is served over HTTP/1.1 and the offer is not forwarded
(JDK clients offer h2c on every plain request). But for one: a GET that offers ``websocket`` and nothing else is passed on with its offer. ``Expect`` is forwarded and the
primary's ``100 Continue`` passed back. Trailers are dropped. ``x-parhelion`` is addressed to us and not forwarded.
"""

from __future__ import annotations

import re

from msgspec import Struct

from proxy.traffic import plain_head
from proxy.traffic.origin import Origin
from proxy.traffic.plain_head import Field
from proxy.traffic.refusals import (
    BAD_FRAMING,
    BAD_HOST,
    BAD_TARGET,
    BAD_UPGRADE,
    BAD_VERSION,
    HEAD_TOO_LARGE,
    MALFORMED,
    Refusal,
)

MAX_HEAD = 64 << 10  # nginx: 4 x 8 KiB, Envoy: 60 KiB, Node: 16 KiB; long cookies and tokens exist in front of engines
MAX_FIELDS = 200  # Envoy: 100, Apache: 100, haproxy: 101

HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"})  # and everything named Proxy-*
_SPECIAL = HOP_BY_HOP | {b"host", b"content-length", b"transfer-encoding", b"expect", b"x-parhelion"}
#: Named in Connection, these still stay: a client must not be able to strip what frames or routes its request.
UNSTRIPPABLE = frozenset({b"host", b"content-length", b"transfer-encoding"})

#: Starts a parser in the middle of a message whose head was understood but ended llhttp's work (an Upgrade offer that is ignored).
RESUME = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

_TARGET = re.compile(rb"[!\"$-~]*")  # visible ASCII but "#": a fragment has no place on the wire (RFC 9112 section 3.2)
_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]*")  # RFC 3986 host and port; no "@", no path, no blank
_LENGTH = re.compile(rb"[0-9]{1,18}")
_VERSION = re.compile(rb"[^\r\n]* HTTP/([0-9]\.[0-9])(?:\r|\Z)")


class RequestHead(Struct, frozen=True):
    """An accepted head.

    ``lines`` are the end-to-end fields in order, case and duplicates as sent, each after a CRLF; Transfer-Encoding stays among them as a place
    holder when the body is ``chunked``. ``host`` is the one of them to be replaced, empty when there is none. ``length`` is the body's length in
    bytes, None without Content-Length. ``websocket``: an offer to switch is among the lines.
    """

    method: bytes
    target: bytes
    minor: int
    lines: bytes
    host: bytes
    length: int | None
    chunked: bool = False
    keep_alive: bool = True
    expects_continue: bool = False
    skip: bool = False
    websocket: bool = False

    @property
    def fields(self) -> list[Field]:
        """The end-to-end fields."""
        return plain_head.fields(self.lines)

    @property
    def has_body(self) -> bool:
        """True when body bytes follow the head."""
        return self.chunked or bool(self.length)

    @property
    def path(self) -> bytes:
        """The raw path, without the query."""
        return self.target.partition(b"?")[0]


def read(line: bytes, raw_fields: list[tuple[bytes, bytes]]) -> RequestHead | Refusal:
    """Judge a head: its request line without the line end, and the parser's fields. Total: every input gives one of the two."""
    start = _read_line(line)
    if isinstance(start, Refusal):
        return start
    if len(raw_fields) > MAX_FIELDS:
        return HEAD_TOO_LARGE
    method, target, minor = start
    kept: list[Field] = []
    options: set[bytes] = set()
    hosts = 0
    host = b""
    length: int | None = None
    chunked = expects_continue = skip = False
    offers: list[bytes] = []
    for name, value in raw_fields:
        lower = name.lower()
        if lower not in _SPECIAL:
            if lower[:6] != b"proxy-":
                kept.append((lower, name, value))
            continue
        value = value.strip(b" \t")  # noqa: PLW2901 - what surrounds a value is no part of it
        if lower == b"host":
            hosts += 1
            if not _HOST.fullmatch(value):
                return BAD_HOST
            host = plain_head.line(name, value)
        elif lower == b"content-length":
            # RFC 9112 section 6.3: a repeated or invalid length is an unrecoverable error.
            if length is not None or not _LENGTH.fullmatch(value):
                return BAD_FRAMING
            length = int(value)
        elif lower == b"transfer-encoding":
            if chunked or value.lower() != b"chunked":
                return BAD_FRAMING
            chunked, value = True, b"chunked"  # noqa: PLW2901 - as above
        elif lower == b"expect":
            expects_continue = value.lower() == b"100-continue"
        else:
            if lower == b"connection":
                options.update(option.strip(b" \t").lower() for option in value.split(b","))
            elif lower == b"x-parhelion":
                skip = skip or value.lower() == b"skip"
            elif lower == b"upgrade":
                offers.append(value)
            continue
        kept.append((lower, name, value))
    # RFC 9112 section 3.2: 400 to any 1.1 request that lacks Host or has more than one.
    if hosts > 1 or (minor and not hosts):
        return BAD_HOST
    # RFC 9112 section 6.3: Transfer-Encoding beside Content-Length "ought to be handled as an error"; in a 1.0 message it is faulty framing.
    if chunked and (length is not None or not minor):
        return BAD_FRAMING
    strip = options - UNSTRIPPABLE
    if strip:
        kept = [field for field in kept if field[0] not in strip]
    keep_alive = bool(minor) and b"close" not in options
    websocket = bool(minor) and b"upgrade" in options and [offer.lower() for offer in offers] == [b"websocket"]
    if websocket:
        # RFC 6455 section 4.1: a GET; with a body two parties could differ about where the websocket's bytes begin.
        if method != b"GET" or chunked or length:
            return BAD_UPGRADE
        kept += [(b"connection", b"Connection", b"Upgrade"), (b"upgrade", b"Upgrade", offers[0])]
    return RequestHead(
        method,
        target,
        minor,
        plain_head.lines(kept),
        host,
        length,
        chunked,
        keep_alive,
        expects_continue,
        skip,
        websocket,
    )


def blame(block: bytes, raw_fields: list[tuple[bytes, bytes]]) -> Refusal:
    """Choose the refusal for a head that the parser did not take: framing faults have their own code."""
    version = _VERSION.match(block)
    if version is not None and version[1] not in (b"1.1", b"1.0"):
        return BAD_VERSION
    names = {name.lower() for name, _ in raw_fields}
    return BAD_FRAMING if names & {b"content-length", b"transfer-encoding"} else MALFORMED


def read_plain(data: bytes) -> tuple[RequestHead, int] | None:
    """Read the head that ``data`` begins with and say where it ends, when it is whole and in plain spelling; else None."""
    found = plain_head.request(data, MAX_FIELDS, MAX_HEAD)
    if found is None:
        return None
    method, target, lines, host, length, keep, end = found
    return RequestHead(method, target, 1, lines, host, length, keep_alive=keep), end


def _read_line(line: bytes) -> tuple[bytes, bytes, int] | Refusal:
    parts = line.split(b" ")
    if len(parts) == 2 and parts[1][:1] == b"/":
        return BAD_VERSION  # HTTP/0.9
    if len(parts) != 3:
        return MALFORMED
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        return BAD_VERSION if version[:5] == b"HTTP/" else MALFORMED
    # Origin-form only: in absolute-form the client would pick the authority (RFC 9112 section 3.2.2), CONNECT asks for a tunnel.
    asterisk = target == b"*" and method == b"OPTIONS"
    if (target[:1] != b"/" and not asterisk) or method == b"CONNECT" or not _TARGET.fullmatch(target):
        return BAD_TARGET
    return method, target, 1 if version == b"HTTP/1.1" else 0


def write(head: RequestHead, origin: Origin, *, keep_host: bool) -> bytes:
    """Write the head for the primary, always HTTP/1.1, with the origin's base path before the target as it came.

    ``keep_host`` sends the client's Host; otherwise the origin's stands in its place. A request without one (HTTP/1.0) gets the origin's.
    """
    prefix = origin.prefix if head.target != b"*" else b""
    lines = head.lines
    if not head.host:
        lines = b"%b\r\nHost: %b" % (lines, origin.host)
    elif not keep_host:
        lines = lines.replace(head.host, b"%b: %b" % (head.host.partition(b":")[0], origin.host), 1)
    return b"%b %b%b HTTP/1.1%b\r\n\r\n" % (head.method, prefix, head.target, lines)


def with_body(head: RequestHead, length: int, overrides: dict[bytes, bytes]) -> RequestHead:
    """Return the same head for another body of ``length`` bytes; ``overrides`` (lower-cased name to value) replace fields or are added."""
    fields: list[Field] = []
    for lower, name, value in head.fields:
        if lower not in overrides and lower not in (b"content-length", b"transfer-encoding"):
            fields.append((lower, name, value))
    fields += [(name, name, value) for name, value in overrides.items()]
    fields.append((b"content-length", b"content-length", b"%d" % length))
    return RequestHead(
        head.method, head.target, head.minor, plain_head.lines(fields), head.host, length,
        keep_alive=head.keep_alive, skip=head.skip,
    )  # fmt: skip
