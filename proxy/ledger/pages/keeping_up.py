"""Third question of the Overview: is the mirror keeping up."""

from __future__ import annotations

from typing import Any

from proxy.ledger.conservation import ArmTerms
from proxy.ledger.pages.reading import Seen
from proxy.ledger.pages.visible import count, seconds, share

#: The judge speaks every second; after so many it is late, or gone.
LATE = 10.0
_SHED = 0.01  # a share of what was sampled that is worth a look


def view(seen: Seen) -> dict[str, Any]:
    """Return the answer in words, the terms of the law, and what is in the way."""
    terms = seen.terms
    arms = [_arm(arm.shadow, arm.mode, one) for arm, one in terms.arms.items()] if seen.stored is not None else []
    trouble = _trouble(seen, arms)
    judged = seen.judge is not None and seen.judge.age <= LATE
    return {
        "tone": "" if not terms.received else "warn" if trouble else "good",
        "word": "Nothing to say yet" if not terms.received else "Look here" if trouble else "Yes",
        "said": _said(seen),
        "trouble": trouble,
        "received": terms.received,
        "not_sampled": terms.not_sampled,
        "sampled": terms.sampled,
        "undecided": terms.undecided,
        "residual": terms.residual,
        "arms": arms,
        "judge": {"alive": judged, "age": None if seen.judge is None else seen.judge.age},
        "lag": None if seen.judge is None else seen.judge.lag,
        "errors": {} if seen.judge is None else seen.judge.errors,
        "spool_bytes": None if seen.judge is None else seen.judge.spool_bytes,
        "spool_exchanges": None if seen.judge is None else seen.judge.spool_exchanges,
        "spool_most": None if seen.config.spool is None else seen.config.spool.max_bytes,
        "waiting_bytes": seen.single["waiting_bytes"],
        "store_bytes": None if seen.stored is None else seen.stored.used_bytes,
        "store_most": seen.config.records.max_bytes,
    }


def _arm(shadow: str, mode: str, one: ArmTerms) -> dict[str, Any]:
    return {
        "shadow": shadow,
        "mode": mode,
        "compared": one.compared,
        "incomparable": _sorted(one.incomparable),
        "incomparable_n": sum(one.incomparable.values()),
        "shed": _sorted(one.shed),
        "shed_n": sum(one.shed.values()),
        "in_flight": one.in_flight,
        "residual": one.residual,
    }


def _sorted(reasons: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(((reason, n) for reason, n in reasons.items() if n), key=lambda one: -one[1])


def _said(seen: Seen) -> str:
    terms = seen.terms
    if not terms.received:
        return "Nothing has been received yet."
    part = share(terms.sampled / terms.received)
    said = [f"{count(terms.received)} received, {count(terms.sampled)} of them ({part}) chosen to be mirrored."]
    if seen.judge is not None and seen.judge.lag.p50 is not None:
        lag = seen.judge.lag
        said.append(f"Half were settled within {seconds(lag.p50)} of the primary's reply ({count(lag.n)} observed).")
    return " ".join(said)


def _trouble(seen: Seen, arms: list[dict[str, Any]]) -> list[str]:
    """Say what is in the way, each in one sentence with what to do."""
    found: list[str] = []
    if seen.stored is None:
        found.append(seen.store_error)
    if seen.judge is None:
        found.append(
            "The judge has said nothing yet: it is starting, or runs elsewhere, or does not run; its log says which."
        )
    elif seen.judge.age > LATE:
        found.append(
            f"The judge has said nothing for {seconds(seen.judge.age)}: its numbers below are that old. Clients are served all the same; its log says why."
        )
    circuits = () if seen.judge is None else seen.judge.circuits
    found += [f"{shadow} is left alone for a while after repeated faults: see that it answers." for shadow in circuits]
    chosen = seen.terms.sampled + seen.terms.undecided
    worst = max(arms, key=lambda one: int(one["shed_n"]), default=None)
    if worst is not None and chosen and worst["shed_n"] / chosen > _SHED:
        part, why = share(worst["shed_n"] / chosen), worst["shed"][0][0]
        where = f"{worst['shadow']}, {worst['mode']}"
        found.append(f"{part} of {count(chosen)} were shed ({where}; most for {why}): more than is comfortable.")
    found += [
        f"{one['shadow']}, {one['mode']}: the counts leave {count(one['residual'])} unexplained."
        for one in arms
        if one["residual"]
    ]
    return found
