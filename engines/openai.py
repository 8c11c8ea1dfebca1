"""The baseline: OpenAI's chat completions and completions, asked with logprobs and read back.

House rules. Every other dialect is this one with differences; nothing here knows another engine. ``ask`` never mutates and only adds
or widens; ``strip`` takes away exactly what ``inject`` added. Source of the shapes: OpenAI's published API description and
replies recorded from real engines.
"""

from __future__ import annotations

from typing import Any

from engines.body import document
from engines.choices import reply
from engines.dialect import Answer, Defaults, Dialect, Endpoint, Json
from engines.rows import whole
from proxy.compare.token_stream import Reply

#: Most alternatives OpenAI gives: 20 on chat, 5 on completions.
MOST_CHAT = 20
MOST_COMPLETIONS = 5


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs, ``top`` alternatives and, on a stream, the usage event."""
    return with_usage(with_logprobs(endpoint, body, top, most_completions=MOST_COMPLETIONS))


def inject(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs as far as ``strip`` can undo it."""
    return undoable(endpoint, body, top, most_completions=MOST_COMPLETIONS)


def undoable(endpoint: Endpoint, body: Json, top: int, *, most_completions: int | None = None) -> Json:
    """Return a copy that asks for logprobs, unless the client asked itself and for enough to see a rival, or the request is ``untouchable``.

    A list the client wants is not widened: engines give tied tokens in no fixed order, so a longer list cut back need not be the
    shorter one; and the dicts of completions cannot be cut back at all.
    """
    asked = asked_alternatives(endpoint, body)
    if untouchable(endpoint, body) or (asked is not None and (asked >= 2 or endpoint is Endpoint.COMPLETIONS)):
        return dict(body)
    return with_logprobs(endpoint, body, top, most_completions=most_completions)


def untouchable(endpoint: Endpoint, body: Json) -> bool:
    """Tell a request whose reply could not be made again from an enlarged one's.

    What it says of logprobs is refused as it stands (alternatives without logprobs), or spelled so that engines may read it otherwise than we do
    (1 for true); or its prompt is scored as well (``echo``), which takes an engine another way.
    """
    logprobs, top = body.get("logprobs"), body.get("top_logprobs")
    if endpoint is Endpoint.COMPLETIONS:
        return bool(body.get("echo")) or not (logprobs is None or _counts(logprobs))
    return not (logprobs is None or isinstance(logprobs, bool)) or not (top is None or (logprobs and _counts(top)))


def _counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def with_logprobs(endpoint: Endpoint, body: Json, top: int, *, most_completions: int | None = None) -> Json:
    """Return a copy that asks for at least ``top`` alternatives. One becomes two: a single one shows no rival."""
    shaped = dict(body)
    wanted = max(2, top) if top > 0 else 0
    mine = asked_alternatives(endpoint, body) or 0
    match endpoint:
        case Endpoint.CHAT:
            shaped["logprobs"] = True
            shaped["top_logprobs"] = max(mine, wanted)
        case Endpoint.COMPLETIONS:
            shaped["logprobs"] = max(mine, wanted if most_completions is None else min(wanted, most_completions))
        case Endpoint.OTHER:
            pass
    return shaped


def with_usage(body: Json) -> Json:
    """Return a copy that asks for the usage event when it asks for a stream."""
    if body.get("stream") is not True:
        return dict(body)
    options = body.get("stream_options")
    return {**body, "stream_options": {**(options if isinstance(options, dict) else {}), "include_usage": True}}


def asked_alternatives(endpoint: Endpoint, body: Json) -> int | None:
    """Count the alternatives the client asked for itself (0: logprobs without alternatives), None when it wants no logprobs."""
    value = body.get("logprobs")
    if endpoint is Endpoint.COMPLETIONS:
        return int(value) if isinstance(value, bool) and value else whole(value)
    return (whole(body.get("top_logprobs")) or 0) if value is True else None


def read(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer as token streams. Never raises."""
    del endpoint  # the shapes tell themselves apart; llama.cpp answers completions in the chat shape
    value, error = document(answer, columns=True)
    return reply(value, request, error)


def strip(endpoint: Endpoint, client: Json, value: Json) -> Json | None:
    """Take the logprobs the client did not ask for out of a reply or an event."""
    asked = asked_alternatives(endpoint, client)
    for choice in choices_of(value):
        if asked is None:
            if "logprobs" in choice:
                choice["logprobs"] = None
        elif endpoint is Endpoint.CHAT:
            cut_alternatives(choice, asked)
    return value


def choices_of(value: Json) -> list[Json]:
    """Return the choices of a reply or an event, whatever else it is."""
    listed = value.get("choices")
    return [choice for choice in listed if isinstance(choice, dict)] if isinstance(listed, list) else []


def cut_alternatives(choice: Json, most: int) -> None:
    """Shorten every row's list to the first ``most``, in the engine's own order."""
    logprobs = choice.get("logprobs")
    rows: Any = logprobs.get("content") if isinstance(logprobs, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("top_logprobs"), list):
            row["top_logprobs"] = row["top_logprobs"][:most]


DIALECT = Dialect(
    name="openai",
    max_top_logprobs=MOST_CHAT,
    greedy_at=0.0,
    defaults=Defaults(temperature=1.0, top_p=1.0, max_tokens_completions=16),
    logprob_mode="unknown",
    ask=ask,
    read=read,
    strip=strip,
    inject=inject,
    notes=("no token ids: compared by text; no scoring of given tokens",),
)
