"""Every metric that Parhelion exports, declared once: name, type, labels, unit, buckets, what it says and why it is there.

House rules. A metric is declared here when something sets it, not before. Names and labels are the contract of dashboards and alerts: add, never rename. Labels
are bounded by construction (``labels.py``); ``model`` stands only where a panel divides by model, because it multiplies series.
``arm`` is ``primary`` or a shadow's name. Units are base units; a name ends in its unit.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from proxy.compare.distance import NATS_EDGES
from proxy.counters import DURATION_EDGES, OVERHEAD_EDGES

PREFIX = "parhelion_"
Kind = Literal["counter", "gauge", "histogram"]
Source = Literal["traffic", "store", "judge", "admin"]


class Metric(Struct, frozen=True):
    """One family. ``buckets``: upper edges of a histogram, +Inf not written. ``source``: whose numbers it shows."""

    name: str
    kind: Kind
    source: Source
    labels: tuple[str, ...]
    help: str
    why: str
    buckets: tuple[float, ...] = ()

    @property
    def unit(self) -> str:
        """The base unit that the name ends in, "" for a pure number."""
        return next((unit for unit in ("seconds", "bytes", "nats") if self.name.endswith(f"_{unit}")), "")


_NATS = NATS_EDGES[:-1]
_SHARES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
_RANKS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
_POSITIONS = (
    0.0,
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
)  # powers of 4, as OpenTelemetry's token metrics
_DISTANCES = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)  # between directions, at most 2
_ERRORS = (0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
_RATIOS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0, 1.01, 1.1, 1.25, 1.5, 2.0, 4.0)
# vLLM's edges of the metrics of the same names, so that panels of both overlay.
_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
_INTER_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_LAG = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0)

_ARM = ("shadow", "mode")
_MODEL_ARM = ("model", "shadow", "mode")

#: Labels of ``engine_info``, each a footprint field of that name; "unknown" where a footprint does not say.
ENGINE_FIELDS = (
    "engine", "version", "model", "dtype", "quantization", "kv_cache_dtype", "attention_backend", "gpu", "logprob_mode",
)  # fmt: skip


def _counter(source: Source, name: str, labels: tuple[str, ...], text: str, why: str) -> Metric:
    return Metric(PREFIX + name, "counter", source, labels, text, why)


def _gauge(source: Source, name: str, labels: tuple[str, ...], text: str, why: str) -> Metric:
    return Metric(PREFIX + name, "gauge", source, labels, text, why)


def _histogram(
    source: Source, name: str, labels: tuple[str, ...], text: str, why: str, *, buckets: tuple[float, ...]
) -> Metric:
    return Metric(PREFIX + name, "histogram", source, labels, text, why, buckets)


_LIVE_PATH = (
    _counter("traffic", "requests_total", ("endpoint", "code"), "Requests answered, by route class and status.", "the client's view: is the primary untouched?"),
    _histogram("traffic", "request_duration_seconds", ("endpoint",), "Time from a request's head to the end of its reply.", "overlays the engine's own panel", buckets=DURATION_EDGES),
    _histogram("traffic", "overhead_seconds", (), "Time a request spent in Parhelion before its head went to the primary.", "the price of being in the path", buckets=OVERHEAD_EDGES),
    _counter("traffic", "client_disconnects_total", (), "Clients gone before their reply ended.", "tells a client's fault from an engine's"),
    _counter("traffic", "refused_heads_total", (), "Malformed request heads refused.", "attacks and broken clients never reach an engine"),
    _counter("traffic", "primary_unreachable_total", (), "Requests for which the primary could not be reached.", "the one fault that clients do see"),
    _gauge("traffic", "open_streams", (), "Replies being streamed and websockets open now.", "what a drain has to wait for"),
    _gauge("traffic", "client_connections", (), "Client connections open now.", "keep-alive fleets and leaks"),
)  # fmt: skip

_MIRROR = (
    _counter("traffic", "received_total", (), "Requests received.", "the left side of the first conservation law"),
    _counter("traffic", "not_sampled_total", (), "Requests not mirrored.", "received = not_sampled + sampled + undecided"),
    _counter("traffic", "sampled_total", (), "Requests chosen to be mirrored.", "denominator of all mirroring"),
    _counter("traffic", "opted_out_total", (), "Requests whose client asked not to be mirrored (among not_sampled).", "consent is visible"),
    _gauge("traffic", "undecided", (), "Requests whose sampling rule needs the body and is not decided: under way, or shed before.", "closes the law while rules look at bodies"),
    _gauge("traffic", "handoff_bytes", (), "Bytes that wait for the judge or were handed over and not acknowledged.", "how near the hand-over is to dropping"),
    _counter("store", "compared_total", _ARM, "Exchanges compared.", "sampled + undecided = compared + incomparable + shed + in_flight"),
    _counter("store", "incomparable_total", (*_ARM, "reason"), "Exchanges that could not be compared, by reason.", "what is not compared is never called equal"),
    _counter("store", "shed_total", (*_ARM, "reason"), "Exchanges given up to keep within limits or lost to a crash, by reason.", "is the mirror keeping up?"),
    _gauge("store", "in_flight", _ARM, "Exchanges chosen and not yet settled.", "the last term of the law"),
    _gauge("judge", "judge_in_flight", _ARM, "Exchanges that the judge says it is working on.", "in_flight less this is in transit: at rest it must be 0"),
    _counter("judge", "primary_tokens_source_total", ("source",), "Exchanges by where the primary's tokens came from.", "says what the numbers rest on"),
    _histogram("judge", "mirror_lag_seconds", (), "Time from the end of the primary's reply to its settlement.", "how old the picture is", buckets=_LAG),
    _counter("judge", "shadow_errors_total", ("shadow", "kind"), "Faults of a shadow, by kind.", "a broken shadow must not look like drift"),
    _counter("judge", "shadow_tokens_total", ("shadow", "kind"), "Tokens asked of a shadow: prompt, completion, scored.", "what mirroring costs"),
    _counter("judge", "judge_cpu_seconds_total", ("stage",), "Processor time of the judge by stage: mirror (receiving, asking, reading to the end), compare (reading tokens, comparing), store.", "what mirroring costs, apart from what comparing costs"),
    _gauge("judge", "spool_bytes", (), "Bytes of unsettled work on disk.", "how near the spool is to its bound"),
    _gauge("judge", "spool_exchanges", (), "Exchanges on disk that are not settled.", "what a judge that dies now leaves to the next one"),
    _counter("judge", "spool_skipped_total", ("reason",), "Exchanges worked on without being kept on disk: full, error.", "these a SIGKILL would lose"),
    _counter("judge", "redaction_failures_total", ("reason",), "Records whose texts were withheld because the hook `records.redact` failed: `raised`, `wrong_type`, `hung`, `died`, `not_importable`, or `resting` after several of the last three.", "a hook that fails keeps nothing, and somebody must mend it"),
    _counter("judge", "spool_replayed_total", (), "Exchanges of an earlier life that were taken up again.", "what the spool has saved"),
    _gauge("admin", "mirror_enabled", ("shadow",), "1 while a shadow is mirrored to, 0 while the kill switch keeps it off.", "tells what was switched off from what fails"),
    _gauge("judge", "shadow_circuit_open", ("shadow",), "1 while a shadow is left alone after repeated faults.", "explains a gap in comparisons"),
    _histogram("judge", "time_to_first_token_seconds", ("arm",), "Time to the first streamed piece.", "speed of both arms on the same requests", buckets=_FIRST_TOKEN),
    _histogram("judge", "inter_token_seconds", ("arm",), "Time between streamed pieces.", "speed of both arms on the same requests", buckets=_INTER_TOKEN),
)  # fmt: skip

_TOKENS = (
    _counter("judge", "tokens_compared_total", _MODEL_ARM, "Token positions looked at in both arms, canonical ones included.", "how much the numbers rest on; flips are of flip_positions_total, errors of their histogram's own count"),
    _counter("judge", "flips_total", (*_MODEL_ARM, "class"), "Positions at which the arms prefer (forced) or chose (free) other tokens, by class.", "the headline"),
    _counter("judge", "flip_positions_total", _MODEL_ARM, "Positions that could show a flip: exposed (free), or both first choices known and not canonical (forced).", "denominator of flips_total"),
    _counter("judge", "expected_flips_total", _MODEL_ARM, "Flips that the control's noise alone would give at the primary's gaps.", "tells numerically noisier from wrong: flips_held_against_noise_total less these is the excess"),
    _counter("judge", "flips_held_against_noise_total", _MODEL_ARM, "Flips in the comparisons that expected_flips_total is of, at positions whose gap is known.", "less expected_flips_total it is the excess over noise"),
    _counter("judge", "tie_positions_total", (*_ARM, "arm"), "Positions at which an exact tie at the top of an arm's list would have shown.", "denominator of exact_ties_total"),
    _counter("judge", "exact_ties_total", (*_ARM, "arm"), "Exact ties at the top of an arm's list (arm: primary or shadow), flipped or not.", "exposure to tie-breaking; a fingerprint of the logit dtype"),
    _counter("judge", "tie_break_total", (*_ARM, "primary_pick", "shadow_pick"), "Exact ties by which member each arm picked.", "names a tie-breaking rule"),
    _counter("judge", "tie_break_mismatches_total", _ARM, "Flips that both arms see as an exact tie.", "another rule, not another distribution"),
    _histogram("judge", "logprob_error_nats", _ARM, "Absolute difference of the token's logprob.", "size of the numeric drift", buckets=_NATS),
    _histogram("judge", "logprob_relative_error", _ARM, "That difference relative to the primary's logprob, where that is at least 1e-3 nat.", "comparable to published figures", buckets=_SHARES),
    _histogram("judge", "probability_error", _ARM, "Absolute difference of the token's probability.", "bounded, and comparable between tokens", buckets=_SHARES),
    _histogram("judge", "kl_lower_bound_nats", _ARM, "Lower bound of KL(primary, shadow) from the lists of alternatives.", "distance of distributions, not of one token", buckets=_NATS),
    _histogram("judge", "token_rank", _ARM, "Rank of the primary's token in the shadow's list, 1 the most likely.", "a wrong model shows here first", buckets=_RANKS),
)  # fmt: skip

_REQUESTS = (
    _counter("judge", "comparisons_total", (*_MODEL_ARM, "outcome"), "Comparisons by outcome.", "identical replies, by model"),
    _counter("judge", "divergences_total", ("model", "shadow", "class"), "Free-running replies that parted, by class of the first difference; text alone is unknown.", "how many answers differ; the hazard's numerator is flips_total{mode=free}, which leaves text alone out"),
    _counter("judge", "exposed_tokens_total", ("model", "shadow"), "Positions at which free-running replies could have parted.", "denominator of the hazard"),
    _histogram("judge", "first_divergence_token", ("shadow",), "Index (from 0) of the first differing token.", "jumps betray page, tile or window bugs", buckets=_POSITIONS),
    _histogram("judge", "output_length_ratio", ("shadow",), "Tokens of the shadow's reply per token of the primary's, each to its own end.", "longer answers cost more", buckets=_RATIOS),
    _counter("judge", "tool_call_mismatches_total", ("shadow", "kind"), "Replies whose tool calls differ: in name or arguments.", "functional difference"),
    _counter("judge", "finish_reason_mismatches_total", ("shadow",), "Replies that ended for another reason.", "stop handling and limits"),
    _counter("judge", "prompt_token_mismatches_total", ("shadow",), "Exchanges whose prompt has another number of tokens on the shadow.", "explains every difference after it"),
    _counter("judge", "known_comparisons_total", ("shadow", "mode", "class"), "Comparisons that a rule of what is known matches (`/api/v1/known`), by their gravest class; every other metric counts them too.", "an alert on differences can leave out those that somebody knows of"),
    _counter("judge", "findings_total", ("shadow", "finding"), "Findings by name.", "layers of difference that explain drift"),
)  # fmt: skip

_OUTPUTS = (
    _histogram("judge", "reasoning_length_ratio", ("shadow",), "Code points of the shadow's reasoning per code point of the primary's.", "longer thinking costs more, and a parser that loses it shows as 0", buckets=_RATIOS),
    _counter("judge", "tool_triggers_total", ("shadow", "called"), "Replies to requests that offer tools, by who called one: both, primary, shadow, neither.", "F1 = 2 both / (2 both + primary + shadow)"),
    _counter("judge", "tool_calls_judged_total", ("shadow", "arm", "validity"), "Tool calls of each arm, by what their arguments are worth against the tool's own schema.", "arguments that a program cannot use"),
    _counter("judge", "json_replies_total", ("shadow", "arm", "validity"), "Replies of each arm to requests for JSON, by what they are worth against the request's schema.", "guided decoding that does not guide"),
    _counter("judge", "refusals_total", ("shadow", "arm"), "Replies in which an engine says that the model declined.", "another safety setting"),
    _histogram("judge", "embedding_cosine_distance", ("shadow",), "1 minus the cosine between both arms' embeddings of one input.", "whether an index must be built anew", buckets=_DISTANCES),
    _histogram("judge", "embedding_element_error", ("shadow",), "Largest absolute difference of one element of an embedding.", "tells scaling and rounding from another direction", buckets=_ERRORS),
    _counter("judge", "rankings_compared_total", ("shadow",), "Rerank and score replies compared.", "denominator of the next"),
    _counter("judge", "rank_order_mismatches_total", ("shadow",), "Rerank and score replies that give another order or other items.", "functional difference"),
    _histogram("judge", "score_error", ("shadow",), "Absolute difference of an item's score.", "size of the numeric drift of rankers", buckets=_ERRORS),
)  # fmt: skip

_FLOORS = (
    _gauge("judge", "noise_floor", (*_ARM, "quantity"), "How far a control has been from the primary since either is the stack it is; quantity: a headline number's name (median_error_nats).", "what a candidate's numbers must be held against; absent before 200 positions"),
    _gauge("judge", "headline", (*_ARM, "quantity"), "How far a candidate has been from the primary, as noise_floor.", "headline / on(mode, quantity) group_left() noise_floor, many times 1, is worth a look at the report, which has the interval"),
)  # fmt: skip

_STACK = (
    _gauge("judge", "engine_info", ("arm", *ENGINE_FIELDS), "1 for the stack of each arm.", "numbers belong to a stack"),
    _gauge("judge", "footprint_differences", ("shadow",), "Fields in which a shadow's stack is known to differ from the primary's.", "what else was changed"),
    _counter("judge", "footprint_changes_total", ("arm",), "Times an arm's stack was found to be another one than before.", "what was measured before is of another stack"),
    _counter("judge", "probe_changes_total", ("arm",), "Times an arm was found to answer its near-tie probes otherwise than before, on the same footprint.", "something changed that no route shows: a kernel, a flag, a driver"),
    _gauge("judge", "probe_last_run_timestamp_seconds", ("arm",), "When an arm last answered all probes (Unix time).", "probes that are not answered notice nothing"),
    _gauge("judge", "probe_shift_nats", ("arm",), "Median over probes of how far the gap between the two tokens was from what was learned, at the last look.", "how large a change is, and how close to one"),
    _gauge("judge", "probe_flips", ("arm",), "Probes whose first token was another one than was learned, at the last look.", "what clients would see of it"),
    _gauge("judge", "engine_level", ("arm", "level"), "1 for how much of an arm can be compared: full, no_rivals, scored_free, no_ids, text.", "which modes run, and how far a reply is compared"),
    _gauge("judge", "engine_capability", ("arm", "capability"), "1 when the arm has it, 0 when not: chat, token_ids, prompt_ids, forced, rows_per_token, stream_same.", "what the numbers rest on"),
    _gauge("judge", "engine_alternatives", ("arm",), "Most alternatives a position that the arm gave when asked for 20.", "ties and near ties need two"),
    _gauge("judge", "self_noise_nats", ("arm", "against"), "Largest difference of a token's logprob between two answers of one arm: decode_prefill, cold_warm, batch_mates.", "no comparison can see below this"),
    _gauge("judge", "self_flips", ("arm", "against"), "1 when an arm's two answers to one greedy question part: cold_warm, batch_mates.", "an engine that contradicts itself makes a floor"),
    _gauge("judge", "prompt_parity", ("shadow",), "1 when the shadow makes the same prompt of the same chat as the primary, 0 when another.", "a prompt that differs explains every token after it"),
    _gauge("admin", "build_info", ("version", "python"), "1 for this build.", "which code made the numbers"),
    _gauge("admin", "config_reload_failed", (), "1 since a changed configuration could not be taken over, until one can.", "the old one is in force, and not what the file says"),
    _gauge("admin", "config_reload_success_timestamp_seconds", (), "When the configuration in force was read (Unix time).", "which configuration made the numbers"),
    _gauge("admin", "store_up", (), "1 when the record store can be read; else its counts are missing here.", "absence is not zero"),
    _gauge("admin", "judge_snapshot_age_seconds", (), "Age of the judge's last word; it speaks every second.", "a dead or hung judge leaves its last numbers"),
)  # fmt: skip

_VERDICT = (
    _gauge("judge", "verdict", ("shadow",), "What is known of a candidate: 1 PASS, 0 KEEP WATCHING, -1 FAIL.", "is the migration safe?"),
    _gauge("judge", "log_e_value", ("shadow", "test"), "Natural logarithm of the evidence by test: fail and pass (a verdict takes ln(1/alpha)), worse_than_control, and of sampled output variation_fail and variation_pass (evidence, never a verdict).", "how near the verdict is, and on which side"),
    _gauge("judge", "conversations_needed", ("shadow",), "Conversations until a verdict if they go on as so far; absent where that is not known.", "how long to wait, or how much more to sample"),
    _gauge("judge", "verdict_coverage", ("shadow",), "Share of the conversations that have a result.", "a PASS needs all but half of the margin"),
    _gauge("judge", "drift_log_e", ("shadow",), "Natural logarithm of the drift detector; it alarms at ln(drift.mean_conversations_between_false_alarms) and begins anew.", "has the candidate begun to be worse than before?"),
    _counter("judge", "drift_alarms_total", ("shadow",), "Alarms of the drift detector.", "each is an event in the store, too"),
    _counter("judge", "trials_total", ("shadow", "result"), "Conversations counted towards a verdict, by result: worse, better, both, neither, missing.", "what the verdict rests on"),
)  # fmt: skip

METRICS: tuple[Metric, ...] = _LIVE_PATH + _MIRROR + _TOKENS + _REQUESTS + _OUTPUTS + _FLOORS + _VERDICT + _STACK
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
