"""A replica in which much has happened, as files: what every page, and every picture of one, is tried on.

``fill`` makes a store with records of both modes and all classes, a candidate and a control, findings with evidence, a stack that changed under way, verdicts' tallies,
the traffic processes' counters, a judge's last snapshot; and one exchange (``HOSTILE``) all of whose texts mean harm. The same seed makes the same store.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from proxy.compare.comparison import (
    ChoiceComparison,
    Comparison,
    Flip,
    FlipClass,
    Mode,
    Pick,
    SeenBy,
    Source,
    TauOrigin,
    Tie,
    TokenRef,
)
from proxy.compare.trial import Result
from proxy.config import Config, Records, Shadow
from proxy.counters import Counters, Slot
from proxy.ledger import engine_state
from proxy.ledger.engine_state import EngineState
from proxy.ledger.events import Event
from proxy.ledger.judge_metrics import JudgeMetrics
from proxy.ledger.reconcile import Arm
from proxy.ledger.record import Content, Record, RequestFacts, Settlement, Timing
from proxy.ledger.store import Store
from proxy.ledger.tallies import Counted, Scope
from tests.ledger.filled_detail import detail_of

#: When the newest of it happened (Unix seconds).
NOW = 1_780_000_000.0
CANDIDATE, CONTROL, MODEL = "sglang-h200", "vllm-twin", "llama-3.1-8b"
#: The exchange whose texts mean harm, and its record.
HOSTILE = "hostile0free"
HARM = (
    '<script>window.harmed = 1</script><img src=x onerror="window.harmed = 1">',
    "\x1b[31mred\x1b]0;title\x07 \x00 \u202eevil\u2066 \u200b\ufeff \u2028",
    "' \" </textarea></style><svg/onload=window.harmed=1> {{ 7 * 7 }} {% raw %} javascript:window.harmed=1",
)
_WORDS = [
    "The",
    "light",
    "that",
    "reaches",
    "us",
    "from",
    "a",
    "parhelion",
    "has",
    "been",
    "bent",
    "by",
    "twenty-two",
    "degrees",
    "in",
    "flat",
    "crystals",
    "of",
    "ice",
    ",",
    "which",
    "fall",
    "like",
    "leaves",
    "and",
    "turn",
    "each",
    "ray",
    "through",
    "one",
    "of",
    "their",
    "sides",
    ".",
    "Two",
    "of",
    "them",
    "stand",
    "beside",
    "the",
    "sun",
    ",",
    "and",
    "where",
    "the",
    "air",
    "is",
    "clear",
    "a",
    "pale",
    "circle",
    "joins",
    "them",
    ".",
]
_PROMPT = "Explain in two sentences how a parhelion comes about."
_TWINS = {
    "engine": "vllm", "version": "0.23.0", "model": "meta-llama/Llama-3.1-8B-Instruct", "revision": "0e9e39f", "dtype": "bf16", "quantization": None,
    "kv_cache_dtype": "auto", "attention_backend": "FLASH_ATTN", "prefix_caching": True, "graph_capture": True, "tensor_parallel": 1, "gpu": "H100",
    "driver": "570.86", "tokenizer_hash": "9d1c3e", "chat_template_hash": "41ab77", "sampling_defaults": "temperature=0.6 top_p=0.9", "logprob_mode": "raw_logprobs",
}  # fmt: skip
FOOTPRINTS = {
    "p1": _TWINS,
    "c1": _TWINS | {"engine": "sglang", "version": "0.5.22", "kv_cache_dtype": "fp8_e4m3", "attention_backend": "fa3", "gpu": "H200", "driver": None},
    "c2": _TWINS | {"planted": f"{HARM[0]}{HARM[1]}", "engine": "sglang", "version": "0.5.23", "kv_cache_dtype": "fp8_e4m3", "attention_backend": "fa3", "gpu": "H200", "driver": None},
    "t1": _TWINS,
}  # fmt: skip


class Filled(NamedTuple):
    """What was made. ``records``: ids of what is worth looking at, by class and by finding."""

    config: Config
    records: dict[str, str]


def fill(folder: Path, *, exchanges: int = 60, seed: int = 7, hostile: bool = True, **more: object) -> Filled:
    """Make everything under ``folder``; ``more`` goes into the configuration."""
    config = configuration(folder, **more)
    draw = random.Random(seed)
    settled: list[Settlement] = []
    worth: dict[str, str] = {}
    with Store.open(config.records.url) as store:
        store.reconcile({}, [Arm(one.name, mode) for one in config.shadows for mode in one.modes])
        for id_, fields in FOOTPRINTS.items():
            store.put_footprint(id_, fields, NOW - 86_400)
        for number in range(exchanges):
            settled += _exchange(draw, number, exchanges, worth)
        if hostile:
            settled += [_settled(one) for one in harmful()]
        for start in range(0, len(settled), 100):
            store.settle(settled[start : start + 100], state={engine_state.KEY: engine_state.encode(engines())})
        _events(store)
    _counters(Path(config.state), exchanges)
    _snapshot(config, [one.record for one in settled if one.record is not None])
    return Filled(config, worth)


def configuration(folder: Path, **more: object) -> Config:
    """The configuration of such a replica, and its folders."""
    state = folder / "state"
    for name in ("counters", "judge"):
        (state / name).mkdir(parents=True, exist_ok=True)
    shadows = (
        Shadow(CANDIDATE, "http://sglang:30000", modes=("free", "forced")),
        Shadow(CONTROL, "http://twin:8000", role="control", modes=("free", "forced")),
    )
    fields = {"records": Records(url=f"sqlite:///{folder}/store.db", content="text"), "shadows": shadows} | more
    return Config(state=str(state), **fields)


def engines() -> dict[str, EngineState]:
    """What the judge last knew of each engine."""
    origins = dict.fromkeys(_TWINS, "probed") | {"gpu": "declared", "logprob_mode": "inferred", "driver": "unknown"}
    return {
        "primary": EngineState("http://vllm:8000", "p1", "full", NOW - 30, origins),
        CANDIDATE: EngineState("http://sglang:30000", "c2", "full", NOW - 20, origins),
        CONTROL: EngineState("http://twin:8000", "t1", "full", NOW - 20, origins),
    }


def _exchange(draw: random.Random, number: int, of: int, worth: dict[str, str]) -> list[Settlement]:
    """Both shadows in both modes; the candidate is worse than the control."""
    settled: list[Settlement] = []
    at = NOW - 12 * 3600 + number * 12 * 3600 / of
    bad: dict[str, bool] = {}
    for shadow in (CANDIDATE, CONTROL):
        role = "candidate" if shadow == CANDIDATE else "control"
        roll = draw.random() * (1 if role == "candidate" else 3)
        kind = _kind(roll)
        bad[role] = kind is FlipClass.GENUINE
        comparisons = [free(draw, kind)]
        if number % 10 == 3 and role == "candidate":
            comparisons = [Comparison(mode=Mode.FREE, incomparable="timeout")]
        comparisons.append(forced(draw, kind))
        for comparison in comparisons:
            if number % 15 == 7 and role == "candidate" and comparison.mode is Mode.FREE:
                settled.append(Settlement("i1", CANDIDATE, "free", "shed", "deadline"))
                continue
            made = record(
                f"{number:06x}{role[:2]}{comparison.mode.value[:2]}", comparison, at, shadow=shadow, role=role
            )
            settled.append(_settled(made))
            for word in (kind.value if kind else "identical", comparison.incomparable or "", *comparison.findings):
                if word and role == "candidate":
                    worth.setdefault(f"{word}/{comparison.mode.value}", made.id)
    result = {(True, False): Result.WORSE, (False, True): Result.BETTER, (True, True): Result.BOTH}.get(
        (bad["candidate"], bad["control"]), Result.NEITHER
    )
    scope = Scope(CANDIDATE, "p1", "c2" if at > NOW - 6 * 3600 else "c1", CONTROL, "t1")
    cause = "genuine_flip" if bad["candidate"] else ""
    trial = Counted(scope, f"u{number}", f"q{number}", at, result, cause, "genuine_flip" if bad["control"] else "")
    settled.append(Settlement("i1", "", "", "", trials=(trial,)))
    return settled


def _kind(roll: float) -> FlipClass | None:
    for most, kind in (
        (0.1, FlipClass.GENUINE),
        (0.25, FlipClass.NEAR_TIE),
        (0.33, FlipClass.EXACT_TIE),
        (0.36, FlipClass.UNKNOWN),
    ):
        if roll < most:
            return kind
    return None


def flip(draw: random.Random, index: int, kind: FlipClass, texts: tuple[str, str] = (" bent", " turned")) -> Flip:
    """One place where the arms part."""
    gap = {FlipClass.GENUINE: 2.3, FlipClass.NEAR_TIE: 0.031, FlipClass.EXACT_TIE: 0.0}.get(kind)
    primary = TokenRef(id=1201, text=texts[0], logprob=-0.4 - draw.random() / 10)
    shadow = TokenRef(id=7310, text=texts[1], logprob=-0.5 - draw.random() / 10)
    tie: dict[str, object] = {}
    if kind is FlipClass.EXACT_TIE:
        tie = {
            "shadow_gap": 0.0, "tie_seen_by": SeenBy.BOTH, "primary_pick": Pick.LOWEST, "shadow_pick": Pick.HIGHEST,
            "lowest": "primary", "tie_break_mismatch": True,
        }  # fmt: skip
    return Flip(index=index, primary=primary, shadow=shadow, kind=kind, gap=gap, **tie)


def _arrays(draw: random.Random, n: int) -> dict[str, object]:
    primary = tuple(-abs(draw.gauss(0, 0.6)) for _ in range(n))
    return {
        "ids": tuple(1000 + (17 * at) % 900 for at in range(n)),
        "primary_logprobs": primary,
        "shadow_logprobs": tuple(one + draw.gauss(0, 0.01) for one in primary),
        "gaps": tuple(abs(draw.gauss(2, 1.5)) for _ in range(n)),
        "ranks": (1,) * n,
        "kl_lower_bounds": tuple(abs(draw.gauss(0, 1e-4)) for _ in range(n)),
    }


def free(draw: random.Random, kind: FlipClass | None) -> Comparison:
    """A reply of its own, identical or parted somewhere."""
    n = len(_WORDS) if kind is None else draw.randrange(4, len(_WORDS) - 4)
    length = len(_WORDS)
    ties = (Tie(n - 1, "primary", 2, Pick.LOWEST), Tie(n - 1, "shadow", 2, Pick.HIGHEST))
    choice = ChoiceComparison(
        index=0, primary_tokens=length, shadow_tokens=length + (0 if kind is None else 9), compared=n, exposed=n, identical=kind is None,
        censored="end" if kind is None else None, first=None if kind is None else flip(draw, n - 1, kind),
        ties=ties if kind is FlipClass.EXACT_TIE else (), finish_reasons=("stop", "length" if kind is FlipClass.GENUINE else "stop"), **_arrays(draw, n),
    )  # fmt: skip
    findings = ("output_length", "finish_reason") if kind is FlipClass.GENUINE else ()
    seen = {
        "output_length": {"primary": length, "shadow": length + 9},
        "finish_reason": {"primary": "stop", "shadow": "length"},
    }
    return Comparison(
        mode=Mode.FREE, source=Source.REPLY, choices=(choice,), tau=0.06, tau_origin=TauOrigin.LEARNED, greedy=True, findings=findings,
        evidence={name: seen[name] for name in findings}, expected_flips=0.02,
    )  # fmt: skip


def forced(draw: random.Random, kind: FlipClass | None) -> Comparison:
    """The primary's tokens, scored."""
    n = len(_WORDS)
    at = sorted(draw.sample(range(n), 2)) if kind is not None else []
    choice = ChoiceComparison(
        index=0, primary_tokens=n, shadow_tokens=n, compared=n, exposed=n, identical=not at,
        flips=tuple(flip(draw, index, kind) for index in at if kind is not None), top1_agree=tuple(index not in at for index in range(n)), **_arrays(draw, n),
    )  # fmt: skip
    return Comparison(
        mode=Mode.FORCED,
        source=Source.REPLY,
        choices=(choice,),
        tau=0.06,
        tau_origin=TauOrigin.LEARNED,
        greedy=True,
        expected_flips=0.05,
    )


