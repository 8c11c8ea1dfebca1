"""From what came of an exchange to what is counted and recorded: one settlement for each shadow and mode, never none, never two.

House rules. Pure but for the record ids, which come from the exchange, shadow and mode, so that the same work done twice after a crash
settles once. Privacy is applied here, before a record leaves the judge's memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import orjson
from msgspec import Struct
from msgspec.structs import replace

from proxy.compare.comparison import Comparison, Mode
from proxy.compare.token_stream import Reply
from proxy.exchange import Exchange
from proxy.judge.request import Asked, header
from proxy.judge.shown import Seen
from proxy.ledger import privacy
from proxy.ledger.record import Record, RequestFacts, Settlement, Timing
from proxy.traffic.sample import conversation_key

#: Reasons that are findings too: what was found before anything could be compared.
_SAYS = {"shadow_error": ("transport_errors",), "prompt_tokens": ("prompt_tokens",)}

#: What a body may say without changing what the model reads or picks, but for how far it goes on. What is not known stays in: then a repeat is missed, none is invented.
_BESIDE = frozenset({
    "stream", "stream_options", "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "cache_salt", "request_id", "priority", "seed", "n",
    "max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict", "logprobs", "top_logprobs", "return_token_ids", "return_tokens_as_token_ids",
})  # fmt: skip


class Outcome(Struct, frozen=True):
    """What came of one shadow in one mode: a comparison, or the reason why there is none.

    ``incomparable`` and ``shed`` are exclusive; both None means ``comparison`` says it all. ``seen``: what it was made of, for ``Finish``.
    """

    shadow: str
    role: str
    mode: Mode
    comparison: Comparison | None = None
    incomparable: str | None = None
    shed: str | None = None
    shadow_reply: Reply | None = None
    timing: Timing = Timing()
    footprint: str = ""
    seen: Seen | None = None


class Policy(Struct, frozen=True):
    """How much of the content may be kept, and the key of its hashes."""

    content: str
    salt: bytes


class Context(Struct, frozen=True):
    """What a record needs beyond the exchange: who the primary is, how its temperature was read, what may be kept."""

    policy: Policy
    primary_footprint: str = ""
    temperature: float | None = None
    primary_timing: Timing = Timing()


def record_id(exchange: str, shadow: str, mode: str) -> str:
    """Stable: the same exchange, shadow and mode always give the same record."""
    return hashlib.blake2b(f"{exchange}\0{shadow}\0{mode}".encode(), digest_size=12).hexdigest()


class Shared(Struct, frozen=True):
    """What all records of one exchange have in common. ``request``: its body as text, "" where the policy keeps nothing of it."""

    facts: RequestFacts
    conversation: str
    prompt: str
    request: str


def shared(exchange: Exchange, asked: Asked, context: Context) -> Shared:
    """Find it: once for an exchange, since a long prompt is hashed for it."""
    policy = context.policy
    return Shared(
        asked.facts(context.temperature),
        conversation(exchange, asked, policy.salt),
        prompt(asked, policy.salt),
        orjson.dumps(asked.body).decode() if privacy.keeps_content(policy.content) else "",
    )


def settlements(
    exchange: Exchange, asked: Asked | None, primary: Reply | None, outcomes: Sequence[Outcome], context: Context
) -> list[Settlement]:
    """Count outcomes, each with its record where something was compared or tried."""
    recorded = asked is not None and any(one.shed is None for one in outcomes)
    same = shared(exchange, asked, context) if asked is not None and recorded else None
    return [settlement(exchange, asked, primary, one, context, same) for one in outcomes]


def settlement(
    exchange: Exchange,
    asked: Asked | None,
    primary: Reply | None,
    outcome: Outcome,
    context: Context,
    same: Shared | None = None,
) -> Settlement:
    """Count one outcome, with its record where something was compared or tried. ``same``: what its other outcomes' records say, too, where that is known already."""
    mode = outcome.mode.value
    if outcome.shed is not None:
        return Settlement(exchange.incarnation, outcome.shadow, mode, "shed", outcome.shed)
    reason = outcome.incomparable
    comparison = outcome.comparison or Comparison(
        mode=outcome.mode, incomparable=reason, findings=_SAYS.get(reason or "", ())
    )
    record = None
    if asked is not None:
        same = same or shared(exchange, asked, context)
        record = _record(exchange, asked, primary, outcome, comparison, context, same)
    how = "compared" if comparison.incomparable is None else "incomparable"
    return Settlement(exchange.incarnation, outcome.shadow, mode, how, comparison.incomparable or "", record)


def _record(
    exchange: Exchange,
    asked: Asked,
    primary: Reply | None,
    outcome: Outcome,
    comparison: Comparison,
    context: Context,
    same: Shared,
) -> Record:
    shadow, policy = outcome.shadow_reply, context.policy
    content = None
    if privacy.keeps_content(policy.content):
        content = privacy.content(policy.content, policy.salt, same.request, _texts(primary), _texts(shadow))
    return Record(
        id=record_id(exchange.id, outcome.shadow, outcome.mode.value),
        time=exchange.started,
        exchange=exchange.id,
        model=asked.model,
        endpoint=asked.endpoint.value,
        shadow=outcome.shadow,
        role=outcome.role,
        comparison=privacy.redact(policy.content, comparison),
        request=replace(
            same.facts,
            prompt_tokens=primary.prompt_tokens if primary else None,
            shadow_prompt_tokens=shadow.prompt_tokens if shadow else None,
        ),
        primary_footprint=context.primary_footprint,
        shadow_footprint=outcome.footprint,
        primary_timing=context.primary_timing,
        shadow_timing=outcome.timing,
        in_flight=exchange.in_flight,
        cached_tokens=primary.cached_tokens if primary else None,
        content=content,
        conversation=same.conversation,
        prompt=same.prompt,
    )


def conversation(exchange: Exchange, asked: Asked, salt: bytes) -> str:
    """A keyed hash that all requests of one conversation share: of the configured header where one came, else of the model and how the talk began."""
    key = header(
        exchange.request_headers, b"x-parhelion-key"
    ).encode() or asked.model.encode() + b"\0" + conversation_key(asked.body)
    return hashlib.blake2b(key, digest_size=12, key=_secret(salt, b"conversation")).hexdigest()


@lru_cache(2)
def _secret(salt: bytes, use: bytes) -> bytes:
    return hashlib.blake2b(salt, digest_size=32, person=use).digest()


def prompt(asked: Asked, salt: bytes) -> str:
    """A keyed hash of what is asked of which model: requests that share it would be answered alike by an engine that always does the same."""
    body = {name: value for name, value in asked.body.items() if name not in _BESIDE and value is not None}
    said = orjson.dumps([asked.endpoint.value, body], option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(said, digest_size=12, key=_secret(salt, b"prompt")).hexdigest()


def _texts(reply: Reply | None) -> tuple[str, ...]:
    return tuple(choice.reasoning + choice.text for choice in reply.choices) if reply else ()


def everywhere(shadows: Iterable[tuple[str, str, tuple[Mode, ...]]], *, incomparable: str) -> list[Outcome]:
    """The same reason for every shadow and mode: something about the exchange itself."""
    return [Outcome(name, role, mode, incomparable=incomparable) for name, role, modes in shadows for mode in modes]
