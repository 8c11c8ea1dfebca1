"""A chat to the text and ids of its prompt.

House rules. Pure. Two engines whose templates are equal make equal ids of equal messages; tools and their order are part of the prompt.
"""

from __future__ import annotations

import json
from typing import Any

from engines.scripted.script import Script, Template
from engines.scripted.vocabulary import SPECIAL, START, table

Json = dict[str, Any]


def template_of(script: Script) -> Template:
    """Return the template this engine uses: the script's, or the planted other one."""
    return script.differences.template or script.template


def text_of(
    script: Script, messages: list[Json], tools: list[Json] | None, *, opened: bool = True, continued: bool = False
) -> str:
    """Write a chat as its prompt's text, special tokens written out; ``continued``: the last message is left open."""
    template = template_of(script)
    parts = []
    if template.bos:
        parts.append(SPECIAL[START] * (2 if script.differences.double_bos else 1))
    if template.system is not None and (not messages or messages[0].get("role") != "system"):
        parts.append(_turn(template, "system", template.system))
    if tools:
        parts.append(_turn(template, "tools", json.dumps(tools, ensure_ascii=False)))
    parts += [_turn(template, *_said(message)) for message in messages]
    if continued and messages:
        parts[-1] = _turn(
            Template(turn=template.turn[: template.turn.index("{content}")] + "{content}"), *_said(messages[-1])
        )
    if opened:
        parts.append(template.open)
    return "".join(parts)


def ids_of(
    script: Script, messages: list[Json], tools: list[Json] | None, *, opened: bool = True, continued: bool = False
) -> tuple[int, ...]:
    """Return a chat's prompt as ids."""
    text = text_of(script, messages, tools, opened=opened, continued=continued)
    return table(script.vocabulary).encode(text, special=True)


def plain_ids(script: Script, text: str, *, special: bool = True) -> tuple[int, ...]:
    """Return a bare text's ids; ``special`` puts the template's BOS before it, as tokenizers do."""
    ids = table(script.vocabulary).encode(text)
    return (START, *ids) if special and template_of(script).bos else ids


def cut(script: Script, ids: tuple[int, ...]) -> tuple[int, ...]:
    """Drop the oldest tokens beyond the planted ``context_cut``; a BOS stays."""
    most = script.differences.context_cut
    if most is None or len(ids) <= most:
        return ids
    first = ids[:1] if ids[0] == START else ()
    return (*first, *ids[len(ids) - most + len(first) :])


def content_of(message: Json) -> str:
    """Return a message's text: its content, parts joined, and calls it reports as JSON."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    calls = message.get("tool_calls")
    shown = json.dumps(calls, ensure_ascii=False, sort_keys=True) if calls else ""
    return (content if isinstance(content, str) else "") + shown


def _said(message: Json) -> tuple[str, str]:
    return str(message.get("role")), content_of(message)


def _turn(template: Template, role: str, content: str) -> str:
    return template.turn.format(role=role, content=content)
