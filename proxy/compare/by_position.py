"""Where along a reply the arms differ: rates by position, in buckets that double, because pages, tiles and windows are powers of two.

House rules. Pure. Every rate comes with its floor, its excess and the intervals of ``hazard``, and with how much was looked at. The buckets are fixed, so those of
replicas add up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from operator import sub
from typing import Any, NamedTuple

from msgspec import Struct

from proxy.compare.comparison import ChoiceComparison, Comparison, FlipClass
from proxy.compare.hazard import CONFIDENCE, ENOUGH_CONVERSATIONS, Seen, rates
from proxy.compare.life import Life, indices
from proxy.compare.quantile import quantile
from proxy.compare.resample import REPLICATES, lanes, replicates

Numbers = dict[str, Any]

_TAIL = (1.0 - CONFIDENCE) / 2
#: Errors are added up in hundred-millionths of a nat: whole numbers, in which sums of replicas are exact, and which mostly fit one digit of Python's.
_UNITS = 1e8


def bucket(position: int) -> int:
    """Return the number of the bucket of a position: 0, 1-15, 16-31, 32-63, 64-127, ..."""
    return min(position, 1) if position < 16 else position.bit_length() - 3


def start(number: int) -> int:
    """Return the first position of a bucket."""
    return number if number < 2 else 16 << (number - 2)


def lives_by_position(own: Iterable[Life], floor: Iterable[Life] = (), *, resampled: bool) -> list[Numbers]:
    """Return the hazard of each bucket with exposure, JSON-ready; ``floor``: the control's lives, ``resampled``: conversations are known."""
    ours, theirs = _by_bucket(own, resampled=resampled), _by_bucket(floor, resampled=resampled)
    theirs += [Seen() for _ in range(len(ours) - len(theirs))]
    found: list[Numbers] = []
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        block = {**_range(number), "streams": one.streams, "exposed": one.exposed, "events": one.events}
        if other.exposed:
            block |= {"control_exposed": other.exposed, "control_events": other.events}
        found.append(block | {"hazard_per_1000_tokens": rates(one, other, resampled=resampled)})
    return found


def _range(number: int) -> Numbers:
    return {"from": start(number), "to": start(number + 1) - 1}


def _by_bucket(lives: Iterable[Life], *, resampled: bool) -> list[Seen]:
    """Add lives up by bucket. A life takes part in all buckets up to its last; only there it is a part of one, so two sums of lanes a life are enough."""
    by_conversation: defaultdict[str, list[Life]] = defaultdict(list)
    for one in lives:
        if one.exposed:
            by_conversation[one.conversation].append(one)
    count = 1 + max((bucket(one.exposed - 1) for own in by_conversation.values() for one in own), default=-1)
    seen, passed = [Seen() for _ in range(count)], [_Passed() for _ in range(count)]
    for conversation, own in by_conversation.items():
        weight = lanes(conversation) if resampled else 0
        lasts = [bucket(one.exposed - 1) for one in own]
        for one, last in zip(own, lasts, strict=True):
            _end(seen[last], passed[last], one, one.exposed - start(last), weight)
        for number in range(max(lasts) + 1):
            streams = sum(last >= number for last in lasts)
            seen[number].conversations += 1
            seen[number].streams += streams
            seen[number].most_streams = max(streams, seen[number].most_streams)
    beyond = drawn = 0
    for number in reversed(range(count)):
        width = start(number + 1) - start(number)
        seen[number].exposed += width * beyond
        seen[number].drawn_exposed += width * drawn
        beyond += passed[number].streams
        drawn += passed[number].drawn
    return seen


class _Passed(Struct):
    """Streams that ended in a bucket, so that they passed through those before it whole."""

    streams: int = 0
    drawn: int = 0


def _end(seen: Seen, passed: _Passed, one: Life, exposed: int, weight: int) -> None:
    seen.exposed += exposed
    seen.drawn_exposed += weight * exposed
    passed.streams += 1
    passed.drawn += weight
    if one.parted:
        seen.events += 1
        seen.drawn_events += weight
        seen.parted[one.conversation] = seen.parted.get(one.conversation, 0) + 1


class Scored(Struct):
    """What forced comparisons of so many ``conversations`` show in one bucket: genuine flips, and errors in ``_UNITS`` over ``values`` positions.

    ``drawn_whole``: conversations, in every replicate, of which each position of the bucket counts in both.
    """

    flips: Seen
    conversations: int = 0
    errors: int = 0
    values: int = 0
    drawn_errors: int = 0
    drawn_values: int = 0
    drawn_whole: int = 0


class _Part(NamedTuple):
    known: int
    flips: int
    errors: int
    values: int


def scored_by_position(
    own: tuple[Sequence[Comparison], Sequence[str]],
    floor: tuple[Sequence[Comparison], Sequence[str]] = ((), ()),
    *,
    resampled: bool,
) -> list[Numbers]:
    """Return genuine flips and mean error of each bucket of forced comparisons, JSON-ready; arms are (comparisons, their conversations)."""
    ours, theirs = _scored(*own, resampled=resampled), _scored(*floor, resampled=resampled)
    found: list[Numbers] = []
    for number, one in sorted(ours.items()):
        other = theirs.get(number, Scored(Seen(once=False)))
        block = {**_range(number), "conversations": one.conversations, "positions": one.flips.exposed}
        block |= {"genuine_flips": one.flips.events}
        if other.flips.exposed:
            block |= {"control_positions": other.flips.exposed, "control_genuine_flips": other.flips.events}
        if flips := rates(one.flips, other.flips, resampled=resampled):
            block["genuine_flips_per_1000"] = flips
        found.append(block | _errors(one, other, resampled=resampled))
    return found