def record(
    id_: str, comparison: Comparison, at: float, texts: tuple[str, str] | None = None, **fields: object
) -> Record:
    """A record around a comparison, with text."""
    said = " ".join(_WORDS)
    parted = comparison.outcome == "diverged"
    primary, shadow = texts or (said, said.replace("bent by", "turned by") if parted else said)
    defaults = {
        "id": id_, "time": at, "exchange": id_[:6], "model": MODEL, "endpoint": "chat_completions", "shadow": CANDIDATE, "role": "candidate",
        "request": RequestFacts(stream=True, temperature=0.0, max_tokens=128, prompt_tokens=21, shadow_prompt_tokens=21),
        "primary_footprint": "p1", "primary_timing": Timing(0.041, 0.62, (0.011, 0.012, 0.011)), "shadow_timing": Timing(0.053, 0.71, (0.013, 0.015)),
        "in_flight": 3, "content": Content(json.dumps(_body()), (primary,), (shadow,)), "conversation": f"v{id_[:6]}", "prompt": f"q{id_[:6]}",
    }  # fmt: skip
    made = defaults | fields
    made["shadow_footprint"] = "t1" if made["shadow"] == CONTROL else "c2" if at > NOW - 6 * 3600 else "c1"
    return Record(comparison=comparison, **made)


