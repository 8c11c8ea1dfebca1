"""Commands that repeat a record's difference: the same bytes to both engines with curl, then a look at the token where their replies part.

House rules. Pure. Secrets are named ($PRIMARY_KEY, $SHADOW_KEY) and never written out. Whatever a body, a path or a URL holds, bash makes the same bytes of it again and runs none
of it; nothing here can move a cursor or turn a line around when it is printed.
"""

from __future__ import annotations

from msgspec import Struct

from proxy.compare.comparison import Mode
from proxy.config import Config
from proxy.ledger.detail import Detail, Sent
from proxy.ledger.record import Record
from proxy.ledger.repeat_script import SCRIPT

_OPTIONS = "-sS -g --path-as-is --max-time 300 -H 'Content-Type: application/json'"


class RepeatError(Exception):
    """There is nothing to repeat it with; the text says why, and which setting would change that."""


class Place(Struct, frozen=True):
    """Where a record's arms part: ``index`` of ``length`` tokens of a choice; None where texts alone say that they do."""

    choice: int
    index: int | None
    length: int


def shell(record: Record, detail: Detail | None, config: Config) -> str:
    """Return a script for bash; needs curl and python3. Raises RepeatError."""
    if detail is None or detail.primary is None or not detail.shadow:
        raise RepeatError(_why(record, detail))
    shadow = next((one for one in config.shadows if one.name == record.shadow), None)
    if shadow is None or not config.primary.url:
        raise RepeatError(f"{record.shadow!r} is not configured any more, or no primary is: their URLs are not known")
    lines = [
        "dir=$(mktemp -d)",
        *_ask("primary", config.primary.url, detail.primary, "PRIMARY_KEY"),
        *_ask(record.shadow, shadow.url, detail.shadow[0], "SHADOW_KEY"),
        *_look(record, detail),
    ]
    keys = [
        name
        for name, key in (("PRIMARY_KEY", config.primary.api_key), ("SHADOW_KEY", shadow.api_key))
        if key is not None
    ]
    if keys:
        lines.insert(0, f"# export {' and '.join(keys)} first: the engines are configured with keys")
    if detail.redacted:
        lines.insert(0, "# records.redact has changed what was sent: this may not repeat it")
    return "\n".join(lines) + "\n"


def _why(record: Record, detail: Detail | None) -> str:
    if detail is not None and detail.redacted:
        return "records.redact has withheld what was sent"
    if record.content is None or detail is None or detail.primary is None:
        return "what was sent is not kept of it: that takes `records.content: text` while it is compared, and a difference or finding"
    return "nothing was sent to the shadow that would show it"


def _ask(arm: str, url: str, sent: Sent, key: str) -> list[str]:
    file = "primary" if key == "PRIMARY_KEY" else "shadow"
    where = quoted(url.rstrip("/") + sent.path)
    return [
        f"# {_comment(arm)}",
        f"printf '%s' {quoted(sent.body)} |",
        f'  curl {_OPTIONS} ${{{key}:+-H "Authorization: Bearer ${key}"}} --data-binary @- -o "$dir/{file}" {where}',
    ]


def place(record: Record, detail: Detail) -> Place:
    """Find where a record's arms part first."""
    sides = {one.index: one.primary.total for one in detail.choices}
    for choice in record.comparison.choices:
        flip = choice.first or next(iter(choice.flips), None)
        if flip is not None:
            return Place(choice.index, flip.index, sides.get(choice.index, 0))
    parted = next((choice.index for choice in record.comparison.choices if choice.diverged), 0)
    return Place(parted, None, sides.get(parted, 0))


def _look(record: Record, detail: Detail) -> list[str]:
    at = place(record, detail)
    index = at.index or 0
    forced = record.comparison.mode is Mode.FORCED
    mode, from_end = ("forced", index - at.length) if forced and at.index is not None else ("free", index)
    say = "# where they part" + ("" if at.index is None else f" (recorded: token {at.index} of choice {at.choice})")
    return [say, f'python3 -c {quoted(SCRIPT)} {mode} {at.choice} {from_end} {index} "$dir/primary" "$dir/shadow"']


def quoted(text: str) -> str:
    """Return a word of bash that is this text, byte for byte as UTF-8. Raises ValueError for U+0000, which no word can hold."""
    if "\0" in text:
        raise ValueError("a shell's word holds no U+0000")
    if text.replace("\n", "").isprintable():
        return "'" + text.replace("'", "'\\''") + "'"
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _comment(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
