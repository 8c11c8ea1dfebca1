"""``python -m tests.known_truth.simulations [--seed S] [--seeds N] [--write]``: the tables, for one seed or several, on the terminal or into the page."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.known_truth.simulations import drift, false_alarms, multiplicity, power, renormalised

PAGE = Path(__file__).parents[3] / "proxy" / "compare" / "README.md"
BEGIN, END = "<!-- simulations: written by python -m tests.known_truth.simulations --write -->", "<!-- /simulations -->"

_PARTS = (
    (
        false_alarms,
        (
            f"**False alarms**: on how many of 1,000 days of {false_alarms.LENGTH:,} conversations, looked at after every one, a verdict was ever said that is wrong (95 % interval). "
            "A difference on the margin is the worst case; the ordinary z-test is for contrast. Without a control the candidate's own share is held against the allowance, which stands as the margin."
        ),
    ),
    (
        power,
        (
            "**Power**: conversations until the verdict. The forecast is what was expected half-way there, as a multiple of what it took, for alpha 1 %: it is a little too long as a rule, for "
            "at half the way the evidence seldom has half its rise."
        ),
    ),
    (
        drift,
        "**Drift**: how long the e-detector runs. Without drift at least as many differing conversations as the bound, on average.",
    ),
    (
        multiplicity,
        (
            f"**Many slices at once**: {multiplicity.SLICES} slices, in some of which the candidate is the bad one in {multiplicity.WORSE:.0%} of the conversations in which the arms differ, at a false "
            "discovery rate of 5 %, means over 200 runs. p-values allow one look; evidence allows any."
        ),
    ),
    (
        renormalised,
        f"**Lists are never renormalised**: vocabulary {renormalised.VOCABULARY:,}, Gaussian logits, lists of {renormalised.LISTED}, KL over the tokens in both.",
    ),
)


def tables(seed: int) -> str:
    """All of them, as Markdown."""
    return "\n\n".join("\n".join([text, "", *part.table(seed)]) for part, text in _PARTS)


def published(page: str) -> str:
    """What stands between the marks."""
    _, begin, rest = page.partition(BEGIN)
    inside, end, _ = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE}: the marks {BEGIN} and {END} are missing")
    return inside.strip()


def main() -> None:
    """Print or write."""
    parser = argparse.ArgumentParser(prog="python -m tests.known_truth.simulations", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the page's is 1")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="so many runs, each with the next seed")
    parser.add_argument(
        "--write", action="store_true", help=f"put the tables of the first run into {PAGE.name} of proxy/compare"
    )
    asked = parser.parse_args()
    for seed in range(asked.seed, asked.seed + asked.seeds):
        made = tables(seed)
        print(f"seed {seed}\n\n{made}\n")
        if asked.write and seed == asked.seed:
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(page.replace(published(page), made), encoding="utf-8")


if __name__ == "__main__":
    main()
