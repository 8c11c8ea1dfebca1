"""Three sources as one page for Prometheus: the traffic processes' counters, the store's counts, the judge's last snapshot.

House rules. Pure but for the clock that is handed in: values in, text out. A source that is missing leaves its families out, never at 0;
where a source is there, every configured series is there from the start, so that the first event is seen as a rise.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.samples import Exemplar as SampleExemplar

from proxy.counters import ENDPOINTS, Slot
from proxy.ledger.conservation import Terms
from proxy.ledger.metrics import BY_NAME, METRICS, PREFIX, Metric
from proxy.ledger.operation import Standing
from proxy.ledger.series import Exemplar, Snapshot
from proxy.ledger.totals import Totals

PLAIN = CONTENT_TYPE_PLAIN_0_0_4
Rows = Iterable[tuple[tuple[str, ...], float]]

_SINGLE = {
    "client_disconnects_total": Slot.CLIENT_DISCONNECTS,
    "refused_heads_total": Slot.REFUSED_HEADS,
    "primary_unreachable_total": Slot.PRIMARY_UNREACHABLE,
    "open_streams": Slot.OPEN_STREAMS,
    "client_connections": Slot.CLIENT_CONNECTIONS,
    "opted_out_total": Slot.OPTED_OUT,
    "handoff_bytes": Slot.QUEUED_BYTES,
}


#: (label values, counts by bucket, sum, exemplars by bucket)
HistogramRow = tuple[tuple[str, ...], list[int], float, Mapping[int, Exemplar]]


def families(
    terms: Terms,
    totals: Totals,
    snapshot: Snapshot | None,
    *,
    now: float,
    store_up: bool,
    standing: Standing | None = None,
) -> Iterator[Family]:
    """Merge everything into families, in the order of ``METRICS``. ``standing``: how the replica is operated, where that is known.

    Without the store (``store_up`` false) only those ``terms`` are shown that the traffic processes know alone: received and, unless a
    sampling rule has ever left a decision to the judge, sampled and not sampled.
    """
    found = {name: _plain(name, rows) for name, rows in _traffic(totals, terms, store_up=store_up)}
    found |= {one.name: _histogram(one, rows) for one, rows in _traffic_histograms(totals)}
    if store_up:
        found |= {name: _plain(name, rows) for name, rows in _store(terms)}
    if snapshot is not None:
        found |= _judge(snapshot)
        found[PREFIX + "judge_snapshot_age_seconds"] = _plain(
            "judge_snapshot_age_seconds", [((), max(0.0, now - snapshot.time))]
        )
    found["build_info"] = _plain("build_info", [((build(), platform.python_version()), 1)])
    found["store_up"] = _plain("store_up", [((), int(store_up))])
    if standing is not None:
        found |= {name: _plain(name, rows) for name, rows in _standing(standing)}
    by_name = {family.name: family for family in found.values()}
    for metric in METRICS:
        if (family := by_name.get(metric.name.removesuffix("_total"))) is not None:
            yield family


def render(merged: Sequence[Family], accept: str) -> tuple[bytes, str]:
    """Write families as OpenMetrics when the scraper accepts it, else as plain text; return the body and its content type.

    Exemplars exist in OpenMetrics only.
    """

    class Merged:
        def collect(self) -> Iterable[Family]:
            return merged

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Merged())
    if "application/openmetrics-text" in accept:
        body: bytes = generate_openmetrics(registry)  # type: ignore[no-untyped-call]  # the library leaves it untyped
        return body, OPENMETRICS
    return generate_latest(registry), PLAIN


def build() -> str:
    """Return the version of the installed distribution, "unknown" in a bare checkout."""
    try:
        return version("parhelion")
    except PackageNotFoundError:
        return "unknown"


def _traffic(totals: Totals, terms: Terms, *, store_up: bool) -> Iterator[tuple[str, Rows]]:
    for name, slot in _SINGLE.items():
        yield name, [((), totals[slot])]
    yield "requests_total", [((endpoint, str(code)), n) for endpoint, code, n in totals.counters.requests()]
    yield "received_total", [((), terms.received)]
    if store_up or not totals[Slot.OFFERED]:  # else the judge's own decisions are missing from them
        yield "not_sampled_total", [((), terms.not_sampled)]
        yield "sampled_total", [((), terms.sampled)]
        yield "undecided", [((), terms.undecided)]


def _traffic_histograms(totals: Totals) -> Iterator[tuple[Metric, list[HistogramRow]]]:
    counters = totals.counters
    durations: list[HistogramRow] = []
    for number, endpoint in enumerate(ENDPOINTS):
        counts, total = counters.duration_buckets(number)
        if any(counts):
            durations.append(((endpoint,), counts, total, {}))
    yield BY_NAME[PREFIX + "request_duration_seconds"], durations
    yield BY_NAME[PREFIX + "overhead_seconds"], [((), *counters.overhead_buckets(), {})]


def _store(terms: Terms) -> Iterator[tuple[str, Rows]]:
    arms = terms.arms.items()
    yield "compared_total", [(arm, one.compared) for arm, one in arms]
    yield "incomparable_total", [((*arm, why), n) for arm, one in arms for why, n in sorted(one.incomparable.items())]
    yield "shed_total", [((*arm, why), n) for arm, one in arms for why, n in sorted(one.shed.items())]
    yield "in_flight", [(arm, one.in_flight) for arm, one in arms]


def _standing(standing: Standing) -> Iterator[tuple[str, Rows]]:
    yield "mirror_enabled", [((name,), int(on)) for name, on in standing.mirrored.items()]
    yield "config_reload_failed", [((), int(standing.reload_failed))]
    yield "config_reload_success_timestamp_seconds", [((), standing.configured_at)]


def _judge(snapshot: Snapshot) -> dict[str, Family]:
    found: dict[str, Family] = {}
    for name, points in snapshot.points.items():
        if name in BY_NAME:
            found[name] = family = _family(BY_NAME[name])
            for labels, point in sorted(points.items()):
                exemplar = _exemplar(point.exemplar)
                family.add_sample(name, _labels(BY_NAME[name], labels), point.value, exemplar=exemplar)
    for name, histograms in snapshot.histograms.items():
        if name in BY_NAME:
            rows = [(labels, one.counts, one.sum, one.exemplars) for labels, one in sorted(histograms.items())]
            found[name] = _histogram(BY_NAME[name], rows)
    return found


def _plain(name: str, rows: Rows) -> Family:
    metric = BY_NAME[PREFIX + name]
    family = _family(metric)
    for labels, value in rows:
        family.add_sample(metric.name, _labels(metric, labels), value)
    return family


def _histogram(metric: Metric, rows: Iterable[HistogramRow]) -> Family:
    family = _family(metric)
    edges = [str(edge) for edge in metric.buckets] + ["+Inf"]
    for labels, counts, total, exemplars in rows:
        own = _labels(metric, labels)
        below = 0
        for number, (edge, count) in enumerate(zip(edges, counts, strict=True)):
            below += count
            exemplar = _exemplar(exemplars.get(number))
            family.add_sample(metric.name + "_bucket", own | {"le": edge}, below, exemplar=exemplar)
        family.add_sample(metric.name + "_count", own, below)
        family.add_sample(metric.name + "_sum", own, total)
    return family


def _family(metric: Metric) -> Family:
    return Family(metric.name.removesuffix("_total"), f"{metric.help} ({metric.why})", metric.kind, metric.unit)


def _labels(metric: Metric, values: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(metric.labels, values, strict=True))


def _exemplar(one: Exemplar | None) -> SampleExemplar | None:
    return None if one is None else SampleExemplar({"record_id": one.record[:64]}, one.value, one.time)
