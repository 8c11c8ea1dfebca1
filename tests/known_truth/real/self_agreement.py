"""How often a healthy vLLM agrees with itself: the same greedy questions one at a time and eight at a time.

``python -m tests.known_truth.real.self_agreement`` starts a vLLM (CPU build, bf16, on the demo's model) and prints the figures that the README quotes; ``--url`` asks one
that runs already. Nothing differs between two runs but how many requests are under way, hence what shares a batch.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

from msgspec import Struct

from engines.launch import engine_python, start_vllm
from engines.weights_gguf import huggingface_directories
from proxy.compare.comparison import Comparison, FlipClass
from proxy.compare.near_tie import Noise, threshold
from proxy.compare.token_stream import Reply
from proxy.demo.weights import fetch, models_directory
from tests.engine_fixtures import CONTEXT, MODEL
from tests.known_truth.real.arms import QUESTIONS, free, greedy, replies


class Agreement(Struct, frozen=True):
    """Two runs of one engine held against each other.

    ``identical`` of ``answers`` are the same to the last token; ``parted``: the others by class of their first difference, ``first`` its median position.
    ``tied`` of ``positions`` are exact ties. ``errors``: median, 99th percentile and maximum of the differences in nats over what both said.
    """

    answers: int
    identical: int
    parted: dict[str, int]
    first: float | None
    tied: int
    positions: int
    errors: tuple[float, float, float]

    def __str__(self) -> str:
        middle, high, most = self.errors
        parted = ", ".join(f"{count} {kind}" for kind, count in self.parted.items() if count)
        return (
            f"{self.identical} of {self.answers} answers identical"
            + (f" (the others part at token {self.first:g} in the median: {parted})" if parted else "")
            + f"; |d| {middle:.1e} median, {high:.1e} p99, {most:.1e} max nat; {self.tied} exact ties at {self.positions} positions"
        )


def agreement(comparisons: list[Comparison]) -> Agreement:
    """Sum up free comparisons."""
    choices = [one.choices[0] for one in comparisons]
    flips = [choice.first for choice in choices if choice.first is not None]
    errors = [
        abs(other - mine)
        for choice in choices
        for mine, other in zip(choice.primary_logprobs, choice.shadow_logprobs, strict=True)
        if mine is not None and other is not None
    ]
    return Agreement(
        answers=len(choices),
        identical=sum(choice.identical for choice in choices),
        parted={kind.value: sum(flip.kind is kind for flip in flips) for kind in FlipClass},
        first=median(flip.index for flip in flips) if flips else None,
        tied=sum(tie.arm == "primary" for choice in choices for tie in choice.ties),
        positions=sum(choice.compared for choice in choices),
        errors=(median(errors), quantiles(errors, n=100, method="inclusive")[98], max(errors)),
    )


def runs(url: str, answers: int, tokens: int) -> tuple[list[Reply], list[Reply], list[Reply]]:
    """The same questions to one vLLM: one at a time, and twice eight at a time."""
    asked = [greedy(question, tokens) for question in QUESTIONS[:answers]]
    one, eight, again = (replies(url, asked, engine="vllm", together=together) for together in (1, 8, 8))
    return one, eight, again


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="a vLLM that runs already, with SmolLM2-135M-Instruct as smollm2-135m")
    parser.add_argument("--answers", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=64)
    asked = parser.parse_args()
    with ExitStack() as stack:
        url = asked.url or stack.enter_context(_vllm(Path(stack.enter_context(tempfile.TemporaryDirectory())))).url
        one, eight, again = runs(url, asked.answers, asked.tokens)
    tau = threshold(Noise(), dtype="bf16")
    for name, left, right in (
        ("one at a time and eight at a time", one, eight),
        ("eight at a time, twice", eight, again),
    ):
        print(f"{name}: {agreement(free(left, right, tau))}")
    return 0


def _vllm(logs: Path):
    python = engine_python()
    model = huggingface_directories(fetch(models_directory(), print), models_directory(), ("bf16",), python=python)
    extra = ("--enforce-eager", "--max-num-seqs", "16")
    return start_vllm(
        model["bf16"],
        dtype="bfloat16",
        served_model_name=MODEL,
        max_model_len=CONTEXT,
        threads=1,
        python=python,
        extra=extra,
        log=logs / "vllm.log",
        say=print,
    )


if __name__ == "__main__":
    sys.exit(main())