def _body() -> dict[str, object]:
    return {"model": MODEL, "messages": [{"role": "user", "content": _PROMPT}], "temperature": 0, "stream": True}


def harmful() -> list[Record]:
    """Return the records of the hostile exchange: markup, escape sequences, bidirectional marks, one token of a megabyte."""
    draw = random.Random(1)
    script, control, markup = HARM
    long = ("A" * 1_000_000) + script
    texts = (f"{script}{control}{markup}", f"{markup}{control}")
    found = {"finding": script, "shadow": control, "primary": markup}
    first = flip(draw, 4, FlipClass.GENUINE, (f" {script}{control}", f" {markup}"))
    kept = free(draw, FlipClass.GENUINE)
    [choice] = kept.choices
    hurt = replace(
        kept,
        choices=(replace(choice, first=first, finish_reasons=(script, control)),),
        findings=("tool_call_name",),
        evidence={"tool_call_name": found},
        detail=script,
    )
    whole = replace(hurt, choices=(replace(hurt.choices[0], first=flip(draw, 4, FlipClass.GENUINE, (long, control))),))
    common = {"model": f"{script}{control}", "role": "candidate", "exchange": "hostile0"}
    return [
        record(HOSTILE, hurt, NOW - 60, texts, **common),
        record("hostile1free", whole, NOW - 50, (long, control), **common),
    ]


