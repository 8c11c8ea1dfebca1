"""What can be configured, with its defaults: the contract's section 5 as frozen values.

House rules. One immutable ``Config`` is made at start and at each reload and is passed down; nothing reads the environment or
a file later. Every limit names its reason. Times are seconds, sizes bytes; both also accept text such as "60s" or "8MiB" (see
``config_load``). Unknown keys are refused with their path.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

EngineName = Literal[
    "auto",
    "vllm",
    "sglang",
    "transformers",
    "reference",
    "llama_cpp",
    "ollama",
    "lmdeploy",
    "tensorrt_llm",
    "tgi",
    "openai",
    "together",
    "fireworks",
    "openrouter",
]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
Positive = Annotated[float, Meta(gt=0.0)]
Seconds = Positive
Bytes = Annotated[int, Meta(gt=0, le=1 << 50)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
ModeName = Literal["free", "forced"]
Declared = dict[str, str | int | float | bool]


class Primary(Struct, frozen=True, forbid_unknown_fields=True):
    """The engine that answers clients."""

    url: str = ""
    host: Literal["rewrite", "keep"] = "rewrite"
    engine: EngineName = "auto"
    logprobs: Literal["client", "inject", "rescore"] = "client"
    api_key: str | None = (
        None  # for rescoring and probing only; a client's own Authorization passes through on the live path
    )
    declare: Declared = {}


class Shadow(Struct, frozen=True, forbid_unknown_fields=True):
    """An engine that is asked the same and compared."""

    name: Name
    url: str
    role: Literal["candidate", "control"] = "candidate"
    engine: EngineName = "auto"
    models: dict[str, str] = {}
    api_key: str | None = None
    modes: tuple[ModeName, ...] = ("free", "forced")
    top_logprobs: Annotated[int, Meta(ge=0, le=1000)] = 20
    deadline: Seconds = 120.0
    declare: Declared = {}


class Match(Struct, frozen=True, forbid_unknown_fields=True):
    """What a sampling rule looks at; every field given must fit. ``model`` and ``path`` are shell patterns."""

    model: str | None = None
    path: str | None = None
    has_tools: bool | None = None
    stream: bool | None = None


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """Requests that fit ``match`` are sampled at ``rate``; the first fitting rule counts."""

    match: Match
    rate: Fraction


class Sampling(Struct, frozen=True, forbid_unknown_fields=True):
    """Which exchanges are mirrored. ``by``: request, conversation, or header:<name>."""

    rate: Fraction = 0.05
    by: Annotated[str, Meta(pattern=r"^(request|conversation|header:[A-Za-z0-9-]+)$")] = "request"
    salt: str | None = None
    rules: tuple[Rule, ...] = ()

    @property
    def highest(self) -> float:
        """The highest rate any request can meet: what the live path holds u against before the body is read."""
        return max([self.rate, *(rule.rate for rule in self.rules)])


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds per shadow, and on the bodies that are held.

    ``queue_bytes``: of all processes together, for what is captured, waits, and is being asked about or compared.
    """

    in_flight: Annotated[int, Meta(ge=1, le=10_000)] = 64
    requests_per_second: Positive | None = None
    tokens_per_day: Annotated[int, Meta(ge=1)] | None = None
    capture_bytes: Bytes = 8 << 20
    queue_bytes: Bytes = 256 << 20


class Timeouts(Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait; there is no total timeout, a stream may run for hours.

    ``head``: a client must send its request head within this; ``connect``: to an engine; ``idle``: silence on an open exchange or a
    kept-alive connection.
    """

    head: Seconds = 10.0
    connect: Seconds = 5.0
    idle: Seconds = 300.0


class Records(Struct, frozen=True, forbid_unknown_fields=True):
    """Where comparisons are kept and what of their content. ``redact``: ``module:function`` that sees every text before it is kept (``content: text``)."""

    url: str = "sqlite:///parhelion.db"
    content: Literal["none", "hash", "text"] = "hash"
    keep: Seconds = 7 * 86400.0
    max_bytes: Bytes = 5_000_000_000
    redact: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None = None


class Spool(Struct, frozen=True, forbid_unknown_fields=True):
    """Disk that keeps what is mirrored and not yet settled over the death of any process. ``path``: a directory."""

    path: Annotated[str, Meta(min_length=1)] = "parhelion.spool"
    max_bytes: Bytes = 1 << 30


class Verdict(Struct, frozen=True, forbid_unknown_fields=True):
    """What a migration is judged by; ``near_tie`` in nats, or auto (learned from the control)."""

    alpha: Annotated[float, Meta(gt=0, lt=0.5)] = 0.01
    margin: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    allowance: Annotated[float, Meta(gt=0, lt=1)] = 0.01
    near_tie: Annotated[float, Meta(gt=0.0, le=100.0)] | Literal["auto"] = "auto"


class Drift(Struct, frozen=True, forbid_unknown_fields=True):
    """The e-detector's average run length, in conversations in which the arms differ."""

    mean_conversations_between_false_alarms: Annotated[float, Meta(ge=100)] = 1_000_000.0


class Probes(Struct, frozen=True, forbid_unknown_fields=True):
    """Near-tie probes asked of every arm. ``alpha``: most probability of a false alarm of an arm in a day; ``least``: a shift below so many nats is no change."""

    file: Annotated[str, Meta(min_length=1)]
    every: Seconds = 300.0
    alpha: Annotated[float, Meta(gt=0, lt=0.5)] = 0.01
    least: Annotated[float, Meta(ge=0)] = 1e-5


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything ``parhelion serve`` can be told."""

    listen: str = "0.0.0.0:8000"
    admin: str = "127.0.0.1:8001"
    processes: Annotated[int, Meta(ge=1, le=256)] = 1
    admin_token: str | None = None
    admin_public: tuple[str, ...] = ("metrics",)
    drain: Seconds = 60.0
    recheck: Seconds = (
        60.0  # between two looks at the engines' stacks: a restart that nobody noticed is known within a minute
    )
    state: str = "parhelion.state"  # directory shared by the roles of one replica: sockets, counter files, salt
    primary: Primary = Primary()
    shadows: tuple[Shadow, ...] = ()
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    models: tuple[str, ...] = ()
    records: Records = Records()
    spool: Spool | None = Spool()
    handoff: str = "local"
    verdict: Verdict = Verdict()
    drift: Drift = Drift()
    probes: Probes | None = None  # none: asking is work for an engine, which somebody has to want
