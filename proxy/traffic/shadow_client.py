"""A raw HTTP/1.1 client for the judge: sends mirrored calls, reads the answers to their end with arrival times.

House rules. A shadow may refuse, hang, trickle, cut, flood or talk nonsense: a call then ends in an ``Answer`` that says so in ``failure``, in bounded
time and memory, and never raises for it. The destination and the credential come from the configuration alone; no redirect is followed, no
cookie kept, no environment read. Content codings are left as they are (``content_coding`` undoes them). No task, future or timer is made for a call
on a kept connection: everything open is looked at ten times a second, so a deadline may be late by that much. Time in which this process itself was
not served is no fault of the shadow's and does not count: a look that is late moves the deadlines by as much, at most to twice as far.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Callable
from time import monotonic

import orjson

from engines.dialect import Answer, Call
from proxy.traffic.connecting import connected
from proxy.traffic.origin import read_origin, tls_context
from proxy.traffic.shadow_line import Asked, Line

_LOOK = 0.1  # seconds between two looks at what may have waited too long
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_HEADS = 64  # routes whose heads are kept ready; a path comes from clients, so there may be any number
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # a tab may stand in a value (RFC 9110 section 5.5)


class Client:
    """One engine at ``base_url``. At most ``connections`` calls are open at once, more wait within their own deadline.

    ``connect_timeout`` in seconds; ``max_bytes`` bounds a reply's body (with 96 bytes of bookkeeping for each piece). Raises ValueError
    for a URL that cannot be used.
    """

    def __init__(
        self, base_url: str, *, api_key: str | None, connections: int, connect_timeout: float, max_bytes: int
    ) -> None:
        self._origin = read_origin(base_url)
        self._tls = tls_context(self._origin)
        self._api_key = api_key
        self._connect_timeout = connect_timeout
        self._max_bytes = max_bytes
        self._room = connections
        self._waiting: deque[Asked] = deque()
        self._open: set[Asked] = set()
        self._idle: list[Line] = []
        self._lines: set[Line] = set()
        self._connecting: dict[Asked, asyncio.Task[None]] = {}
        self._looking: asyncio.TimerHandle | None = None
        self._look_at = 0.0
        self._heads: dict[tuple[str, str], str] = {}

    def ask(
        self,
        call: Call,
        then: Callable[[Answer], None],
        *,
        headers: tuple[tuple[str, str], ...] = (),
        deadline: float,
        raw_body: bytes | None = None,
    ) -> Asked:
        """Begin one call; ``then`` is told its answer, once and never before this returns, unless ``drop`` is called with what is returned.

        ``deadline`` in seconds covers all of it, but not the time in which we were held up ourselves (up to as much again). ``raw_body`` is sent in
        place of the call's JSON body. ``Answer.failure`` is None, or refused, dns, tls, connect_timeout, reset (no reply head came), cut, timeout,
        too_large or protocol; what came before a failure is in the answer. Raises ValueError for a control character in a header, path or key: that
        is our own mistake.
        """
        body = raw_body if raw_body is not None else (b"" if call.body is None else orjson.dumps(call.body))
        head = self._head(call, headers, len(body))
        asked = Asked(head, body, call.method, self._max_bytes, deadline, then)
        self._open.add(asked)
        if self._looking is None:
            self._look_again()
        if self._room > 0:
            self._room -= 1
            self._serve(asked)
        else:
            self._waiting.append(asked)
        return asked

    async def send(
        self, call: Call, *, headers: tuple[tuple[str, str], ...] = (), deadline: float, raw_body: bytes | None = None
    ) -> Answer:
        """Make one call and wait for its answer; see ``ask``. Cancelled, it breaks the call off."""
        over: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def then(answer: Answer) -> None:
            if not over.done():
                over.set_result(answer)

        asked = self.ask(call, then, headers=headers, deadline=deadline, raw_body=raw_body)
        try:
            return await over
        finally:
            self.drop(asked)

    def drop(self, asked: Asked) -> None:
        """Break a call off, nobody wants its answer. One that is over is left alone."""
        if asked in self._open:
            asked.then = _nobody
            self._break_off(asked)

    def hang_up(self) -> None:
        """Break every open call off: it ends as reset or cut."""
        for asked in list(self._open):
            asked.fail("reset")
            self._break_off(asked)

    async def aclose(self) -> None:
        """Break everything off and wait until it is gone."""
        self.hang_up()
        tasks = list(self._connecting.values())
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        for line in list(self._lines):
            line.abort()
        await asyncio.gather(*(line.closed.wait() for line in list(self._lines)))

    def _head(self, call: Call, headers: tuple[tuple[str, str], ...], size: int) -> bytes:
        start = self._heads.get((call.method, call.path)) or self._start(call.method, call.path)
        typed = ""
        for name, value in headers:
            start += _sound(f"{name}: {value}") + "\r\n"
            if name.lower() == "content-type":
                typed = name
        if size or call.method in _WITH_BODY:
            typed = "" if typed else "Content-Type: application/json\r\n"
            return f"{start}{typed}Content-Length: {size}\r\n\r\n".encode("latin-1")
        return (start + "\r\n").encode("latin-1")

    def _start(self, method: str, path: str) -> str:
        """What the heads of one route begin with."""
        lines = [
            f"{method} {self._origin.prefix.decode()}{path} HTTP/1.1",
            f"Host: {self._origin.host.decode()}",
            "User-Agent: parhelion",
        ]
        if self._api_key is not None:
            lines.append(f"Authorization: Bearer {self._api_key}")
        start = "".join(_sound(line) + "\r\n" for line in lines)
        if len(self._heads) < _HEADS:
            self._heads[method, path] = start
        return start

    def _serve(self, asked: Asked) -> None:
        """Put a call that has its place on a kept connection, or on a new one."""
        asked.placed = True
        now = monotonic()
        while self._idle:
            line = self._idle.pop()
            if line.usable(now):
                line.ask(asked)
                return
            line.abort()
        self._connect(asked)

    def _connect(self, asked: Asked) -> None:
        self._connecting[asked] = asyncio.get_running_loop().create_task(self._connected(asked))

    async def _connected(self, asked: Asked) -> None:
        loop, line, failure = asyncio.get_running_loop(), Line(self), None
        try:
            async with asyncio.timeout(self._connect_timeout):
                await connected(line, loop.create_connection(
                    lambda: line, self._origin.address, self._origin.port,
                    ssl=self._tls, server_hostname=self._origin.address if self._tls else None,
                ))  # fmt: skip
        except TimeoutError:
            failure = "connect_timeout"
        except (socket.gaierror, UnicodeError):
            failure = "dns"
        except ssl.SSLError:
            failure = "tls"
        except OSError:
            # A TLS peer that hangs up in the handshake is a TLS failure too, but a refusal cannot be told from it here.
            failure = "refused"
        finally:
            self._connecting.pop(asked, None)
        if failure is not None:
            asked.fail(failure)
            self.over(asked)
        elif asked in self._open:
            line.ask(asked)
        else:
            line.abort()

    def _look(self) -> None:
        """Break off what has passed its deadline."""
        self._looking = None
        now = monotonic()
        late = now - self._look_at
        if late < _LOOK:
            late = 0.0  # as a rule it is, by a little
        else:
            for asked in self._open:
                asked.extend(late)
        for asked in [asked for asked in self._open if asked.deadline < now or asked.stuck(now, late)]:
            asked.fail("timeout")
            self._break_off(asked)
        if self._open and self._looking is None:
            self._look_again()

    def _look_again(self) -> None:
        self._look_at = monotonic() + _LOOK
        self._looking = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def _break_off(self, asked: Asked) -> None:
        line, task = asked.line, self._connecting.get(asked)
        if line is not None:
            line.leave()
        if task is not None:
            task.cancel()
        self.over(asked)

    # -- told by the lines

    def over(self, asked: Asked) -> None:
        """A call has its end: tell who asked, and let the next one have its place."""
        if asked not in self._open:
            return
        self._open.discard(asked)
        asked.line = None
        if not asked.placed:
            self._waiting.remove(asked)
        elif self._waiting:
            self._serve(self._waiting.popleft())
        else:
            self._room += 1
        asked.then(asked.answer())

    def stale(self, asked: Asked) -> None:
        """The peer closed a kept connection while it was idle: nothing was read, the call is made once more."""
        asked.line = None
        asked.restart()
        self._connect(asked)

    def opened(self, line: Line) -> None:
        """Note a connection."""
        self._lines.add(line)

    def lost(self, line: Line) -> None:
        """Forget a connection."""
        self._lines.discard(line)
        if line in self._idle:
            self._idle.remove(line)

    def give_back(self, line: Line) -> None:
        """Keep a connection for the next call."""
        self._idle.append(line)


def _sound(line: str) -> str:
    if not line.isprintable() and _CONTROL.search(line):
        raise ValueError("a header, path or key of a mirrored call holds a line break or another control character")
    return line


def _nobody(_: Answer) -> None:
    """Hear the answer that nobody wants."""
