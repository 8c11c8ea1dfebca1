"""The part of the report that says where: along a reply, and among the traffic.

House rules. What is computed is computed in ``proxy.compare``; here it is decided what is held against what. An arm's numbers stand beside those of the control in the
same mode; evidence comes from pairs, one exchange a conversation that both arms answered, the first of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from math import isfinite
from operator import sub
from typing import Any

import msgspec

from proxy.compare.by_position import lives_by_position, scored_by_position
from proxy.compare.comparison import ChoiceComparison, Comparison, Mode
from proxy.compare.life import indices, life, lives, without_position
from proxy.compare.onset import Onset, alone, onset
from proxy.compare.onset_errors import Errors, errors_onset
from proxy.compare.slices import Case, Setting, slices
from proxy.compare.survival import survival
from proxy.compare.trial import Result, look, trial
from proxy.ledger.matched import Matched, matched
from proxy.ledger.segments import Gathered, Origin, Pair

Numbers = dict[str, Any]


def add(shadow: Numbers, own: Mapping[Mode, Gathered], floors: Mapping[Mode, Gathered | None], alpha: float) -> None:
    """Add to a shadow's part of the report what is said here: to each of its modes, and the ``slices`` of a candidate's traffic."""
    for mode in Mode:
        if mode.value in shadow["modes"]:
            shadow["modes"][mode.value] |= along(mode, shadow["role"], own[mode], floors[mode], alpha)
    if shadow["role"] == "candidate":
        shadow["slices"] = among(Pair(**shadow["footprint_ids"]), own, floors, alpha)


def along(mode: Mode, role: str, own: Gathered, floor: Gathered | None, alpha: float) -> Numbers:
    """Return ``by_position``, of ``free`` mode ``survival``, and ``onset`` where there is evidence at level ``alpha``; JSON-ready.

    ``role``: the arm's; ``floor``: the control's comparisons in that mode, None without a control or for the control itself.
    """
    beside = floor or Gathered()
    pair = matched(own, floor) if floor is not None else Matched(own, beside)
    resampled = all(own.conversations) and all(beside.conversations)
    found: Numbers = {}
    match mode:
        case Mode.FREE:
            ours, theirs = (lives(one.comparisons, one.conversations) for one in (pair.own, pair.floor))
            arms = {role: ours} | ({"control": theirs} if floor is not None else {})
            if curves := survival(arms, resampled=resampled):
                texts = {
                    name: without_position(one.comparisons) for name, one in zip(arms, (own, beside), strict=False)
                }
                found["survival"] = curves | {"without_position": texts}
            found["by_position"] = lives_by_position(ours, theirs, resampled=resampled)
        case Mode.FORCED:
            arms_ = ((one.comparisons, one.conversations) for one in (pair.own, pair.floor))
            found["by_position"] = scored_by_position(*arms_, resampled=resampled)
    if role != "control" and resampled and (begins := _begins(mode, own, floor, alpha)):
        found["onset"] = begins
    return found


def _begins(mode: Mode, own: Gathered, floor: Gathered | None, alpha: float) -> Numbers | None:
    event = "first_difference" if mode is Mode.FREE else "genuine_flip"
    if floor is None:
        firsts = [life(one.choices[0], mode, origin.conversation) for one, origin in _firsts(own)]
        return _shown(alone([one for one in firsts if one.exposed], alpha), event, controlled=False)
    pairs = [(one.choices[0], other.choices[0], one, other) for one, other in _pairs(own, floor)]
    if mode is Mode.FORCED:  # two tests, each at half the level
        alpha /= 2
        comparable = (pair for pair in pairs if pair[2].values_incomparable is pair[3].values_incomparable is None)
        if (found := errors_onset((_errors(*pair[:2]) for pair in comparable), alpha)) is not None:
            return _shown(found, "logprob_error")
    both = [(life(ours, mode, ""), life(theirs, mode, "")) for ours, theirs, _, _ in pairs]
    return _shown(onset([pair for pair in both if pair[0].exposed and pair[1].exposed], alpha), event)


def _shown(found: Onset | None, by: str, *, controlled: bool = True) -> Numbers | None:
    if found is None:
        return None
    counts = ("candidate_only", "control_only") if controlled else ("events_from", "events_before")
    return {
        "position": found.position,
        "between": list(found.between),
        "log_e": found.log_e,
        "by": by,
        "floor": "control" if controlled else "assumed",
        counts[0]: found.worse,
        counts[1]: found.better,
    }


def _errors(own: ChoiceComparison, floor: ChoiceComparison) -> Errors:
    """Return both arms' absolute errors at the positions at which both are known."""
    at = indices(own)
    arrays = (own.primary_logprobs, own.shadow_logprobs, floor.primary_logprobs, floor.shadow_logprobs)
    if at == indices(floor) and not any(None in values for values in arrays):
        ours, theirs = (array("d", map(abs, map(sub, q, p))) for p, q in (arrays[:2], arrays[2:]))
        if isfinite(sum(ours) + sum(theirs)):
            return Errors(at, ours, theirs)
    known, beside = _by_index(own), _by_index(floor)
    both = sorted(known.keys() & beside.keys())
    return Errors(both, [known[one] for one in both], [beside[one] for one in both])


