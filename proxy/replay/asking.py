"""The primary's reply to a line: asked for now, or as the file has it. Either way an exchange, as the live path would have captured it.

House rules. Destination and credential come from the configuration. A fault of the primary is an exchange that says so (``ended``, ``status``), never an exception. Since no client waits here, the primary is
asked for logprobs and token ids too, as ``primary.logprobs: inject`` does on the live path, and without them where it refuses.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import orjson

from engines.dialect import Answer, Call, DialectError, Endpoint, Json
from proxy.config import Config
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.request import Unreadable, endpoint_of, read_body
from proxy.replay.line import Line
from proxy.traffic.inject import TOP, Injection
from proxy.traffic.shadow_client import Client

#: The name under which a replay's settlements are counted in its store.
INCARNATION = "replay"
_INFLATED = 8
#: What an engine keeps or hands on for the client that asked: a replay is nobody's request.
_NOT_OURS = ("store", "user", "metadata", "safety_identifier")
_STREAM, _JSON = b"text/event-stream", b"application/json"
#: Statuses that another try may change.
_LATER = frozenset({429, 502, 503, 504})

Ask = Callable[[Line, str, int], Awaitable[Exchange]]


class LivePrimary:
    """The configured primary. ``ask`` is given a line, the exchange's id, and how many are under way."""

    def __init__(self, config: Config, arm: Arm, *, connections: int, deadline: float) -> None:
        self._arm, self._deadline = arm, deadline
        self._cap = config.limits.capture_bytes
        self._plain: set[Endpoint] = set()  # that have refused to be asked for more
        self._client = Client(
            config.primary.url,
            api_key=config.primary.api_key,
            connections=connections,
            connect_timeout=config.timeouts.connect,
            max_bytes=self._cap,
        )

    async def ask(self, line: Line, id_: str, in_flight: int) -> Exchange:
        """Ask once; what comes of it."""
        nothing = _exchange(line, id_, Answer(0), started=time.time(), in_flight=in_flight)
        try:
            body = read_body(nothing, self._cap * _INFLATED)
        except Unreadable:  # the judge says why
            body = orjson.loads(line.body)
        own = {name: value for name, value in body.items() if name not in _NOT_OURS}
        endpoint = endpoint_of(line.path)
        enlarged = self._enlarged(endpoint, own)
        answer = await self._send(line.path, enlarged or own, id_)
        if enlarged is not None and Injection.refused(answer.status):
            answer = await self._send(line.path, own, id_)
            if answer.status < 300 and answer.failure is None:
                self._plain.add(endpoint)
            enlarged = None
        return _exchange(line, id_, answer, started=nothing.started, in_flight=in_flight, injected=enlarged is not None)

    def _enlarged(self, endpoint: Endpoint, body: Json) -> Json | None:
        dialect = self._arm.dialect
        if dialect is None or dialect.inject is None or not endpoint.by_token or endpoint in self._plain:
            return None
        if self._arm.alternatives == 0:  # it gives text only
            return None
        try:
            enlarged = dialect.inject(endpoint, body, self._arm.most(TOP))
        except DialectError:
            return None
        return None if enlarged == body else enlarged

    async def _send(self, path: str, body: Json, id_: str) -> Answer:
        return await self._client.send(Call(path, body), headers=(("x-request-id", id_),), deadline=self._deadline)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()


async def recorded(line: Line, id_: str, in_flight: int) -> Exchange:
    """Take the reply that the file has; a file's reply has no times."""
    assert line.reply is not None, "lines without a reply are not planned"
    kind = _STREAM if line.reply.stream else _JSON
    answer = Answer(line.reply.status, (("content-type", kind.decode()),), ((0, line.reply.body),))
    return _exchange(
        Line(line.number, line.path, _as_recorded(line), conversation=line.conversation),
        id_,
        answer,
        started=time.time(),
        in_flight=in_flight,
    )


def _as_recorded(line: Line) -> bytes:
    """The request with ``stream`` as its reply has it: who collects replies often asks for another form than clients do."""
    body = orjson.loads(line.body)
    stream = line.reply is not None and line.reply.stream
    if (body.get("stream") is True) == stream:
        return line.body
    if not stream:
        body.pop("stream_options", None)
    return orjson.dumps(body | {"stream": stream})


def unanswered(exchange: Exchange) -> bool:
    """Whether asking again may give a reply."""
    return exchange.ended in (Ended.NO_REPLY, Ended.PRIMARY_CUT) or exchange.status in _LATER


def _exchange(
    line: Line, id_: str, answer: Answer, *, started: float, in_flight: int, injected: bool = False
) -> Exchange:
    key = ((b"x-parhelion-key", line.conversation.encode("utf-8", "replace")),) if line.conversation else ()
    times = [at for at, _ in answer.pieces]
    return Exchange(
        id=id_,
        incarnation=INCARNATION,
        started=started,
        u=None,
        method="POST",
        target=line.path,
        request_headers=((b"content-type", _JSON), *key),
        request_body=line.body,
        status=answer.status,
        response_headers=tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers),
        pieces=answer.pieces,
        head_us=times[0] if times else 0,
        end_us=times[-1] if times else 0,
        ended=_ended(answer),
        injected=injected,
        in_flight=in_flight,
    )


def _ended(answer: Answer) -> Ended:
    match answer.failure:
        case None:
            return Ended.COMPLETE
        case "too_large":
            return Ended.CAPTURE_CUT
        case _:
            return Ended.PRIMARY_CUT if answer.status else Ended.NO_REPLY
