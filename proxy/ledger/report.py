"""The report (schema ``parhelion.report/1``) from the records and the counts: all that is shown to people comes from this dict.

House rules. Every number is summed up by ``proxy.compare.summary`` from records that ``export`` gives out, or is a term of the conservation
law; nothing is computed twice. What was not measured is absent. Shadows are those
configured and those that the store knows: what was recorded is shown, whatever the configuration says by now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from msgspec import Struct, field

from engines.capabilities import Level
from proxy.compare.comparison import Comparison, Mode, Source
from proxy.compare.layers import LAYER_OF, Evidence, place
from proxy.compare.summary import summarise_forced, summarise_free, summarise_latency
from proxy.config import Config
from proxy.ledger import anytime, changes, engine_state, hours, tie_report, verdicts, where
from proxy.ledger.conservation import ArmTerms, Terms
from proxy.ledger.engine_state import EngineState
from proxy.ledger.finer import growth
from proxy.ledger.headlines import headlines
from proxy.ledger.known_count import KnownCount
from proxy.ledger.query import Filter
from proxy.ledger.reconcile import Arm
from proxy.ledger.record import Record
from proxy.ledger.remedies import Engine, advice
from proxy.ledger.segments import Gathered, Pair, Segment, Segments
from proxy.ledger.stack import stack_differences
from proxy.ledger.store import Key, Store
from proxy.ledger.tallies import Tallies

SCHEMA = "parhelion.report/1"
_SOURCES = list(Source)  # best first


class Known(Struct, frozen=True):
    """One shadow of the report. ``role`` is "unknown" for one that is only counted: a count does not say."""

    name: str
    role: str
    modes: tuple[str, ...]


class Read(Struct):
    """One pass over the records. ``sources``: by exchange the best source of any of its comparisons (index into ``Source``)."""

    shadows: dict[str, Segments] = field(default_factory=dict)
    changes: list[changes.Change] = field(default_factory=list)
    sources: dict[str, int] = field(default_factory=dict)
    models: Counter[str] = field(default_factory=Counter)
    footprints: dict[str, str] = field(default_factory=dict)
    exchanges: set[str] = field(default_factory=set)
    roles: dict[str, str] = field(default_factory=dict)
    counts: Mapping[Key, int] = field(default_factory=dict)
    tallies: Tallies = field(default_factory=dict)
    hourly: Sequence[hours.Conversations] = ()
    engines: Mapping[str, EngineState] = field(default_factory=dict)
    records: int = 0

    def take(self, record: Record) -> None:
        """Take in one record; later ones have the last word on footprints and roles."""
        self.records += 1
        if record.exchange not in self.exchanges:
            self.exchanges.add(record.exchange)
            self.models[record.model] += 1
        self.roles[record.shadow] = record.role
        for arm, footprint in (("primary", record.primary_footprint), (record.shadow, record.shadow_footprint)):
            if footprint:
                self.footprints[arm] = footprint
        if record.comparison.source is not None:
            rank = _SOURCES.index(record.comparison.source)
            self.sources[record.exchange] = min(rank, self.sources.get(record.exchange, rank))
        self.of(record.shadow).take(record)

    def of(self, shadow: str) -> Segments:
        """Return a shadow's records."""
        if shadow not in self.shadows:
            own = [one for one in self.changes if one.arm in ("primary", shadow)]
            self.shadows[shadow] = Segments(own)
        return self.shadows[shadow]