def _by_index(choice: ChoiceComparison) -> dict[int, float]:
    values = zip(indices(choice), choice.primary_logprobs, choice.shadow_logprobs, strict=True)
    return {at: abs(q - p) for at, p, q in values if p is not None and q is not None and isfinite(q - p)}


def _in_time(own: Gathered) -> Iterator[tuple[Comparison, Origin]]:
    """Yield what was compared, in the order of the exchanges."""
    made = zip(own.comparisons, own.origins, strict=True)
    yield from sorted((pair for pair in made if pair[0].incomparable is None and pair[0].choices), key=_begun)


def _begun(pair: tuple[Comparison, Origin]) -> float:
    return pair[1].time


def _firsts(own: Gathered) -> list[tuple[Comparison, Origin]]:
    """Return the first comparison of each conversation."""
    found: dict[str, tuple[Comparison, Origin]] = {}
    for one, origin in _in_time(own):
        found.setdefault(origin.conversation, (one, origin))
    return list(found.values())


def _pairs(own: Gathered, floor: Gathered) -> list[tuple[Comparison, Comparison]]:
    """Return, one a conversation, the first exchange that both arms have been compared on."""
    theirs = {origin.exchange: one for one, origin in _in_time(floor)}
    found: dict[str, tuple[Comparison, Comparison]] = {}
    for one, origin in _in_time(own):
        if (other := theirs.get(origin.exchange)) is not None:
            found.setdefault(origin.conversation, (one, other))
    return list(found.values())


def among(
    pair: Pair, own: Mapping[Mode, Gathered], floors: Mapping[Mode, Gathered | None], alpha: float
) -> list[Numbers]:
    """Return the slices of a candidate's conversations, named ones first, JSON-ready; empty where conversations are not known.

    Bad is what the verdict calls so (``trial``); an exchange whose result is missing is in no slice. ``pair``: of which stacks: what could not be compared is of any.
    """
    controls = {mode: one for mode, one in floors.items() if one is not None}
    ours, theirs = _by_exchange(own), _by_exchange(controls)
    cases: list[Case] = []
    for exchange, (origin, modes) in sorted(ours.items(), key=lambda one: one[1][0].time):
        if not origin.conversation or origin.footprints != pair:
            continue
        candidate = {mode: look(mode, one, own_prompt=not controls) for mode, one in modes.items()}
        beside = theirs[exchange][1] if exchange in theirs else {}
        control = {mode: look(mode, one) for mode, one in beside.items()} if controls else None
        result = trial(candidate, control)
        if result is not None and result.result is not Result.MISSING:
            cases.append(_case(result.result, origin, modes, controlled=bool(controls)))
    found = map(msgspec.to_builtins, slices(cases, alpha))
    return [{name: value for name, value in one.items() if value is not None} for one in found]


_Modes = dict[Mode, Comparison]


def _by_exchange(arm: Mapping[Mode, Gathered]) -> dict[str, tuple[Origin, _Modes]]:
    found: dict[str, tuple[Origin, _Modes]] = {}
    for mode, own in arm.items():
        for one, origin in zip(own.comparisons, own.origins, strict=True):
            found.setdefault(origin.exchange, (origin, {}))[1][mode] = one
    return found


def _case(result: Result, origin: Origin, modes: _Modes, *, controlled: bool) -> Case:
    bad = result in (Result.WORSE, Result.BOTH)
    control_bad = result in (Result.BETTER, Result.BOTH) if controlled else None
    return Case(origin.conversation, bad, control_bad, _setting(origin, modes))


def _setting(origin: Origin, modes: _Modes) -> Setting:
    request = origin.request
    replied = [choice.primary_tokens for one in modes.values() for choice in one.choices[:1]]
    return Setting(
        model=origin.model,
        endpoint=origin.endpoint,
        stream=request.stream,
        tools=request.has_tools,
        logprobs=request.logprobs_asked,
        n=request.n,
        temperature=request.temperature,
        prompt_tokens=request.prompt_tokens,
        output_tokens=next((tokens for tokens in replied if tokens is not None), None),
        cached_tokens=origin.cached_tokens,
        in_flight=origin.in_flight,
    )
