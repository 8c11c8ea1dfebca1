"""Probes out of records: positions at which the primary hardly preferred one token, above its own noise, from as many prompts as there are.

House rules. Records in, spots out, pure; then the engine is asked whether a spot is still what its record said, and only what it says the same three times is kept. A gap below the
floor says nothing when it moves; one far above it does not move.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from engines.dialect import DialectError, Endpoint, Json
from proxy.compare.comparison import ChoiceComparison, Mode
from proxy.compare.quantile import quantile
from proxy.ledger.record import Record
from proxy.probes.ask import NoRun, Subject, named, row
from proxy.probes.probe import Named, Probe, ProbeSet

#: Where no control has shown the noise: about what a prefill and a decode of one bf16 engine differ by (0.01 to 0.05 nat).
ASSUMED_FLOOR = 0.01
#: A control that showed no noise at all says little of tomorrow's; below this no gap is told from a tie.
_LEAST_FLOOR = 1e-4
#: Gaps are taken from this many floors on, up to this many nats.
_ABOVE, _HIGHEST = 2.0, 1.0
_PER_PROMPT = 4
_ENOUGH = 200  # positions of a control, as for the near-tie bound
_REPEATS = 3
#: Candidates are asked about until there are enough probes, but no more than so many times as many.
TRIES = 4


class Spot(Struct, frozen=True):
    """One position of one record (its id): the request's body, the primary's ids before it, and its gap there in nats."""

    prompt: str
    endpoint: Endpoint
    body: Json
    ids: tuple[int, ...]
    gap: float
    model: str
    record: str = ""


def floor_of(records: Iterable[Record]) -> float | None:
    """Return the control's 99th percentile of abs(d(1st) - d(2nd)), nats; None where too few positions show it, and never less than 1e-4."""
    shifts = sorted(
        abs(shift)
        for record in records
        if record.role == "control"
        for choice in record.comparison.choices
        for shift in choice.gap_shifts
        if shift is not None
    )
    return max(_LEAST_FLOOR, quantile(shifts, 0.99)) if len(shifts) >= _ENOUGH else None


def spots(records: Iterable[Record], floor: float, longest: int = 2048) -> list[Spot]:
    """Return what to ask about, best first: one of each prompt, then a second of each, and so on; in each round the smallest gaps first.

    ``longest``: most tokens of a reply before the position. Records without text, and those of several choices, are passed over.
    """
    by_prompt: dict[str, dict[int, Spot]] = defaultdict(dict)
    unstable: dict[str, set[int]] = defaultdict(set)
    for record in records:
        body = _body(record)
        if body is None:
            continue
        prompt = record.prompt or record.exchange
        (choice,) = record.comparison.choices
        if record.role == "control":
            unstable[prompt] |= _parted(record.comparison.mode, choice)
        for index, gap in enumerate(choice.gaps[: longest + 1]):
            if gap is None or not _ABOVE * floor <= gap <= _HIGHEST:
                continue
            before = choice.ids[:index]
            if None not in before:
                ids = tuple(one for one in before if one is not None)
                spot = Spot(prompt, Endpoint(record.endpoint), body, ids, gap, record.model, record.id)
                by_prompt[prompt].setdefault(index, spot)
    return list(_in_rounds(by_prompt, unstable))


def _in_rounds(by_prompt: dict[str, dict[int, Spot]], unstable: dict[str, set[int]]) -> Iterator[Spot]:
    best = {
        prompt: sorted(
            (spot for index, spot in found.items() if index not in unstable[prompt]),
            key=lambda spot: (spot.gap, len(spot.ids)),
        )[:_PER_PROMPT]
        for prompt, found in by_prompt.items()
    }
    for place in range(_PER_PROMPT):
        yield from sorted(
            (found[place] for found in best.values() if len(found) > place), key=lambda one: (one.gap, len(one.ids))
        )


