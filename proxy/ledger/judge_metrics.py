"""What the judge says about its work, in its own words; which metric that moves is decided here.

House rules. Every method is cheap and never raises for what an engine or a client sent: a label that is not known yet and for which
there is no room becomes ``other``. Nothing here renders anything.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from engines.capabilities import Capabilities
from engines.parity import Prompt, parity
from proxy.compare import distance
from proxy.compare.comparison import ChoiceComparison, FlipClass, Mode
from proxy.compare.flip_gaps import flips_by_gap
from proxy.compare.summary import flip_positions, value_pairs
from proxy.config import Config
from proxy.ledger import labels, verdict_metrics
from proxy.ledger.metrics import ENGINE_FIELDS
from proxy.ledger.output_metrics import observe_outputs
from proxy.ledger.record import Record
from proxy.ledger.series import Exemplar, Series
from proxy.ledger.stack import stack_differences
from proxy.ledger.totals import replace_file

#: The snapshot's place in the state directory.
SNAPSHOT = Path("judge") / "metrics.msgpack"
_EXCHANGES = 4096  # remembered, so that the primary's timing counts once however many shadows it is compared with
#: Gauges of an arm by itself, and of a shadow beside the primary.
_OF_A_STACK = (
    "engine_info",
    "engine_level",
    "engine_capability",
    "engine_alternatives",
    "self_noise_nats",
    "self_flips",
)
_OF_A_PAIR = ("footprint_differences", "prompt_parity")
_OF_PROBES = ("probe_last_run_timestamp_seconds", "probe_shift_nats", "probe_flips")
_MEASURED = ("noise_floor", "headline")
_CAPABILITIES = ("chat", "token_ids", "prompt_ids", "forced", "rows_per_token", "stream_same")
_TOOL_KINDS = {"tool_call_name": "name", "tool_call_arguments": "arguments"}


class JudgeMetrics:
    """One judge's metrics. ``previous``: the snapshot of the life before, whose sums are continued."""

    def __init__(self, config: Config, previous: bytes | None = None, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._exchanges: OrderedDict[str, None] = OrderedDict()
        self._stacks: dict[str, Mapping[str, Any]] = {}
        self._prompts: dict[str, Prompt] = {}
        try:
            self._series = Series(previous)
        except msgspec.MsgspecError:  # of another version, or damaged: begin at 0
            self._series = Series()
        for stage in ("mirror", "compare", "store"):
            self.cpu(stage, 0.0)
        self._shadows: frozenset[str] = frozenset()
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Work by a configuration: have its series there from the start, and say no more how shadows are that it does not have."""
        self._models = config.models
        shadows = frozenset(shadow.name for shadow in config.shadows)
        for gone in self._shadows - shadows:
            self._stacks.pop(gone, None)
            self._prompts.pop(gone, None)
            for name in (
                "shadow_circuit_open",
                "judge_in_flight",
                *_OF_A_STACK,
                *_OF_A_PAIR,
                *_OF_PROBES,
                *_MEASURED,
                *verdict_metrics.GAUGES,
            ):
                self._series.forget(name, gone)
        for shadow in config.shadows:
            if shadow.name not in self._shadows:
                self.circuit(shadow.name, is_open=False)
                for mode in shadow.modes:
                    self.in_flight(shadow.name, mode, 0)
        self._shadows = shadows

    @classmethod
    def resumed(cls, config: Config) -> JudgeMetrics:
        """Go on from the snapshot in the state directory, if there is one."""
        try:
            previous = (Path(config.state) / SNAPSHOT).read_bytes()
        except OSError:
            previous = None
        return cls(config, previous)

    def snapshot(self) -> bytes:
        """Everything said so far."""
        return self._series.snapshot(self._clock())

    def write(self, state: Path) -> None:
        """Put the snapshot into the state directory, whole or not at all. Raises OSError."""
        replace_file(state / SNAPSHOT, self.snapshot(), durable=False)

    def shadow_error(self, shadow: str, kind: str, count: int = 1) -> None:
        """Count faults of a shadow (``refused``, ``timeout``, ``status_500``, ...)."""
        self._series.add("shadow_errors_total", (shadow, self._bounded("kind", kind)), count)

    def shadow_tokens(self, shadow: str, *, prompt: int = 0, completion: int = 0, scored: int = 0) -> None:
        """Count tokens that a shadow was made to read, write or score."""
        for kind, n in (("prompt", prompt), ("completion", completion), ("scored", scored)):
            if n:
                self._series.add("shadow_tokens_total", (shadow, kind), n)

    def in_flight(self, shadow: str, mode: str, n: int) -> None:
        """Say how many exchanges the judge holds now for an arm."""
        self._series.set("judge_in_flight", (shadow, mode), n)

    def spool(self, size: int, exchanges: int, skipped: Mapping[str, int]) -> None:
        """Say what is kept on disk (bytes, exchanges), and what could not be since the last time, by reason."""
        self._series.set("spool_bytes", (), size)
        self._series.set("spool_exchanges", (), exchanges)
        for reason, n in skipped.items():
            self._series.add("spool_skipped_total", (reason,), n)

    def known(self, shadow: str, mode: Mode, difference: str) -> None:
        """Count a comparison that a rule of what is known matches; ``difference``: its gravest class, or none."""
        self._series.add("known_comparisons_total", (shadow, mode.value, difference))

    def redaction_failed(self, reason: str) -> None:
        """Count a record whose texts were withheld because the redaction hook failed."""
        self._series.add("redaction_failures_total", (self._bounded("reason", reason),))

    def spool_replayed(self) -> None:
        """Count an exchange of an earlier life that was taken up again."""
        self._series.add("spool_replayed_total", ())

    def primary_tokens_source(self, source: str) -> None:
        """Count an exchange by where the primary's tokens came from; once an exchange."""
        self._series.add("primary_tokens_source_total", (source,))

    def mirror_lag(self, seconds: float) -> None:
        """Say how long after the primary's end an exchange was settled."""
        self._series.observe("mirror_lag_seconds", (), (seconds,))

    def measured(self, numbers: Iterable[tuple[str, str, str, str, float]]) -> None:
        """Say how far the arms have been from the primary: (shadow, role, mode, quantity, value), all there are. The control's are the noise floor."""
        for name in _MEASURED:
            for shadow in self._shadows:
                self._series.forget(name, shadow)
        for shadow, role, mode, quantity, value in numbers:
            self._series.set("noise_floor" if role == "control" else "headline", (shadow, mode, quantity), value)

    def cpu(self, stage: str, seconds: float) -> None:
        """Add processor time that a stage of the judge has spent: ``mirror``, ``compare`` or ``store``."""
        self._series.add("judge_cpu_seconds_total", (stage,), max(0.0, seconds))

    def verdict(self, shadow: str, known: verdict_metrics.Known) -> None:
        """Say what is known of a candidate."""
        verdict_metrics.show(self._series, shadow, known)

    def verdicts_only_of(self, candidates: Iterable[str]) -> None:
        """Say nothing any more of shadows that are no candidates."""
        for name in self._shadows - {*candidates}:
            for gauge in verdict_metrics.GAUGES:
                self._series.forget(gauge, name)

    def drift_alarm(self, shadow: str) -> None:
        """Count an alarm of a candidate's drift detector."""
        self._series.add("drift_alarms_total", (shadow,))

    def circuit(self, shadow: str, is_open: bool) -> None:
        """Say whether a shadow is being left alone."""
        self._series.set("shadow_circuit_open", (shadow,), int(is_open))

    def footprint(self, arm: str, fields: Mapping[str, Any]) -> None:
        """Say what an arm's stack is (plain values by footprint field, None where unknown); ``primary`` or a shadow's name."""
        self._series.forget("engine_info", arm)
        values = tuple(_field(fields.get(name)) for name in ENGINE_FIELDS)
        self._series.set("engine_info", (arm, *values), 1)
        self._stacks[arm] = fields
        if (primary := self._stacks.get("primary")) is not None:
            for shadow in self._stacks.keys() - {"primary"}:
                sure = sum(one["sure"] for one in stack_differences(primary, self._stacks[shadow]))
                self._series.set("footprint_differences", (shadow,), sure)

    def footprint_changed(self, arm: str, shadows: Iterable[str]) -> None:
        """Count that an arm's stack is another one now, which is a finding for each of these shadows."""
        self._series.add("footprint_changes_total", (arm,))
        for shadow in shadows:
            self._series.add("findings_total", (shadow, "footprint_changed"))

    def probed(self, arm: str, when: float, shift: float, flips: int) -> None:
        """Say what an arm's last look at the probes was (Unix seconds, nats, probes)."""
        for name, value in zip(_OF_PROBES, (when, shift, flips), strict=True):
            self._series.set(name, (arm,), value)

    def probe_changed(self, arm: str, times: int = 1) -> None:
        """Count that an arm answers its probes otherwise than before."""
        self._series.add("probe_changes_total", (arm,), times)

    def capabilities(self, arm: str, seen: Capabilities, prompt: Prompt) -> None:
        """Say what an arm can do, how far it is from itself, and whether its prompt is the primary's."""
        for name in _OF_A_STACK[1:]:
            self._series.forget(name, arm)
        self._series.set("engine_level", (arm, seen.level.value), 1)
        self._series.set("engine_alternatives", (arm,), seen.top_logprobs)
        for name in _CAPABILITIES:
            if (has := getattr(seen, name)) is not None:
                self._series.set("engine_capability", (arm, name), int(has))
        if seen.self_noise is not None:
            self._series.set("self_noise_nats", (arm, "decode_prefill"), seen.self_noise)
        for against, noise in (("cold_warm", seen.cold_warm), ("batch_mates", seen.batch_mates)):
            if noise is not None:
                self._series.set("self_flips", (arm, against), noise.flips)
                if noise.max is not None:
                    self._series.set("self_noise_nats", (arm, against), noise.max)
        self._prompts[arm] = prompt
        self._parities()

    def _parities(self) -> None:
        if (primary := self._prompts.get("primary")) is None:
            return
        for shadow in self._prompts.keys() - {"primary"}:
            self._series.forget("prompt_parity", shadow)
            if (same := parity(primary, self._prompts[shadow]).same) is not None:
                self._series.set("prompt_parity", (shadow,), int(same))

    def observe_comparison(self, record: Record) -> None:
        """Count one record: compared or not."""
        comparison, shadow, mode = record.comparison, record.shadow, record.comparison.mode.value
        model = labels.model(self._models, self._series.seen.setdefault("model", set()), record.model)
        now = self._clock()
        exemplar = Exemplar(record.id, 1.0, now)
        add = self._series.add
        add("comparisons_total", (model, shadow, mode, comparison.outcome), exemplar=exemplar)
        for finding in comparison.findings:
            add("findings_total", (shadow, self._bounded("finding", finding)), exemplar=exemplar)
            if finding in _TOOL_KINDS:
                add("tool_call_mismatches_total", (shadow, _TOOL_KINDS[finding]), exemplar=exemplar)
        self._timings(record)
        self._prompt(record)
        if comparison.incomparable is not None:
            return
        add("tokens_compared_total", (model, shadow, mode), sum(choice.compared for choice in comparison.choices))
        add("flip_positions_total", (model, shadow, mode), flip_positions(comparison))
        if comparison.expected_flips is not None:
            add("expected_flips_total", (model, shadow, mode), comparison.expected_flips)
            add("flips_held_against_noise_total", (model, shadow, mode), flips_by_gap(comparison))
        self._flips(record, model, exemplar)
        for choice in comparison.choices:
            self._ties(shadow, mode, choice)
        self._values(record, now)
        observe_outputs(self._series, record, exemplar)
        if comparison.mode is Mode.FREE:
            for choice in comparison.choices:
                self._running(record, model, choice, exemplar)

    def _flips(self, record: Record, model: str, exemplar: Exemplar) -> None:
        arm = (record.shadow, record.comparison.mode.value)
        for choice in record.comparison.choices:
            for flip in (choice.first, *choice.flips):
                if flip is not None:
                    self._series.add("flips_total", (model, *arm, flip.kind.value), exemplar=exemplar)
                    if flip.tie_break_mismatch:
                        self._series.add("tie_break_mismatches_total", arm, exemplar=exemplar)

    def _ties(self, shadow: str, mode: str, choice: ChoiceComparison) -> None:
        for arm, gaps in (("primary", choice.gaps), ("shadow", choice.shadow_gaps)):
            if positions := len(gaps) - gaps.count(None):
                self._series.add("tie_positions_total", (shadow, mode, arm), positions)
        if not choice.ties:
            return
        picks: dict[int, dict[str, str]] = {}
        for tie in choice.ties:
            self._series.add("exact_ties_total", (shadow, mode, tie.arm))
            picks.setdefault(tie.index, {})[tie.arm] = "unknown" if tie.pick is None else tie.pick.value
        combined = Counter((by.get("primary", "no_tie"), by.get("shadow", "no_tie")) for by in picks.values())
        for both, n in combined.items():
            self._series.add("tie_break_total", (shadow, mode, *both), n)

    def _values(self, record: Record, now: float) -> None:
        arm = (record.shadow, record.comparison.mode.value)
        pairs = list(value_pairs(record.comparison))
        choices = record.comparison.choices
        for name, values in (
            ("logprob_error_nats", [abs(q - p) for p, q in pairs]),
            ("logprob_relative_error", distance.relative_errors(pairs)),
            ("probability_error", distance.probability_errors(pairs)),
            ("kl_lower_bound_nats", chain.from_iterable(choice.kl_lower_bounds for choice in choices)),
            ("token_rank", chain.from_iterable(choice.ranks for choice in choices)),
        ):
            self._series.observe(name, arm, values, record.id, now)

    def _running(self, record: Record, model: str, choice: ChoiceComparison, exemplar: Exemplar) -> None:
        shadow = record.shadow
        self._series.add("exposed_tokens_total", (model, shadow), choice.exposed)
        if choice.diverged:
            kind = FlipClass.UNKNOWN if choice.first is None else choice.first.kind
            self._series.add("divergences_total", (model, shadow, kind.value), exemplar=exemplar)
        if choice.first is not None:
            at = float(choice.first.index)
            self._series.observe("first_divergence_token", (shadow,), (at,), record.id, exemplar.time)
        if choice.primary_tokens and choice.shadow_tokens is not None:
            ratio = choice.shadow_tokens / choice.primary_tokens
            self._series.observe("output_length_ratio", (shadow,), (ratio,), record.id, exemplar.time)
        primary, other = choice.finish_reasons
        if primary is not None and other is not None and primary != other:
            self._series.add("finish_reason_mismatches_total", (shadow,), exemplar=exemplar)

    def _timings(self, record: Record) -> None:
        if record.exchange not in self._exchanges:
            self._exchanges[record.exchange] = None
            if len(self._exchanges) > _EXCHANGES:
                self._exchanges.popitem(last=False)
            self._series.observe("time_to_first_token_seconds", ("primary",), (record.primary_timing.first_token,))
            self._series.observe("inter_token_seconds", ("primary",), record.primary_timing.gaps)
        if record.comparison.mode is Mode.FREE:  # scoring is not generating: its times say nothing of an answer's pace
            self._series.observe("time_to_first_token_seconds", (record.shadow,), (record.shadow_timing.first_token,))
            self._series.observe("inter_token_seconds", (record.shadow,), record.shadow_timing.gaps)

    def _prompt(self, record: Record) -> None:
        asked = record.request
        if (
            None not in (asked.prompt_tokens, asked.shadow_prompt_tokens)
            and asked.prompt_tokens != asked.shadow_prompt_tokens
        ):
            self._series.add(
                "prompt_token_mismatches_total", (record.shadow,), exemplar=Exemplar(record.id, 1.0, self._clock())
            )

    def _bounded(self, kind: str, value: str) -> str:
        return labels.reason(self._series.seen.setdefault(kind, set()), value)


def _field(value: object) -> str:
    """Turn a footprint field into a label: short, printable, "unknown" when nobody said."""
    text = "unknown" if value is None or value == "" else str(value)
    return "".join(character if character.isprintable() else "?" for character in text)[:120]
