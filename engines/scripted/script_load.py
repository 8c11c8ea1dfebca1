"""A script file to a ``Script``, or one error that says what is wrong, where, and how to mend it.

House rules. Reads one file, nothing else. What msgspec's types cannot say (a token that is not in the vocabulary, a template without its fields) is
checked here, so that nothing fails later in a request.
"""

from __future__ import annotations

import difflib
import math
import re
import string
from pathlib import Path
from typing import Any

import msgspec
import yaml

from engines.scripted.script import ChosenToken, Script, Template
from engines.scripted.vocabulary import Table, table

_UNKNOWN = re.compile(r"contains unknown field `(\w+)`")
#: A script is written by hand; more is a mistake.
_MOST_BYTES = 4 << 20


class ScriptError(ValueError):
    """A script that cannot be played."""


def load(path: Path | None) -> Script:
    """Read the script at ``path``; None is the healthy engine. Raises ScriptError."""
    if path is None:
        return Script()
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as failed:
        raise ScriptError(f"--script {path}: cannot be read: {failed.strerror or 'not a file name'}") from failed
    return read(data, str(path))


def read(data: bytes, name: str = "script") -> Script:
    """Read a script from YAML (or JSON) text; ``name`` is what errors call it. Raises ScriptError."""
    if len(data) > _MOST_BYTES:
        raise ScriptError(f"{name}: larger than {_MOST_BYTES >> 20} MiB: is this the script?")
    try:
        value = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as broken:
        mark = getattr(broken, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(broken, "problem", None) or "not UTF-8 text"
        raise ScriptError(f"{name}:{where} is not YAML: {problem}") from None
    if value is None:
        return Script()
    try:
        script = msgspec.convert(value, Script)
    except msgspec.ValidationError as wrong:
        raise ScriptError(f"{name}: {_said(str(wrong), value)}") from None
    for problem in problems(script):
        raise ScriptError(f"{name}: {problem}")
    return script


def problems(script: Script) -> list[str]:
    """Say what is wrong with a script beyond its types."""
    words = table(script.vocabulary)
    found = [] if words.unique else ["vocabulary.list: a word stands there twice: give each once"]
    found += _template("template", script.template)
    if script.differences.template is not None:
        found += _template("differences.template", script.differences.template)
    for place, reply in enumerate(script.replies):
        where = f"replies[{place}]"
        if reply.say and reply.tokens:
            found.append(f"{where}: has both say and tokens: keep one")
        for index, token in enumerate(reply.tokens):
            found += _token(f"{where}.tokens[{index}]", token, words)
    for route in script.routes:
        if not route.startswith("/"):
            found.append(f"routes: {route!r} is no path: begin it with /")
    return found


def _template(where: str, template: Template) -> list[str]:
    try:
        # With what a format or a conversion adds, a field is another.
        fields = {
            f"{field}{spec}{conversion or ''}"
            for _, field, spec, conversion in string.Formatter().parse(template.turn)
            if field is not None
        }
    except ValueError as broken:
        return [f"{where}.turn: {broken}: write braces that are meant as text twice"]
    if fields != {"role", "content"}:
        return [f"{where}.turn: must hold {{role}} and {{content}} and no other field"]
    return [] if template.open else [f"{where}.open: must not be empty"]


def _token(where: str, token: ChosenToken, words: Table) -> list[str]:
    if (token.id is None) == (token.text is None):
        return [f"{where}: give either id or text"]
    if token.top and token.logprob is None:
        return [f"{where}: alternatives without a logprob of its own: give logprob too"]
    if token.logprob is not None and math.fsum(map(math.exp, (token.logprob, *token.top.values()))) > 1.0 + 1e-9:
        return [f"{where}: its probabilities add up to more than 1: lower its logprobs"]
    named = [("text", token.text) if token.id is None else ("id", f"#{token.id}"), *(("top", key) for key in token.top)]
    return [
        f"{where}.{field}: {text!r} is no token of this vocabulary: add it to vocabulary.list, or give an id as '#N'"
        for field, text in named
        if text is not None and words.find(text) is None
    ]


def _said(message: str, value: Any) -> str:
    """Write msgspec's error with its place first and, for an unknown field, the nearest known one."""
    text, _, place = message.partition(" - at `$")
    where = place.rstrip("`").lstrip(".")
    unknown = _UNKNOWN.search(text)
    if unknown is None:
        return f"{where or 'the whole'}: {text}"
    del value
    near = difflib.get_close_matches(unknown.group(1), _fields(where), n=1)
    hint = f", did you mean {near[0]}?" if near else f": choose one of {', '.join(_fields(where))}"
    return f"{where + ': ' if where else ''}unknown field {unknown.group(1)}{hint}"


def _fields(where: str) -> list[str]:
    """Return the names of the fields at a place of a script."""
    kind: Any = Script
    for name in re.findall(r"[a-z_]+", where):
        kind = next((one.type for one in msgspec.structs.fields(kind) if one.name == name), None)
        kind = _struct(kind)
        if kind is None:
            return []
    return [one.name for one in msgspec.structs.fields(kind)]


def _struct(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for inner in getattr(kind, "__args__", ()) if (found := _struct(inner)) is not None), None)