def _settled(made: Record) -> Settlement:
    reason = made.comparison.incomparable
    outcome = "compared" if reason is None else "incomparable"
    detail = detail_of(made.comparison, _WORDS, _body())
    return Settlement("i1", made.shadow, made.comparison.mode.value, outcome, reason or "", made, detail=detail)


def _events(store: Store) -> None:
    fields = {"version": ["0.5.22", "0.5.23"], "planted": [None, HARM[0]]}
    detail = {"arm": CANDIDATE, "confirmed": NOW - 6 * 3600 - 30, "was": "c1", "now": "c2", "fields": fields}
    store.add_event(Event(NOW - 6 * 3600, "footprint_changed", detail))
    store.add_event(Event(NOW - 5 * 3600, "drift", {"shadow": CANDIDATE, "log_e": 13.9}))
    store.add_event(Event(NOW - 3600, "store_lost", {"how": "deleted"}))


def _counters(state: Path, exchanges: int) -> None:
    counters = Counters.create(state / "counters" / "i1.bin")
    received = exchanges * 20
    sampled = exchanges + 4
    counters.add(Slot.RECEIVED, received)
    counters.add(Slot.SAMPLED, sampled)
    counters.add(Slot.NOT_SAMPLED, received - sampled)
    counters.add(Slot.HANDED_OVER, sampled - 2)
    counters.add(Slot.SHED_QUEUE, 2)
    for number in range(received):
        counters.finished(0, 200 if number % 97 else 503, 0.2 + (number % 50) / 20)
        counters.overhead(4e-5 + (number % 9) * 1e-5)
    counters.close()


def _snapshot(config: Config, records: list[Record]) -> None:
    metrics = JudgeMetrics(config, clock=lambda: NOW - 1)
    for one in records:
        metrics.observe_comparison(one)
    for shadow in config.shadows:
        metrics.circuit(shadow.name, is_open=False)
    metrics.write(Path(config.state))