def build_report(
    config: Config,
    store: Store | None,
    terms: Terms | None = None,
    *,
    command: str,
    now: float,
    wanted: Filter | None = None,
) -> dict[str, Any]:
    """Build the report; JSON-ready.

    ``store`` None: there is none yet. Shadows come in the order of the configuration, then those that only the store knows, by
    name. ``terms`` (see ``conservation``) give requests, sheds and what has no record; they are of all time,
    so leave them out when ``wanted`` asks for a part. ``now`` is Unix seconds. Raises StoreError.
    """
    read, marked = Read(), KnownCount(config, now)
    footprints: dict[str, dict[str, Any]] = {}
    if store is not None:
        if wanted is None or terms is not None:  # counts are of all time
            read.counts = store.counts()
        read.tallies = store.tallies()
        read.hourly = growth(store.read)
        read.changes = changes.changes_of(store.events())
        read.engines = engine_state.decode(store.get_state(engine_state.KEY))
        for record in store.records(wanted):
            read.take(record)
            marked.take(record)
        used = {
            *read.footprints.values(),
            *(id_ for one in read.shadows.values() for pair in one.by_pair for id_ in pair),
        }
        footprints = {id_: store.footprint(id_) or {} for id_ in used if id_}
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        "command": command,
        "records": read.records,
        "models": dict(read.models.most_common()),
    }
    if read.models:
        report["model"] = read.models.most_common(1)[0][0]
    sources = Counter(_SOURCES[rank] for rank in read.sources.values())
    report["primary"] = {
        "footprint": footprints.get(read.footprints.get("primary", ""), {}),
        "footprint_id": read.footprints.get("primary", ""),
        "tokens_source": {source.value: sources[source] for source in Source},
    }
    report["primary"] |= _capability(read.engines.get("primary"))
    report["changes"] = [changes.shown(one) for one in read.changes]
    if terms is not None:
        report["requests"] = {
            "received": terms.received,
            "not_sampled": terms.not_sampled,
            "sampled": terms.sampled,
            "undecided": terms.undecided,
        }
    shadows = _known(config, read)
    controls = {mode: _control(shadows, read, mode) for mode in Mode}
    report["shadows"] = [
        _shadow(shadow, read, controls, terms, footprints)
        | (
            {"verdict": verdicts.shown(read.tallies, shadow.name, config, read.hourly)}
            if shadow.role == "candidate"
            else {}
        )
        for shadow in shadows
    ]
    anytime.add(report["shadows"], read.shadows, config.verdict.alpha)
    for shadow in report["shadows"]:
        own = {mode: read.of(shadow["name"]).latest(mode.value) for mode in Mode}
        floors = {mode: _floor(shadow["name"], read, controls, mode) for mode in Mode}
        where.add(shadow, own, floors, config.verdict.alpha)
    return report | marked.shown()


def _known(config: Config, read: Read) -> list[Known]:
    """List the configured shadows, then those only in the store; each with the modes that it has or had."""
    had = {Arm(name, mode) for name, one in read.shadows.items() for mode in one.modes}
    had |= {*(Arm(key.shadow, key.mode) for key in read.counts if key.shadow)}
    configured = {shadow.name: shadow for shadow in config.shadows}
    known: list[Known] = []
    judged = {scope.candidate for scope in read.tallies}
    for name in [*configured, *sorted(({arm.shadow for arm in had} | judged) - configured.keys())]:
        shadow = configured.get(name)
        modes = {*(shadow.modes if shadow else ()), *(arm.mode for arm in had if arm.shadow == name)}
        role = shadow.role if shadow else read.roles.get(name, "candidate" if name in judged else "unknown")
        known.append(Known(name, role, tuple(mode.value for mode in Mode if mode.value in modes)))
    return known


def _control(shadows: Sequence[Known], read: Read, mode: Mode) -> str | None:
    """Name the control that makes the noise floor of a mode: the first that has records in it."""
    controls = [shadow.name for shadow in shadows if shadow.role == "control"]
    return next((name for name in controls if mode.value in read.of(name).modes), None)


def _floor(name: str, read: Read, controls: Mapping[Mode, str | None], mode: Mode) -> Gathered | None:
    """Return what a shadow is held against in a mode: the control's comparisons with the same primary."""
    control = controls[mode]
    if control in (None, name) or read.of(control).pair.primary != read.of(name).pair.primary:
        return None
    return read.of(control).latest(mode.value)


