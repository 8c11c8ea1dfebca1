"""What is known of two arms before their replies are held against each other: other defaults, other logprob modes, room for the prompt, earlier doubts.

House rules. Asks no engine and reads no reply. A difference that the shadow's copy already says (see ``shape``) is named and called neutralised; one that could not be said is
named and left to explain what follows. Two unknown things are not called different.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from engines.dialect import Defaults, Endpoint
from engines.neutral import saying
from proxy.compare.comparison import Comparison, Mode
from proxy.compare.findings import OUTPUT_LENGTH, SAMPLING_DEFAULTS, values_incomparable
from proxy.compare.layers import Evidence, Found, Known
from proxy.compare.value_layer import LOGPROB_MODE
from proxy.judge.arm import Arm
from proxy.judge.request import Asked
from proxy.judge.shape import NEUTRAL, spelled

#: Sampling fields that greedy decoding does not look at.
_DRAWING = frozenset({"top_p", "top_k", "min_p"})
_LIMITS = {Endpoint.CHAT: "max_tokens_chat", Endpoint.COMPLETIONS: "max_tokens_completions"}
#: Comparisons for which a fault of the values that one of them has shown is taken for granted: short replies cannot show it themselves.
_DOUBTED = 32


class Other(NamedTuple):
    """A default in which two engines differ; the primary's is None where it is not known."""

    name: str
    primary: float | None
    shadow: float


def beforehand(asked: Asked, primary: Arm, arm: Arm, mode: Mode) -> tuple[str | None, Known]:
    """Return why the arms' values may not be compared (None: they may), and what the comparison should know."""
    noted = (
        [*with_misread(asked, primary, arm, defaults_findings(asked, primary.defaults, arm))]
        if mode is Mode.FREE
        else []
    )
    modes = primary.logprob_mode, arm.logprob_mode
    if mode is Mode.FORCED and arm.logprob_mode == "processed":
        modes = primary.logprob_mode, "raw"  # nothing is drawn in scoring, so nothing is scaled for it
    reason = values_incomparable(*modes, unfiltered=asked.unprocessed(primary.defaults))
    if reason is not None:
        text_only = 0 in (primary.alternatives, arm.alternatives)  # no values, so none of another kind
        if modes != ("unknown", "unknown") and not text_only:
            noted.append(Found(LOGPROB_MODE, {"primary": modes[0], "shadow": modes[1]}))
    elif (doubted := arm.doubts.get(mode)) is not None:
        reason, left = doubted
        noted.append(Found(reason, {"seen": "in an earlier reply"}))
        if left > 1:
            arm.doubts[mode] = (reason, left - 1)
        else:
            del arm.doubts[mode]
    chat = asked.endpoint is Endpoint.CHAT
    return reason, Known(tuple(noted), (primary.context, arm.context), asked.max_tokens, chat, asked.has_tools)


def remember(arm: Arm, mode: Mode, given: str | None, comparison: Comparison) -> None:
    """Doubt the arm's values for a while when a comparison has shown why."""
    if given is None and comparison.values_incomparable is not None:
        arm.doubts[mode] = (comparison.values_incomparable, _DOUBTED)


def defaults_findings(asked: Asked, primary: Defaults, arm: Arm) -> tuple[Found, ...]:
    """Name the defaults that differ and that this request leaves to the engines."""
    others = differing(primary, arm.defaults)
    return of_request(asked, primary, others, arm.dialect.name if arm.dialect else "") if others else ()


def with_misread(asked: Asked, primary: Arm, arm: Arm, noted: tuple[Found, ...]) -> tuple[Found, ...]:
    """Add the fields of this request that one of two engines overlooks or takes for something else; two of one kind do the same with them."""
    one, other = primary.dialect, arm.dialect
    if one is None or other is None or one.name == other.name:
        return noted
    seen: Evidence = {f"{name}_primary": "misread" for name in saying(asked.body, one.misread)}
    seen |= {f"{name}_shadow": "misread" for name in saying(asked.body, other.misread)}
    if not seen:
        return noted
    defaults = next((found.evidence for found in noted if found.name == SAMPLING_DEFAULTS), {})
    rest = tuple(found for found in noted if found.name != SAMPLING_DEFAULTS)
    return (Found(SAMPLING_DEFAULTS, {**defaults, **seen, "neutralised": False}), *rest)


def of_request(asked: Asked, primary: Defaults, others: tuple[Other, ...], dialect: str) -> tuple[Found, ...]:
    """The part of what differs that matters to one request."""
    greedy = asked.effective_temperature(primary) == 0.0
    limit = _LIMITS.get(asked.endpoint) if asked.max_tokens is None else None
    sampling = [
        one
        for one in others
        if not one.name.startswith("max_tokens")
        and asked.body.get(one.name) is None
        and not (greedy and one.name in _DRAWING)
    ]
    return _named(sampling, [one for one in others if one.name == limit], dialect)


def defaults_found(primary: Defaults, shadow: Defaults, dialect: str) -> tuple[Found, ...]:
    """Name every default that differs, whatever a request would say; ``dialect`` is the shadow's."""
    others = differing(primary, shadow)
    lengths = [one for one in others if one.name.startswith("max_tokens")]
    return _named([one for one in others if one not in lengths], lengths, dialect)


def _named(sampling: list[Other], lengths: list[Other], dialect: str) -> tuple[Found, ...]:
    return (
        *((Found(SAMPLING_DEFAULTS, evidence(sampling, dialect)),) if sampling else ()),
        *((Found(OUTPUT_LENGTH, evidence(lengths, dialect)),) if lengths else ()),
    )


def evidence(others: list[Other], dialect: str) -> Evidence:
    """Both values of each default, and whether the shadow's copy says the primary's."""
    seen: Evidence = {}
    for one in others:
        name = "max_tokens" if one.name.startswith("max_tokens") else one.name
        seen |= {f"{name}_primary": one.primary, f"{name}_shadow": one.shadow}
    said = all(one.primary is not None and spelled(dialect, one.name) is not None for one in others)
    return seen | {"neutralised": said}


@lru_cache(maxsize=256)
def differing(primary: Defaults, shadow: Defaults) -> tuple[Other, ...]:
    """Return the defaults in which two engines are known to differ.

    A default of the primary that is not known is no difference where the shadow's does nothing, nor a limit that only one of them states.
    """
    found: list[Other] = []
    for name in Defaults.__dataclass_fields__:
        mine, theirs = getattr(primary, name), getattr(shadow, name)
        if theirs is None or mine == theirs:
            continue
        if mine is None and (name.startswith("max_tokens") or theirs == NEUTRAL.get(name)):
            continue
        found.append(Other(name, mine, theirs))
    return tuple(found)