def _body(record: Record) -> Json | None:
    """The request as the client sent it, of a record that can be mined; None for any other."""
    choices = record.comparison.choices
    by_token = record.endpoint in {Endpoint.CHAT.value, Endpoint.COMPLETIONS.value}
    if not by_token or len(choices) != 1 or choices[0].positions is not None or record.content is None:
        return None
    try:
        body = msgspec.json.decode(record.content.request)
    except (msgspec.DecodeError, UnicodeError):  # a hash
        return None
    return body if isinstance(body, dict) else None


def _parted(mode: Mode, choice: ChoiceComparison) -> set[int]:
    """Where the control itself was of another mind."""
    match mode:
        case Mode.FREE:
            return {choice.first.index} if choice.first is not None else set()
        case Mode.FORCED:
            return {flip.index for flip in choice.flips}


async def mined(
    subject: Subject, found: Sequence[Spot], number: int, floor: float, longest: int = 2048, *, texts: bool = True
) -> tuple[ProbeSet, dict[str, int]]:
    """Ask the engine about spots until ``number`` of them are probes; and count why others are none, by reason.

    ``longest``: most tokens of a probe; ``texts``: whether a probe may hold its tokens as text, too. ``not_rendered``: the engine does not tell the prompt's ids; ``too_long``; ``moved``: the gap is no longer above the floor; ``unsteady``:
    three answers are not the same within the floor; else a dialect's reason.
    """
    probes: list[Probe] = []
    refused: dict[str, int] = defaultdict(int)
    rendered: dict[str, tuple[int, ...] | None] = {}
    for spot in found[: number * TRIES]:
        if len(probes) >= number:
            break
        if spot.prompt not in rendered:
            rendered[spot.prompt] = await _rendered(subject, spot)
        prompt = rendered[spot.prompt]
        if prompt is None:
            refused["not_rendered"] += 1
            continue
        if len(prompt) + len(spot.ids) > longest:
            refused["too_long"] += 1
            continue
        probe, why = await _tried(subject, (*prompt, *spot.ids), floor, f"p{len(probes) + 1}", texts=texts)
        if probe is None:
            refused[why] += 1
        elif all(one.ids != probe.ids for one in probes):
            probes.append(probe)
    model = subject.model or (found[0].model if found else "")
    return ProbeSet(model, tuple(probes), floor, time.time(), subject.dialect.name), dict(refused)


async def _rendered(subject: Subject, spot: Spot) -> tuple[int, ...] | None:
    if subject.dialect.prompt_ids is None:
        return None
    body = spot.body if subject.model is None else {**spot.body, "model": subject.model}
    try:
        prompts = await subject.dialect.prompt_ids(subject.fetch, spot.endpoint, body)
    except DialectError:
        return None
    return prompts[0] if len(prompts) == 1 else None


async def _tried(
    subject: Subject, ids: tuple[int, ...], floor: float, name: str, *, texts: bool
) -> tuple[Probe | None, str]:
    """A probe of what the engine says now, or why it is none."""
    seen: list[tuple[Named, Named, float]] = []
    for repeat in range(_REPEATS):
        try:
            top = (await row(subject, ids, None, f"mine-{name}-{repeat}")).top
        except NoRun as error:
            return None, error.reason
        seen.append((named(top[0]), named(top[1]), top[0].logprob - top[1].logprob))
    first, second, gap = seen[0]
    if any(one[:2] != (first, second) or abs(one[2] - gap) > floor for one in seen):
        return None, "unsteady"
    if not _ABOVE * floor <= gap <= _HIGHEST:
        return None, "moved"
    return Probe(name, ids, first, second, gap, await _text(subject, ids) if texts else None), ""


async def _text(subject: Subject, ids: tuple[int, ...]) -> str | None:
    """The same prompt as text, for engines that take no ids; None where it would not be the same ids again."""
    if subject.dialect.detokenize is None or subject.dialect.tokenize is None:
        return None
    try:
        text = await subject.dialect.detokenize(subject.fetch, ids, subject.model)
        again = await subject.dialect.tokenize(subject.fetch, text, subject.model)
    except DialectError:
        return None
    return text if again == ids else None
