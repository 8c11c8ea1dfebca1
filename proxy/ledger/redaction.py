"""What the redaction hook is shown of a record, and what its answers leave of it.

A hook sees the request's bodies (``request``, JSON objects) and each arm's output, as the client read it and as its tokens spell it (``output``, texts). What it returns is kept in their place. A token is
text too, and no token by itself looks like a name or a number worth hiding: so the texts, bytes and alternatives of tokens are kept only where every output came back unchanged. Ids stay, as under
``hash``; but for an output that came back as None even they go, in the record as well: positions, values, gaps and classes are what is left then. House rules. Pure. Whatever is not
known to be unchanged counts as changed; an answer that is missing withholds everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from proxy.compare.comparison import ChoiceComparison, Comparison, Flip, Mode, TokenRef
from proxy.compare.token_stream import Alternative
from proxy.ledger import privacy
from proxy.ledger.detail import Detail, Listed, Sent, Side
from proxy.ledger.record import Content, Record, Settlement

#: Kind and value.
Text = tuple[str, Any]


def texts(one: Settlement) -> list[Text]:
    """Return what the hook is to be asked about a settlement, each thing once; nothing where there is nothing but numbers."""
    if _hashed(one):
        return []
    return [*_requests(one), *(("output", text) for text in _outputs(one))]


def _hashed(one: Settlement) -> bool:
    """Whether the policy was ``hash`` when it was compared: a request is a JSON object, a keyed hash never is."""
    content = one.record.content if one.record is not None else None
    return content is not None and bool(content.request) and not content.request.startswith("{")


def _requests(one: Settlement) -> list[Text]:
    return [("request", orjson.loads(body)) for body in _bodies(one)]


def _bodies(one: Settlement) -> list[str]:
    content = one.record.content if one.record is not None else None
    found = [] if content is None or not content.request else [content.request]
    if one.detail is not None:
        sent = [*one.detail.shadow] if one.detail.primary is None else [one.detail.primary, *one.detail.shadow]
        found += [each.body for each in sent]
    return list(dict.fromkeys(found))


def _outputs(one: Settlement) -> list[str]:
    content = one.record.content if one.record is not None else None
    found = [] if content is None else [*content.primary, *content.shadow]
    for choice in one.detail.choices if one.detail is not None else ():
        found += ["".join(side.texts) for side in (choice.primary, choice.shadow) if side.texts is not None]
    return [text for text in dict.fromkeys(found) if text]


def applied(one: Settlement, values: Sequence[Any] | None) -> Settlement:
    """Return the settlement with what the hook has made of ``texts(one)``; None: with none of it."""
    record = one.record
    if record is None:
        return one
    bodies, outputs = _bodies(one), _outputs(one)
    said: Sequence[Any] = [None] * (len(bodies) + len(outputs)) if values is None else values
    requests = {body: _dumped(body, value) for body, value in zip(bodies, said, strict=False)}
    spoken: dict[str, str | None] = dict(zip(outputs, said[len(bodies) :], strict=True))
    whole = all(text == value for text, value in spoken.items())
    gone = any(value is None for value in spoken.values())
    kept = record if whole else _without_tokens(record, ids=not gone)
    if record.content is not None:
        kept = replace(kept, content=_content(record.content, requests, spoken))
    detail = None
    if one.detail is not None:
        scored = record.comparison.mode is Mode.FORCED
        detail = _detail(one.detail, requests, texts=whole, ids=not gone, scored=scored)
    return replace(one, record=kept, detail=detail)


def _dumped(body: str, value: Any) -> str | None:
    """Return a body as the hook wants it: the very text that it was where it is unchanged."""
    if value is None:
        return None
    return body if value == orjson.loads(body) else orjson.dumps(value).decode()


def _content(content: Content, requests: dict[str, str | None], spoken: dict[str, str | None]) -> Content:
    return Content(
        requests.get(content.request) or "",
        tuple(spoken.get(text) or "" for text in content.primary),
        tuple(spoken.get(text) or "" for text in content.shadow),
    )


def _detail(detail: Detail, requests: dict[str, str | None], *, texts: bool, ids: bool, scored: bool) -> Detail:
    same = all(body == value for body, value in requests.items())
    spelled = {body: None if body == value else value for body, value in requests.items()}
    # A hook finds nothing in a prompt that is ids: where it has found something elsewhere, a body that came back as it was may hold the same all the same. What
    # is scored holds the primary's reply, too.
    asks, scores = requests if same else spelled, requests if same and (texts or not scored) else spelled
    sent = [_sent(one, scores) for one in detail.shadow]
    primary = None if detail.primary is None else _sent(detail.primary, asks)
    choices = detail.choices
    if not texts:
        choices = tuple(
            replace(one, primary=_side(one.primary, ids=ids), shadow=_side(one.shadow, ids=ids)) for one in choices
        )
    return replace(
        detail,
        choices=choices,
        primary=primary,
        shadow=tuple(one for one in sent if one is not None),
        prompt_ids=detail.prompt_ids if same and ids else None,
        redacted=detail.redacted or not (same and texts),
    )


def _sent(sent: Sent, requests: dict[str, str | None]) -> Sent | None:
    body = requests.get(sent.body)
    return None if body is None else Sent(sent.path, body)


def _side(side: Side, *, ids: bool) -> Side:
    listed = tuple(
        Listed(one.index, tuple(Alternative(each.logprob, each.id if ids else None) for each in one.top))
        for one in side.listed
    )
    return replace(side, ids=side.ids if ids else None, texts=None, partial=(), listed=listed)


def _without_tokens(record: Record, *, ids: bool) -> Record:
    comparison = privacy.redact("none", record.comparison)
    return replace(record, comparison=comparison if ids else _without_ids(comparison))


def _without_ids(comparison: Comparison) -> Comparison:
    return replace(comparison, choices=tuple(_choice(choice) for choice in comparison.choices))


def _choice(choice: ChoiceComparison) -> ChoiceComparison:
    return replace(
        choice,
        ids=(None,) * len(choice.ids),
        first=None if choice.first is None else _flip(choice.first),
        flips=tuple(_flip(flip) for flip in choice.flips),
        ties=tuple(replace(tie, ids=()) for tie in choice.ties),
    )


def _flip(flip: Flip) -> Flip:
    return replace(
        flip, primary=TokenRef(None, None, flip.primary.logprob), shadow=TokenRef(None, None, flip.shadow.logprob)
    )
