"""What Parhelion says of simulated arms: their replies through the comparison, its records through a store, and the report of them.

The order is the judge's: a near-tie threshold is asked for before a comparison and learned from after it, the control is compared beside the candidate.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.compare.compare_forced import compare_forced
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import ChoiceComparison, Comparison, Mode, Source
from proxy.compare.layers import NOTHING, Known
from proxy.compare.token_stream import Reply, TokenStream
from proxy.compare.trial import Sight, look, trial
from proxy.config import Config, Shadow
from proxy.judge.noise import NoiseBook
from proxy.ledger.reconcile import SETTLED
from proxy.ledger.record import Record, RequestFacts, Settlement
from proxy.ledger.report import build_report
from proxy.ledger.store import Store
from proxy.ledger.tallies import Counted, Scope
from tests.known_truth.arms import Arm, Ids

BEGUN = 1_796_000_000.0
CONFIG = Config(shadows=(Shadow("candidate", "http://c"), Shadow("control", "http://d", role="control")))


@dataclass(frozen=True)
class Seen:
    """A report and the comparisons behind it. ``primary``: what it said, by conversation."""

    report: dict[str, Any]
    comparisons: dict[tuple[str, Mode], list[Comparison]]
    primary: list[TokenStream]

    @property
    def candidate(self) -> dict[str, Any]:
        """The candidate's part of the report."""
        return next(one for one in self.report["shadows"] if one["name"] == "candidate")

    @property
    def control(self) -> dict[str, Any]:
        """The control's part."""
        return next(one for one in self.report["shadows"] if one["name"] == "control")

    def mode(self, name: str) -> dict[str, Any]:
        """The candidate's numbers of one mode."""
        return self.candidate["modes"][name]

    def of(self, mode: Mode, shadow: str = "candidate") -> list[Comparison]:
        """Comparisons of a shadow."""
        return self.comparisons.get((shadow, mode), [])

    def choices(self, mode: Mode, shadow: str = "candidate") -> Iterator[ChoiceComparison]:
        """Their choices."""
        return (choice for one in self.of(mode, shadow) for choice in one.choices)

    @property
    def tally(self) -> dict[str, int]:
        """Conversations by what they say towards the verdict, without those that are none."""
        return {result: n for result, n in self.candidate["verdict"]["tally"].items() if n}

    def said(self) -> dict[str, dict[str, int]]:
        """All that the report says is different, and nothing that it says is not: findings, differences by class, reasons for not comparing."""
        return said(self.candidate)


def said(shadow: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The same of any shadow's part of a report."""
    free, forced = (shadow["modes"].get(name, {}) for name in ("free", "forced"))
    blocks = {
        "findings": {one["finding"]: one["count"] for one in shadow["findings"]},
        "free": free.get("divergences", {}),
        "forced": forced.get("flips", {}),
        "incomparable": Counter(free.get("incomparable", {})) + Counter(forced.get("incomparable", {})),
    }
    counted = {block: {name: n for name, n in counts.items() if n} for block, counts in blocks.items()}
    return {block: counts for block, counts in counted.items() if counts}


def no_numbers(mode: dict[str, Any]) -> bool:
    """Whether a mode of a report shows nothing that came of setting values against each other."""
    drift = {
        "logprob_error_nats", "relative_error", "probability_error", "kl_lower_bound_nats", "tv_lower_bound",
        "mean_difference_nats", "k1", "k3", "correlation",
    }  # fmt: skip
    return not drift & mode.keys()


def as_it_is(ids: Ids) -> Ids:
    """The prompt as the model's own template makes it."""
    return ids


Rendered = Callable[[Ids], Ids]


def watch(
    primary: Arm,
    candidate: Arm,
    control: Arm | None = None,
    *,
    conversations: int = 40,
    length: int = 64,
    drawn: bool = False,
    prompts: tuple[Rendered, Rendered] = (as_it_is, as_it_is),
    known: Known = NOTHING,
) -> Seen:
    """Have conversations mirrored to the candidate (and the control) in both modes.

    ``prompts``: what the primary (and the control) and the candidate make of a prompt. ``drawn``: replies are sampled. ``known``: what is known of the candidate before.
    """
    book = NoiseBook(None)
    found: dict[tuple[str, Mode], list[Comparison]] = {}
    said_: list[TokenStream] = []
    for number in range(conversations):
        asked, other = (rendered(primary.world.prompt(number)) for rendered in prompts)
        mine = primary.reply(asked, length, drawn_by="client" if drawn else None)
        said_.append(mine)
        taus = book.taus("m", "")
        for name, arm, its in (("candidate", candidate, other), ("control", control, asked)):
            if arm is None:
                continue
            own = Known() if name == "control" else known
            theirs = arm.reply(its, length, drawn_by=name if drawn else None)
            free = compare_free(
                Reply(choices=(mine,)), Reply(choices=(theirs,)), source=Source.REPLY, tau=taus.free, greedy=not drawn, known=own
            )  # fmt: skip
            forced = compare_forced(
                Reply(choices=(mine,)), [arm.score(its, [one.id or 0 for one in mine.tokens])], source=Source.REPLY,
                tau=taus.forced, greedy=not drawn, unfiltered=drawn, shadow_prompt_ids=its, known=own,
            )  # fmt: skip
            for one in (free, forced):
                found.setdefault((name, one.mode), []).append(one)
        for (name, _), comparisons in found.items():
            book.learn("m", comparisons[-1], control=name == "control")
    return Seen(reported(found), found, said_)


def reported(found: dict[tuple[str, Mode], Sequence[Comparison]], config: Config = CONFIG) -> dict[str, Any]:
    """The report of comparisons, one of each a conversation, through records in a store of their own."""
    with tempfile.TemporaryDirectory() as directory, Store.open(f"sqlite:///{Path(directory) / 'records.db'}") as store:
        store.settle(list(_settlements(found)))
        return build_report(config, store, command="known truth", now=0.0)


def _settlements(found: dict[tuple[str, Mode], Sequence[Comparison]]) -> Iterable[Settlement]:
    for (shadow, mode), comparisons in found.items():
        for number, comparison in enumerate(comparisons):
            record = Record(
                id=f"{shadow} {mode.value} {number}", time=BEGUN + number, exchange=f"x{number}", model="m",
                endpoint="chat_completions", shadow=shadow, role=shadow, comparison=comparison,
                request=RequestFacts(temperature=0.0, prompt_tokens=8, shadow_prompt_tokens=8),
                primary_footprint="p", shadow_footprint=shadow, conversation=f"c{number}", prompt=f"p{number}",
            )  # fmt: skip
            reason = comparison.incomparable
            outcome = "compared" if reason is None else "incomparable"
            yield Settlement("i", shadow, mode.value, outcome, reason or "", record)
    yield Settlement("i", "", "", SETTLED, trials=tuple(_trials(found)))


def _trials(found: dict[tuple[str, Mode], Sequence[Comparison]]) -> Iterable[Counted]:
    """What each conversation says towards the candidate's verdict."""
    controlled = any(shadow == "control" for shadow, _ in found)
    scope = Scope("candidate", "p", "candidate", *(("control", "control") if controlled else ()))
    for number in range(max(map(len, found.values()))):
        sights: dict[str, dict[Mode, Sight]] = {"candidate": {}, "control": {}}
        for (shadow, mode), comparisons in found.items():
            sights[shadow][mode] = look(mode, comparisons[number])
        one = trial(sights["candidate"], sights["control"] if controlled else None)
        if one is not None:
            yield Counted(scope, f"c{number}", f"p{number}", BEGUN + number, one.result, one.by, one.control_by)
