"""The steps of a reply: each token with its values, the text it makes visible, the channel it belongs to, how it ends.

House rules. Pure. Knows no dialect and no JSON but that of a tool call. Planted differences of *behaviour* (stop strings kept, reasoning as content, calls
altered, one wrong token) are applied here.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from engines.scripted.asked import Asked
from engines.scripted.model import Toy, log_softmax
from engines.scripted.sampling import adjusted, choose
from engines.scripted.script import Differences
from engines.scripted.vocabulary import CALL, CALLED, END, FIRST_BYTE, SPECIAL, THINK, THOUGHT

Ids = tuple[int, ...]
Ranked = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as the parser reads it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Row:
    """The values at one position: a token, its logprob, the best alternatives, best first."""

    id: int
    logprob: float
    rank: int
    top: Ranked


@dataclass(frozen=True, slots=True)
class Step:
    """One token. ``text`` is what becomes visible with it, in ``channel``; ``eaten``: a parser keeps it from clients; ``swallowed``: it ends a stop string."""

    row: Row
    text: str = ""
    channel: str = "content"
    calls: tuple[Call, ...] = ()
    eaten: bool = False
    swallowed: bool = False
    finish: str | None = None
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A whole choice."""

    prompt: Ids
    steps: tuple[Step, ...]

    @property
    def finish(self) -> str:
        """Why it ended."""
        return (self.steps[-1].finish if self.steps else None) or "length"

    @property
    def ids(self) -> list[int]:
        """The tokens."""
        return [step.row.id for step in self.steps]

    @property
    def calls(self) -> list[Call]:
        """All tool calls."""
        return [call for step in self.steps for call in step.calls]

    def text(self, channel: str = "content") -> str:
        """Return the visible text of a channel."""
        return "".join(step.text for step in self.steps if step.channel == channel)


def row(toy: Toy, context: Ids, token: int, top: int, *, temperature: float = 1.0) -> Row:
    """Return the values of ``token`` after ``context``, with the best ``top``."""
    values = toy.logprobs(context) if temperature == 1.0 else log_softmax(toy.logits(context), temperature)
    best = sorted(range(len(values)), key=lambda one: (-values[one], one))[:top]
    rank = 1 + sum(value > values[token] for value in values)
    return Row(token, values[token], rank, tuple((one, values[one]) for one in best))


def scored(toy: Toy, ids: Ids, top: int, start: int = 0) -> Iterator[Row | None]:
    """Return the values of given tokens from ``start`` on; None for the very first, which nothing precedes."""
    for place in range(start, len(ids)):
        yield row(toy, ids[:place], ids[place], top) if place else None


def steps(toy: Toy, asked: Asked, prompt: Ids, choice: int) -> Iterator[Step]:
    """Say a reply token by token; the last step says why it ended. Nothing where no token may be said."""
    said: list[int] = []
    view = _View(toy, asked)
    sampling = asked.sampling
    scale = sampling.temperature if asked.processed and not sampling.greedy else 1.0
    while len(said) < asked.limit:
        context = (*prompt, *said)
        values = adjusted(toy.logits(context), sampling, prompt, tuple(said))
        if toy.script.differences.wrong_token == len(said):
            values[max(range(len(values)), key=values.__getitem__)] = -1e9
        token = choose(values, sampling, choice, context, toy.script.differences)
        said.append(token)
        step = view.push(row(toy, context, token, asked.top or 0, temperature=scale), last=len(said) == asked.limit)
        yield step
        if step.finish is not None:
            return


class _View:
    """What a client sees of the tokens: text by channel, calls, stop strings."""

    def __init__(self, toy: Toy, asked: Asked) -> None:
        self._table = toy.table
        self._differences = toy.script.differences
        self._asked = asked
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._channel = "content"
        self._held = ""
        self._call = ""
        self._calls = 0

    def push(self, values: Row, *, last: bool) -> Step:
        token = values.id
        if token == END:
            return self._end(Step(values, finish="tool_calls" if self._calls else "stop"))
        shown: str = ""
        calls: tuple[Call, ...] = ()
        if self._asked.chat and token < FIRST_BYTE:
            shown, calls = self._special(token)
        else:
            shown = self._decoder.decode(self._table.bytes_of(token))
        if self._channel == "tool":
            self._call += shown
            step = Step(values, channel="tool", eaten=True)
        elif calls:
            step = Step(values, channel="tool", calls=calls)
        else:
            eaten = self._asked.chat and token < FIRST_BYTE and not shown
            step = self._stopped(Step(values, shown, self._channel, eaten=eaten))
        if last and step.finish is None:
            return self._end(replace(step, finish="length"))
        return step

    def _special(self, token: int) -> tuple[str, tuple[Call, ...]]:
        """Switch channels at the marks of reasoning and calls; the text and calls that this makes visible."""
        differences = self._differences
        match token:
            case _ if token in (THINK, THOUGHT) and differences.reasoning_in_content:
                return SPECIAL[token], ()
            case _ if token in (CALL, CALLED) and (not self._asked.tools or differences.tool_calls_in_content):
                return SPECIAL[token], ()
            case _ if token == THINK:
                self._channel = "reasoning"
            case _ if token == THOUGHT:
                self._channel = "content"
            case _ if token == CALL:
                self._channel, self._call = "tool", ""
            case _ if token == CALLED and self._channel == "tool":
                self._channel = "content"
                self._calls += 1
                return "", (parsed(self._call, differences),)
        return "", ()

    def _stopped(self, step: Step) -> Step:
        """Hold back what may become a stop string; end where one is whole."""
        if not self._asked.stop or step.channel != "content":
            return step
        text = self._held + step.text
        for stop in self._asked.stop:
            at = text.find(stop)
            if at >= 0:
                shown = text[: at + len(stop)] if self._differences.keep_stop else text[:at]
                return replace(step, text=shown, finish="stop", stop=stop, swallowed=True)
        keep = max((_overlap(text, stop) for stop in self._asked.stop), default=0)
        self._held = text[len(text) - keep :]
        return replace(step, text=text[: len(text) - keep])

    def _end(self, step: Step) -> Step:
        rest = self._held + self._decoder.decode(b"", final=True)
        return replace(step, text=step.text + rest) if step.stop is None and step.channel == "content" else step


def parsed(text: str, differences: Differences) -> Call:
    """Read a call as the tool parser does, altered as planted."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return Call("", text)
    arguments = value.get("arguments", {})
    match differences.tool_arguments:
        case "plain":
            written = json.dumps(arguments, ensure_ascii=False)
        case "reordered":
            written = json.dumps(dict(reversed(arguments.items())), ensure_ascii=False, separators=(",", ":"))
        case "broken":
            written = json.dumps(arguments, ensure_ascii=False)[:-1]
    return Call(differences.tool_name or str(value.get("name", "")), written)


def _overlap(text: str, stop: str) -> int:
    """Return how much of the text's end is the beginning of ``stop``."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-size:])), 0)
