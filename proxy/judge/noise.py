"""What this judge has learned of the primary's noise: the near-tie thresholds for the next exchange, per model and mode.

House rules. Ask before the comparison, learn after it has settled: a threshold never comes from the data it judges. The book goes into the
store every few seconds, with settlements.
"""

from __future__ import annotations

import hashlib

import msgspec

from proxy.compare.comparison import Comparison, Mode
from proxy.compare.near_tie import Noise, Tau, learn, threshold

#: Models beyond this share one entry: the label bound of the metrics, for the same reason.
_MODELS = 50
_OTHER = "other"
_LONGEST = 128  # a longer name is kept as its hash: what a client calls a model must not fill our memory


class Taus(msgspec.Struct, frozen=True):
    """The thresholds that hold for one exchange."""

    free: Tau
    forced: Tau

    def of(self, mode: Mode) -> Tau:
        """The threshold of one mode."""
        match mode:
            case Mode.FREE:
                return self.free
            case Mode.FORCED:
                return self.forced


class NoiseBook:
    """Noise by model and mode. ``configured``: a fixed threshold in nats, None for ``auto``."""

    def __init__(self, configured: float | None, stored: bytes | None = None) -> None:
        self._configured = configured
        self._pages: dict[str, Noise] = {}
        self._known: dict[str, dict[str, Tau]] = {}  # thresholds by page and dtype, until it learns more
        if stored is not None:
            try:
                pages = msgspec.msgpack.decode(stored, type=dict[str, Noise])
                self._pages = {key: page for key, page in pages.items() if page.sound}
            except msgspec.DecodeError:  # an older layout: what was learned is learned anew
                self._pages = {}

    def taus(self, model: str, dtype: str) -> Taus:
        """The thresholds for the next exchange of this model; ``dtype`` is that of the primary's logits where known."""
        return Taus(self._tau(model, Mode.FREE, dtype), self._tau(model, Mode.FORCED, dtype))

    def _tau(self, model: str, mode: Mode, dtype: str) -> Tau:
        key = self._key(model, mode)
        known = self._known.setdefault(key, {})
        if dtype not in known:
            known[dtype] = threshold(self._page(key), configured=self._configured, dtype=dtype or None)
        return known[dtype]

    def learn(self, model: str, comparison: Comparison, *, control: bool) -> None:
        """Take in one settled comparison."""
        key = self._key(model, comparison.mode)
        page = self._page(key)
        if any(choice.gaps or choice.gap_shifts for choice in comparison.choices):
            learn(page, comparison, control=control)
            self._known.pop(key, None)

    def forget(self) -> None:
        """Begin anew: the primary or its control is another stack now, and what was learned was the noise of the one before."""
        self._pages.clear()
        self._known.clear()

    def encode(self) -> bytes:
        """The whole book, for the store."""
        return msgspec.msgpack.encode(self._pages)

    def _page(self, key: str) -> Noise:
        return self._pages.setdefault(key, Noise())

    def _key(self, model: str, mode: Mode) -> str:
        name = (
            model
            if len(model) <= _LONGEST
            else hashlib.blake2b(model.encode(errors="replace"), digest_size=12).hexdigest()
        )
        key = f"{mode.value}\0{name}"
        if key not in self._pages and len(self._pages) >= 2 * _MODELS:
            key = f"{mode.value}\0{_OTHER}"
        return key