def _scored(comparisons: Sequence[Comparison], conversations: Sequence[str], *, resampled: bool) -> dict[int, Scored]:
    by_conversation: defaultdict[str, list[Comparison]] = defaultdict(list)
    for comparison, conversation in zip(comparisons, conversations, strict=True):
        if comparison.incomparable is None:
            by_conversation[conversation].append(comparison)
    found: defaultdict[int, Scored] = defaultdict(lambda: Scored(Seen(once=False)))
    for conversation, own in by_conversation.items():
        parts: defaultdict[int, list[_Part]] = defaultdict(list)
        for one in own:
            for choice in one.choices:
                for number, part in _parts(choice, comparable=one.values_incomparable is None):
                    parts[number].append(part)
        weight = lanes(conversation) if resampled else 0
        for number, each in parts.items():
            whole = each[0] if len(each) == 1 else _Part(*map(sum, zip(*each, strict=True)))
            _add(found[number], conversation, whole, weight, start(number + 1) - start(number))
    for number, scored in found.items():
        width = start(number + 1) - start(number)
        scored.flips.drawn_exposed += scored.drawn_whole * width
        scored.drawn_values += scored.drawn_whole * width
    return found


def _add(scored: Scored, conversation: str, part: _Part, weight: int, width: int) -> None:
    seen = scored.flips
    if part.known == part.values == width:
        scored.drawn_whole += weight
    else:
        seen.drawn_exposed += weight * part.known
        scored.drawn_values += weight * part.values
    if part.known:
        seen.events += part.flips
        seen.exposed += part.known
        seen.conversations += 1
        seen.streams += part.known  # one that is wrong may be so at every position
        seen.most_streams = max(part.known, seen.most_streams)
        if part.flips:
            seen.parted[conversation] = part.flips
            seen.drawn_events += weight * part.flips
    scored.conversations += 1
    scored.errors += part.errors
    scored.values += part.values
    if part.errors:
        scored.drawn_errors += weight * part.errors


def _parts(choice: ChoiceComparison, *, comparable: bool) -> Iterator[tuple[int, _Part]]:
    """Yield what one choice shows, by bucket."""
    at = indices(choice)
    flips = sorted(flip.index for flip in choice.flips if flip.kind is FlipClass.GENUINE)
    low = 0
    while low < len(at):
        number = bucket(at[low])
        upto = start(number + 1)
        high = min(len(at), upto) if choice.positions is None else low + sum(one < upto for one in at[low:])
        agreed = choice.top1_agree[low:high]
        errors = _magnitudes(choice, low, high) if comparable else []
        yield (
            number,
            _Part(
                len(agreed) - agreed.count(None),
                sum(start(number) <= index < upto for index in flips),
                round(sum(errors) * _UNITS),
                len(errors),
            ),
        )
        low = high


def _magnitudes(choice: ChoiceComparison, low: int, high: int) -> list[float]:
    """Return the errors at some positions, of those at which both arms gave a number."""
    ours, theirs = choice.primary_logprobs[low:high], choice.shadow_logprobs[low:high]
    if None not in ours and None not in theirs:
        errors = list(map(abs, map(sub, theirs, ours)))
        if isfinite(sum(errors)):
            return errors
    pairs = ((p, q) for p, q in zip(ours, theirs, strict=True) if p is not None and q is not None)
    return [abs(q - p) for p, q in pairs if isfinite(q - p)]


def _errors(own: Scored, floor: Scored, *, resampled: bool) -> Numbers:
    """Return the mean error of a bucket in nats: ``raw``, ``floor``, ``excess``, their intervals, and of how many positions."""
    if not own.values:
        return {}
    raw = own.errors / own.values / _UNITS
    found: Numbers = {"raw": raw, "positions": own.values}
    if floor.values:
        base = floor.errors / floor.values / _UNITS
        found |= {"floor": base, "excess": raw - base, "control_positions": floor.values}
    if not resampled:
        return {"error_nats": found}
    ours, theirs = _means(own), _means(floor)
    pairs = zip(ours, theirs, strict=True) if ours and theirs else ()
    named = {"raw_interval": ours, "floor_interval": theirs, "interval": [one - other for one, other in pairs]}
    if not floor.values:
        named["interval"] = ours
    for name, drawn in named.items():
        ordered = sorted(drawn)
        if ordered and ordered[0] < ordered[-1]:
            found[name] = [quantile(ordered, _TAIL), quantile(ordered, 1.0 - _TAIL)]
    return {"error_nats": found}


def _means(one: Scored) -> list[float]:
    """Return the mean error in each replicate; empty with too few conversations, or where a replicate has none."""
    if one.conversations < ENOUGH_CONVERSATIONS or not one.errors:
        return []
    drawn = zip(replicates(one.drawn_errors), replicates(one.drawn_values), strict=True)
    known = [errors / values / _UNITS for errors, values in drawn if values]
    return known if len(known) == REPLICATES else []
