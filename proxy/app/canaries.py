"""The same small questions put to the primary and to each shadow, and what differs between the answers: ``parhelion check``'s findings.

House rules. The comparison that judges live traffic judges these answers too; nothing is decided here. Where the engines' tokens part is no finding: a canary is
one answer, and proves nothing about noise. A question that one of them refuses is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from engines import canary
from engines.dialect import DialectError, Endpoint, Json
from engines.http_fetch import connect
from engines.registry import dialect
from engines.subject import Subject
from proxy.app.seen import Seen
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Source, TauOrigin
from proxy.compare.findings import TOKENIZER, values_incomparable
from proxy.compare.layers import LAYER_OF, Found, Known, place
from proxy.compare.near_tie import Tau
from proxy.compare.prompt import PROMPT_TEMPLATE
from proxy.compare.token_stream import Reply
from proxy.compare.value_layer import LOGPROB_MODE
from proxy.config import Config
from proxy.judge.beforehand import defaults_found
from proxy.ledger.remedies import Engine, advice

_SECONDS = 120.0
_TOP = 5
_WORDS = 600  # more than no template adds, and little work
#: Prompts that fill a context are sent to engines whose context is known to be no larger than this (tokens).
_FILLED = 8192
_STOPPED_AFTER = 3  # words of the primary's own answer, the last of which is the stop string


class Question(Struct, frozen=True):
    """One request, and how its answers are compared."""

    endpoint: Endpoint
    body: Json
    stop: tuple[str, ...] = ()


async def ask_about(config: Config, seen: Sequence[Seen]) -> dict[str, list[Found]]:
    """Ask every usable engine, and return by shadow what was found, by layer."""
    keys = [config.primary.api_key, *(one.api_key for one in config.shadows)]
    usable = [(one, key) for one, key in zip(seen, keys, strict=True) if one.probe is not None]
    if not usable or usable[0][0].role != "primary":
        return {}
    async with AsyncExitStack() as stack:
        subjects: dict[str, Subject] = {}
        for one, key in usable:
            assert one.probe is not None
            fetch = await stack.enter_async_context(connect(one.url, api_key=key, timeout=_SECONDS))
            kind = Endpoint.CHAT if one.probe.capabilities.chat else Endpoint.COMPLETIONS
            subjects[one.name] = Subject(fetch, dialect(one.probe.dialect), one.probe.model, kind)
        primary, shadows = usable[0][0], [one for one, _ in usable[1:]]
        answers: dict[str, asyncio.Future[Reply | None]] = {}  # the primary's, each asked for once
        found = await asyncio.gather(*(_held(primary, one, subjects, answers) for one in shadows))
    return {one.name: each for one, each in zip(shadows, found, strict=True)}


async def _held(
    primary: Seen, one: Seen, subjects: Mapping[str, Subject], answers: dict[str, asyncio.Future[Reply | None]]
) -> list[Found]:
    theirs = subjects[one.name]

    def mine(question: Question) -> asyncio.Future[Reply | None]:
        key = orjson.dumps([question.endpoint, question.body]).decode()
        if key not in answers:
            answers[key] = asyncio.ensure_future(_ask(subjects[primary.name], question))
        return answers[key]

    found = _known_before(primary, one)
    for question in _questions(primary, one):
        left, right = await asyncio.gather(mine(question), _ask(theirs, question))
        found += _compared(question, left, right, primary, one)
        if question.body is _PLAIN and (stopping := _stopping(question, left)) is not None:
            left, right = await asyncio.gather(mine(stopping), _ask(theirs, stopping))
            found += _compared(stopping, left, right, primary, one)
    found += _by_hashes(primary, one, found)
    first: dict[str, Found] = {}
    for each in found:
        first.setdefault(each.name, each)
    return sorted(first.values(), key=lambda each: place(each.name))


_PLAIN: Json = {"messages": canary.CHATS[0], "max_tokens": 24, "temperature": 0}


def _questions(primary: Seen, one: Seen) -> list[Question]:
    assert primary.probe is not None
    assert one.probe is not None
    completion = {"prompt": canary.PROMPT, "max_tokens": 4, "temperature": 0}
    asked = [Question(Endpoint.COMPLETIONS, completion)]
    if not (primary.probe.capabilities.chat and one.probe.capabilities.chat):
        return asked
    short = [{"messages": chat, "max_tokens": 1, "temperature": 0} for chat in canary.CHATS[1:]]
    contexts = [seen.probe.capabilities.context_length for seen in (primary, one) if seen.probe is not None]
    lengths = {_WORDS, *(context for context in contexts if context is not None and context <= _FILLED)}
    long = [
        {"messages": [{"role": "user", "content": "word " * words}], "max_tokens": 1, "temperature": 0}
        for words in sorted(lengths)
    ]
    return [Question(Endpoint.CHAT, body) for body in (_PLAIN, *short, *long)] + asked


def _stopping(question: Question, answer: Reply | None) -> Question | None:
    """Ask the same with a word of the primary's own answer as the stop string; None where it has too few."""
    words = answer.choices[0].text.split() if answer is not None and answer.choices else []
    if len(words) <= _STOPPED_AFTER:
        return None
    return Question(question.endpoint, question.body | {"stop": [words[_STOPPED_AFTER]]}, (words[_STOPPED_AFTER],))


