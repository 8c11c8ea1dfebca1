"""The law that nothing goes uncounted, as arithmetic over two independent ledgers: the traffic processes' slots and the store's counts.

received = not_sampled + sampled + undecided, and for each shadow and mode
sampled + undecided = compared + incomparable + shed + in_flight.

``undecided`` are exchanges offered to a sampling rule that needs the body and not decided by the judge: still under way, or shed before
it could be; without such rules it is 0. House rules. Pure; nothing is rounded, clamped or made up to fit: each term is counted where it
happens, and ``residual`` is what they leave.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from proxy.counters import Slot
from proxy.ledger.reconcile import Arm
from proxy.ledger.store import Key
from proxy.ledger.totals import Totals


class ArmTerms(Struct, frozen=True):
    """One shadow and mode. ``shed`` by reason, the traffic processes' own sheds included.

    ``open`` replies not yet whole, ``queued`` waiting for the judge, ``unsettled`` handed over and not settled; ``held`` is what the
    judge itself says it is working on (None when it does not say), so that ``in_transit`` is on its way to it: at rest 0, or died with
    a process and to be counted as shed by the next reconciliation.
    """

    compared: int
    incomparable: dict[str, int]
    shed: dict[str, int]
    open: int
    queued: int
    unsettled: int
    held: int | None
    residual: int

    @property
    def in_flight(self) -> int:
        """Exchanges that have not ended."""
        return self.open + self.queued + self.unsettled

    @property
    def in_transit(self) -> int | None:
        """Handed over, neither settled nor in the judge's hands; negative when something was settled twice."""
        return None if self.held is None else self.unsettled - self.held


class Terms(Struct, frozen=True):
    """Everything the law speaks of."""

    received: int
    not_sampled: int
    sampled: int
    undecided: int
    arms: dict[Arm, ArmTerms]

    @property
    def residual(self) -> int:
        """What the first law leaves: 0."""
        return self.received - self.not_sampled - self.sampled - self.undecided


def conservation(
    totals: Totals, counts: Mapping[Key, int], arms: Collection[Arm], held: Mapping[Arm, int] | None = None
) -> Terms:
    """Put the terms together. Read ``counts`` before ``totals``: then what is settled meanwhile shows as in flight, never as negative.

    ``arms``: the configured shadows and modes; those only in ``counts`` (no longer configured) are left out, since what is handed over
    now is no longer meant for them.
    """
    chosen = _by_outcome(counts, Arm("", ""))
    decided = sum(chosen.get("sampled", {}).values())
    declined = sum(chosen.get("not_sampled", {}).values())
    sampled = totals[Slot.SAMPLED] + decided
    undecided = totals[Slot.OFFERED] - decided - declined
    return Terms(
        received=totals[Slot.RECEIVED],
        not_sampled=totals[Slot.NOT_SAMPLED] + declined,
        sampled=sampled,
        undecided=undecided,
        arms={
            arm: _arm(
                totals,
                _by_outcome(counts, arm),
                sampled + undecided,
                declined,
                None if held is None else held.get(arm, 0),
            )
            for arm in arms
        },
    )


def _arm(
    totals: Totals, ended: Mapping[str, Mapping[str, int]], selected: int, declined: int, held: int | None
) -> ArmTerms:
    compared = sum(ended.get("compared", {}).values())
    incomparable = dict(ended.get("incomparable", {}))
    settled_shed = ended.get("shed", {})
    settled = compared + sum(incomparable.values()) + sum(settled_shed.values())
    shed = {"queue": totals[Slot.SHED_QUEUE], "capture": totals[Slot.SHED_CAPTURE]}
    for reason, n in settled_shed.items():
        shed[reason] = shed.get(reason, 0) + n
    unsettled = totals[Slot.HANDED_OVER] - declined - settled
    under_way = totals[Slot.OPEN_SAMPLED] + totals[Slot.QUEUED] + unsettled
    return ArmTerms(
        compared=compared,
        incomparable=incomparable,
        shed=shed,
        open=totals[Slot.OPEN_SAMPLED],
        queued=totals[Slot.QUEUED],
        unsettled=unsettled,
        held=held,
        residual=selected - compared - sum(incomparable.values()) - sum(shed.values()) - under_way,
    )


def _by_outcome(counts: Mapping[Key, int], arm: Arm) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for key, n in counts.items():
        if (key.shadow, key.mode) == arm:
            found.setdefault(key.outcome, {})[key.reason] = n
    return found
