"""Rollouts added up one after another, and what they come to: memory grows by eight bytes a rollout, and never by a token beyond a bound.

House rules. Pure. The sums are those of the comparison of engines (``compare.addends``), so a number has one meaning in the whole product. Rollouts are resampled whole;
beyond ``BAGS`` of them in as many bags of rollouts, whose sums are as good as single ones.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from math import expm1, fsum, sqrt
from typing import Any

from proxy.compare.addends import Addends, of_values
from proxy.compare.bins import fixed
from proxy.compare.by_position import bucket, start
from proxy.compare.headline import numbers_of
from proxy.compare.resampled import Arm
from proxy.rollouts import weights
from proxy.rollouts.bounded_bins import BoundedBins
from proxy.rollouts.measured import IN_BUCKETS, QUANTITIES, Measured, Settings, Worst
from proxy.rollouts.rollout import Rollout, Unusable, values
from proxy.rollouts.shifted import Shifted

BAGS = 4096
#: exp of this, squared and added up, is still a float; a weight beyond it is one token against all others anyhow.
_LARGEST_LOG = 300.0

_Bags = dict[str, Addends]


class Tally:
    """Add rollouts, then ask for ``measured``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.unusable: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._rollouts = self._tokens = 0
        self._bags: _Bags = {}
        self._bins = BoundedBins()
        self._logs = array("d")
        self._positions: dict[int, _Bags] = {}
        self._lengths: dict[int, _Bags] = {}
        self._length_counts: Counter[int] = Counter()
        self._worst: list[tuple[float, int, Worst]] = []
        self._shifted = Shifted()

    def add(self, rollout: Rollout) -> None:
        """Take a rollout in, or count why it cannot be."""
        try:
            seen = values(rollout)
        except Unusable as reason:
            self.unusable[reason.reason] += 1
            return
        self._left_out += seen.left_out
        if not seen.ps:
            self.unusable["not_scored" if rollout.scored else "no_values"] += 1
            return
        bag = str(self._rollouts % BAGS)
        self._rollouts += 1
        self._tokens += len(seen.ps)
        unfiltered = rollout.unfiltered if self.settings.unfiltered is None else self.settings.unfiltered
        differences = [q - p for p, q in zip(seen.ps, seen.qs, strict=True)]
        made = of_values(list(zip(seen.ps, seen.qs, strict=True)), is_kl=unfiltered is True)
        self._weigh(made.sums, differences)
        self._logs.append(fsum(differences))
        self._slice(bag, seen.positions, differences)
        number = bucket(len(rollout.response_ids))
        self._length_counts[number] += 1
        _into(self._lengths, number, bag, made.sums)
        self._bins.take(self._bags.setdefault(bag, Addends()), made)
        self._note(rollout, seen.positions, differences)
        self._shifted.add(seen.ps, seen.qs)

    def _weigh(self, sums: Counter[str], differences: Sequence[float]) -> None:
        ratios = [expm1(min(one, _LARGEST_LOG)) + 1.0 for one in differences]
        low, high = 1.0 - self.settings.clip_low, 1.0 + self.settings.clip_high
        sums["squared"] = fixed(fsum(one * one for one in differences))
        sums["weight"] = fixed(fsum(ratios))
        sums["weight_squared"] = fixed(fsum(one * one for one in ratios))
        ordered = sorted(ratios)
        sums["clipped_low"] = bisect_left(ordered, low)
        sums["clipped_high"] = len(ordered) - bisect_right(ordered, high)
        sums["clipped"] = sums["clipped_low"] + sums["clipped_high"]
        sums["truncated"] = len(ordered) - bisect_right(ordered, self.settings.cap)

    def _slice(self, bag: str, positions: Sequence[int], differences: Sequence[float]) -> None:
        low = 0
        while low < len(positions):
            number = bucket(positions[low])
            high = bisect_left(positions, start(number + 1), low)
            part = differences[low:high]
            sums = Counter({
                "values": len(part),
                "error": fixed(fsum(map(abs, part))),
                "difference": fixed(fsum(part)),
                "k3": fixed(fsum(expm1(min(one, _LARGEST_LOG)) - one for one in part)),
            })  # fmt: skip
            _into(self._positions, number, bag, sums)
            low = high

    def _note(self, rollout: Rollout, positions: Sequence[int], differences: Sequence[float]) -> None:
        least = self._worst[0][0] if len(self._worst) >= self.settings.worst else -1.0
        if self.settings.worst < 1 or max(map(abs, differences)) <= least:
            return
        for position, difference in zip(positions, differences, strict=True):
            if abs(difference) <= least:
                continue
            assert rollout.trainer_logprobs is not None
            p, q = rollout.rollout_logprobs[position], rollout.trainer_logprobs[position]
            one = Worst(self._rollouts, rollout.name, position, rollout.response_ids[position], p or 0.0, q or 0.0, difference)  # fmt: skip
            heapq.heappush(self._worst, (abs(difference), -(self._tokens * 2 + position), one))
            if len(self._worst) > self.settings.worst:
                heapq.heappop(self._worst)
                least = self._worst[0][0]

    def measured(self) -> Measured:
        """Return what all rollouts so far come to."""
        arm = Arm(self._bags)
        numbers = self._bins.numbers(numbers_of(QUANTITIES, arm, Arm({}), known=True))
        square = numbers.pop("mean_square_difference", None)
        if square is not None:
            numbers["rms_difference_nats"] = _rooted(square)
        for name, found in (
            ("token_effective_sample_share", weights.of_tokens(self._bags, self._rollouts)),
            ("sequence_effective_sample_share", weights.of_sequences(self._logs, BAGS)),
        ):
            if found:
                numbers[name] = found
        kl = arm.sums["kl_values"] / self._tokens if self._tokens else None
        return Measured(
            rollouts=self._rollouts,
            tokens=self._tokens,
            unusable=dict(self.unusable),
            left_out=dict(self._left_out),
            settings=self.settings,
            k3_is_kl=kl,
            numbers={name: self._counted(one) for name, one in numbers.items()},
            by_position=[_range(at) | _bucket(bags) for at, bags in sorted(self._positions.items())],
            by_length=[
                _range(at) | _bucket(bags) | {"rollouts": self._length_counts[at]}
                for at, bags in sorted(self._lengths.items())
            ],
            worst=[one for *_, one in sorted(self._worst, reverse=True)],
            hints=self._hints(numbers),
        )

    def _counted(self, number: dict[str, Any]) -> dict[str, Any]:
        """A number with rollouts in place of conversations, of which bags are counted."""
        number.pop("raw_interval", None)
        bags = number.pop("conversations", None)
        if bags is not None:
            number["rollouts"] = self._rollouts if len(self._bags) == BAGS else bags
        if "no_interval" in number:
            why = number["no_interval"]["interval"]
            number["no_interval"] = "few_rollouts" if why == "few_conversations" else why
        return number

    def _hints(self, numbers: dict[str, dict[str, Any]]) -> list[str]:
        direct = numbers.get("correlation", {}).get("raw")
        return self._shifted.hints(direct) if direct is not None else []


def _into(slices: dict[int, _Bags], number: int, bag: str, sums: Counter[str]) -> None:
    slices.setdefault(number, {}).setdefault(bag, Addends()).sums.update(
        {name: sums[name] for name in ("values", "error", "difference", "k3")}
    )


def _range(number: int) -> dict[str, Any]:
    return {"from": start(number), "to": start(number + 1) - 1}


def _bucket(bags: _Bags) -> dict[str, Any]:
    found = numbers_of(IN_BUCKETS, Arm(bags), Arm({}), known=True)
    tokens = sum(one.sums["values"] for one in bags.values())
    return {"tokens": tokens} | {
        name: {key: one[key] for key in ("raw", "interval") if key in one} for name, one in found.items()
    }


def _rooted(square: dict[str, Any]) -> dict[str, Any]:
    """The root of a mean square, and of its interval's ends: a monotone function takes an interval along."""
    edges = {name: [sqrt(max(0.0, one)) for one in square[name]] for name in ("interval",) if name in square}
    return square | {"raw": sqrt(square["raw"])} | edges