async def _ask(subject: Subject, question: Question) -> Reply | None:
    """Put a question, and have the prompt's ids with the answer where the engine can tell them; None when it refuses."""
    asked = replace(subject, endpoint=question.endpoint)
    body = {"model": subject.model, **question.body}
    answer = await asked.put(body, _TOP)
    if answer.error == "status_400":  # so many alternatives may not be allowed
        answer = await asked.send(body)
    if answer.error is not None or not answer.choices:
        return None
    if answer.choices[0].prompt_ids is not None or subject.dialect.prompt_ids is None:
        return answer
    try:
        (ids,) = await subject.dialect.prompt_ids(subject.fetch, question.endpoint, body)
    except (DialectError, ValueError):
        return answer
    if answer.prompt_tokens not in (None, len(ids)):
        return answer  # it renders something else than it reads
    return replace(answer, choices=tuple(replace(choice, prompt_ids=ids) for choice in answer.choices))


def _compared(question: Question, left: Reply | None, right: Reply | None, primary: Seen, one: Seen) -> list[Found]:
    if left is None or right is None or primary.probe is None or one.probe is None:
        return []
    mine, theirs = primary.probe.capabilities, one.probe.capabilities
    known = Known(
        contexts=(mine.context_length, theirs.context_length),
        max_tokens=question.body["max_tokens"],
        chat=question.endpoint is Endpoint.CHAT,
    )
    comparison = compare_free(
        left,
        right,
        source=Source.REPLY,
        tau=Tau(1e-3, TauOrigin.ASSUMED),
        greedy=True,
        values_incomparable=values_incomparable(mine.logprob_mode, theirs.logprob_mode, unfiltered=True),
        stop=question.stop,
        known=known,
    )
    return [Found(name, comparison.evidence.get(name, {})) for name in comparison.findings]


def _known_before(primary: Seen, one: Seen) -> list[Found]:
    """Defaults and modes, as probed, declared or documented."""
    assert primary.probe is not None
    assert one.probe is not None
    found = list(defaults_found(primary.probe.defaults, one.probe.defaults, one.probe.dialect))
    modes = primary.probe.capabilities.logprob_mode, one.probe.capabilities.logprob_mode
    with_values = not (primary.probe.capabilities.text_only or one.probe.capabilities.text_only)
    if with_values and modes[0] != modes[1]:
        found.append(Found(LOGPROB_MODE, {"primary": modes[0], "shadow": modes[1]}))
    return found


def _by_hashes(primary: Seen, one: Seen, found: Sequence[Found]) -> list[Found]:
    """What the fixed texts and chats of the probe say, where no answer has said it better."""
    assert primary.probe is not None
    assert one.probe is not None
    prints = primary.probe.footprint, one.probe.footprint
    tokenizers = [print_.fact("tokenizer_hash").value for print_ in prints]
    templates = [print_.fact("chat_template_hash").value for print_ in prints]
    if None not in tokenizers and tokenizers[0] != tokenizers[1]:
        return [Found(TOKENIZER, {"primary": str(tokenizers[0]), "shadow": str(tokenizers[1])})]
    prompts = any(LAYER_OF.get(each.name) is LAYER_OF[PROMPT_TEMPLATE] for each in found)
    if None not in (*tokenizers, *templates) and templates[0] != templates[1] and not prompts:
        return [Found(PROMPT_TEMPLATE, {"primary": str(templates[0]), "shadow": str(templates[1])})]
    return []


def told(found: Sequence[Found], primary: Seen, one: Seen) -> list[dict[str, Any]]:
    """Return findings as the report has them: ``finding``, ``layer``, ``severity``, ``evidence``, ``remedy``."""
    arms = {
        arm: Engine(seen.name, seen.probe.dialect if seen.probe else "")
        for arm, seen in (("primary", primary), ("shadow", one))
    }
    lines = []
    for each in found:
        said = advice(each.name, each.evidence, arms)
        layer = LAYER_OF.get(each.name)
        lines.append({
            "finding": each.name,
            "layer": None if layer is None else layer.value,
            "severity": said.severity,
            "evidence": each.evidence,
            "remedy": said.remedy,
        })  # fmt: skip
    return lines