def _shadow(
    shadow: Known,
    read: Read,
    controls: Mapping[Mode, str | None],
    terms: Terms | None,
    footprints: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    name, segments = shadow.name, read.of(shadow.name)
    free, forced = segments.latest("free"), segments.latest("forced")
    pair = segments.pair
    primary = footprints.get(pair.primary or read.footprints.get("primary", ""), {})
    own = footprints.get(pair.shadow or read.footprints.get(name, ""), {})
    floors = {mode: _floor(name, read, controls, mode) for mode in Mode}
    summaries = _summaries(shadow.modes, free, forced, floors)
    for kind, mine in ((Mode.FREE, free), (Mode.FORCED, forced)):
        tie_report.beyond_noise(summaries.get(kind.value), mine, mine if controls[kind] == name else floors[kind])
    for mode, summary in summaries.items():
        if terms is not None:
            counted = terms.arms.get(Arm(name, mode))
            summary.update(_counted(counted) if counted is not None else _settled(read.counts, Arm(name, mode)))
    return {
        "name": name,
        "role": shadow.role,
        "footprint": own,
        "footprint_ids": pair._asdict(),
        "footprint_differences": stack_differences(primary, own),
        **_capability(read.engines.get(name)),
        "findings": sorted(
            [
                *changes.finding(segments.changes),
                *_findings(chain(free.comparisons, forced.comparisons), name, primary, own),
            ],
            key=lambda one: place(one["finding"]),
        ),
        "modes": summaries,
        "earlier": [_earlier(shadow, pair, one, primary, own, footprints) for pair, one in segments.earlier()],
        "left_out_between_stacks": segments.unsure,
        "ties": tie_report.ties(free, forced, (primary, own)),
        "latency": _latency(free),
    }


def _summaries(
    modes: Sequence[str], free: Gathered, forced: Gathered, floors: Mapping[Mode, Gathered | None]
) -> dict[str, dict[str, Any]]:
    summaries: dict[str, dict[str, Any]] = {}
    if "free" in modes:
        summaries["free"] = summarise_free(free.comparisons)
        summaries["free"] |= headlines(Mode.FREE, free, floors.get(Mode.FREE))
    if "forced" in modes:
        summaries["forced"] = summarise_forced(forced.comparisons)
        summaries["forced"] |= headlines(Mode.FORCED, forced, floors.get(Mode.FORCED))
    return summaries


def _earlier(
    shadow: Known,
    pair: Pair,
    segment: Segment,
    primary: Mapping[str, Any],
    own: Mapping[str, Any],
    footprints: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """Say what was compared with an earlier pair of stacks, and in what that one differs from the latest."""
    made = segment.modes
    changed = {
        arm: stack_differences(footprints.get(id_, {}), latest, ("before", "after"))
        for arm, id_, latest in (("primary", pair.primary, primary), (shadow.name, pair.shadow, own))
    }
    return {
        "footprint_ids": pair._asdict(),
        "first": changes.moment(segment.first),
        "last": changes.moment(segment.last),
        "changed_since": {arm: found for arm, found in changed.items() if found},
        "modes": _summaries(tuple(made), made.get("free", Gathered()), made.get("forced", Gathered()), {}),
    }


def _capability(state: EngineState | None) -> dict[str, Any]:
    """Say how much of an engine can be compared, and how its stack is known; nothing where that is not known."""
    if state is None or state.level not in set(Level):
        return {}
    level = Level(state.level)
    return {
        "footprint_origins": state.origins,
        "capability": {
            "level": level.value,
            "modes": [mode.value for mode in level.modes],
            "compared": level.meaning,
        },
    }


def _counted(terms: ArmTerms) -> dict[str, Any]:
    """Say what the ledgers know of an arm: they count what has no record, too."""
    return {
        "compared": terms.compared,
        "incomparable": dict(sorted(terms.incomparable.items())),
        "shed": {reason: n for reason, n in sorted(terms.shed.items()) if n},
        "in_flight": terms.in_flight,
    }


def _settled(counts: Mapping[Key, int], arm: Arm) -> dict[str, Any]:
    """Say what the store has counted of an arm that is no longer configured: nothing of it is in flight."""
    found = {key: n for key, n in counts.items() if (key.shadow, key.mode) == arm and n}
    if not found:
        return {}
    reasons: dict[str, dict[str, int]] = {
        outcome: {key.reason: n for key, n in sorted(found.items()) if key.outcome == outcome}
        for outcome in ("compared", "incomparable", "shed")
    }
    return reasons | {"compared": sum(reasons["compared"].values())}


def _findings(
    comparisons: Iterable[Comparison], name: str, primary: Mapping[str, Any], shadow: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """List what was found, by layer, each with the evidence of the latest comparison that has some."""
    counted: Counter[str] = Counter()
    latest: dict[str, Evidence] = {}
    for one in comparisons:
        counted.update(one.findings)
        latest |= one.evidence
    arms = {"primary": Engine("primary", _dialect(primary)), "shadow": Engine(name, _dialect(shadow))}
    found = []
    for finding in sorted(counted, key=place):
        evidence = latest.get(finding, {})
        told = advice(finding, evidence, arms)
        found.append({
            "finding": finding,
            "layer": LAYER_OF[finding].value if finding in LAYER_OF else None,
            "severity": told.severity,
            "count": counted[finding],
            "evidence": evidence,
            "remedy": told.remedy,
        })  # fmt: skip
    return found


def _dialect(footprint: Mapping[str, Any]) -> str:
    return str(footprint.get("engine") or "")


def _latency(free: Gathered) -> dict[str, Any]:
    """Summarise the timings of the exchanges that the shadow answered on its own; scoring has no pace to compare."""
    made = [
        timing
        for one, timing in zip(free.comparisons, free.timings, strict=True)
        if one.mode is Mode.FREE and timing[1].end is not None
    ]
    return summarise_latency(
        ([primary.first_token for primary, _ in made], [shadow.first_token for _, shadow in made]),
        (
            chain.from_iterable(primary.gaps for primary, _ in made),
            chain.from_iterable(shadow.gaps for _, shadow in made),
        ),
    )
