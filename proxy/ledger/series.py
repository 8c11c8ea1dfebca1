"""The judge's numbers while it lives: counters, gauges and histograms in plain tables that are written down once a second.

House rules. Only declared metrics, only their declared labels. Two bisects a bucket that is met, no lock: one thread owns a table.
A snapshot is complete (another process renders it) and can be resumed, so that a judge's restart never takes a sum back. Times are
handed in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from proxy.ledger.metrics import BY_NAME, PREFIX

Labels = tuple[str, ...]


class Exemplar(Struct, array_like=True, frozen=True, gc=False):
    """The record that was last counted here: its id, the value, Unix seconds."""

    record: str
    value: float
    time: float


class Point(Struct, array_like=True):
    """One series of a counter or gauge."""

    value: float = 0.0
    exemplar: Exemplar | None = None


class Histogram(Struct, array_like=True):
    """One series of a histogram: counts by bucket (not cumulative, the last is +Inf), sum, one exemplar a bucket."""

    counts: list[int]
    sum: float
    exemplars: dict[int, Exemplar]


class Snapshot(Struct):
    """Everything of a judge at one moment (Unix seconds). ``seen``: label values that have their own series, by kind."""

    time: float
    points: dict[str, dict[Labels, Point]]
    histograms: dict[str, dict[Labels, Histogram]]
    seen: dict[str, set[str]]


class Series:
    """The tables; ``snapshot`` and the constructor's ``previous`` are each other's inverse, but for gauges."""

    def __init__(self, previous: bytes | None = None) -> None:
        self.seen: dict[str, set[str]] = {}
        self._points: dict[str, dict[Labels, Point]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        if previous is not None:
            self._resume(decode(previous))

    def _resume(self, old: Snapshot) -> None:
        """Go on from an earlier life's counters and histograms; a series that is no longer declared so is dropped."""
        self.seen = old.seen
        for name, points in old.points.items():
            if (metric := BY_NAME.get(name)) is not None and metric.kind == "counter":
                self._points[name] = {k: v for k, v in points.items() if len(k) == len(metric.labels)}
        for name, kept in old.histograms.items():
            if (metric := BY_NAME.get(name)) is not None and metric.kind == "histogram":
                fits = (len(metric.labels), len(metric.buckets) + 1)
                self._histograms[name] = {k: v for k, v in kept.items() if (len(k), len(v.counts)) == fits}

    def add(self, name: str, labels: Labels, amount: float = 1, exemplar: Exemplar | None = None) -> None:
        """Add to a counter or gauge; ``name`` without the prefix, ``labels`` in the declared order."""
        point = self._point(name, labels)
        point.value += amount
        if exemplar is not None:
            point.exemplar = exemplar

    def set(self, name: str, labels: Labels, value: float) -> None:
        """Set a gauge."""
        self._point(name, labels).value = value

    def forget(self, name: str, first: str) -> None:
        """Drop the series of a gauge whose first label is ``first``: what it said is no longer so."""
        points = self._points.get(PREFIX + name, {})
        for labels in [labels for labels in points if labels[:1] == (first,)]:
            del points[labels]

    def observe(
        self, name: str, labels: Labels, values: Iterable[float | None], record: str = "", now: float = 0.0
    ) -> None:
        """Put values into a histogram; None is left out. ``record`` (an id) and ``now`` make the exemplars."""
        full = PREFIX + name
        edges = BY_NAME[full].buckets
        series = self._histograms.setdefault(full, {})
        found = series.get(labels)
        if found is None:
            found = series[labels] = Histogram([0] * (len(edges) + 1), 0.0, {})
        known = [value for value in values if value is not None]
        if not known:
            return
        known.sort()
        found.sum += sum(known)
        start = 0
        while start < len(known):  # a bucket at a time, for many values share one
            bucket = bisect_left(edges, known[start])
            end = bisect_right(known, edges[bucket], start) if bucket < len(edges) else len(known)
            found.counts[bucket] += end - start
            if record:
                found.exemplars[bucket] = Exemplar(record, known[end - 1], now)
            start = end

    def snapshot(self, now: float) -> bytes:
        """Everything as bytes."""
        return _encoder.encode(Snapshot(now, self._points, self._histograms, self.seen))

    def _point(self, name: str, labels: Labels) -> Point:
        full = PREFIX + name
        assert len(labels) == len(BY_NAME[full].labels), full
        points = self._points.setdefault(full, {})
        point = points.get(labels)
        if point is None:
            point = points[labels] = Point()
        return point


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


def decode(content: bytes) -> Snapshot:
    """Read a snapshot. Raises msgspec.MsgspecError."""
    return _decoder.decode(content)
