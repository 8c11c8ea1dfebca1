"""How often an interval holds the known truth, and what the headline numbers of a report cost: ``python -m tests.bench.headline [--seeds N] [--tokens N]``.

The truth of the first is known because the arms are drawn; see ``tests/compare/test_headline.py``. The second is processor time of this machine, with a parse
of JSON beside it to compare machines by.
"""

from __future__ import annotations

import argparse
import random
import time

import orjson

from proxy.compare.comparison import Mode
from proxy.compare.headline import headline
from tests.compare.test_headline import TRUTH, once, scored

_LENGTH = 100  # tokens of a conversation


def coverage(seeds: int) -> dict[str, float]:
    """Return the share of seeds whose 95 % interval of the excess holds the truth, by number."""
    held = dict.fromkeys(TRUTH, 0)
    for seed in range(seeds):
        found = once(f"bench{seed}")
        for name, truth in TRUTH.items():
            low, high = found[name]["interval"]
            held[name] += low <= truth <= high
    return {name: count / seeds for name, count in held.items()}


def cost(tokens: int) -> tuple[float, float]:
    """Return seconds of processor time for the headline of two arms of so many tokens each, and for parsing 1 MB of JSON."""
    rng = random.Random(1)
    own, control = ([scored(rng, size, tokens=_LENGTH) for _ in range(tokens // _LENGTH)] for size in (0.1, 0.05))
    names = [str(number) for number in range(len(own))]
    began = time.process_time()
    headline(Mode.FORCED, own, names, control, names)
    spent = time.process_time() - began
    body = orjson.dumps([-rng.random() for _ in range(50_000)])
    began = time.process_time()
    orjson.loads(body)
    return spent, (time.process_time() - began) / len(body) * 1e6


def main() -> None:
    """Print both."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=400)
    options.add_argument("--tokens", type=int, default=100_000)
    asked = options.parse_args()
    spent, parse = cost(asked.tokens)
    print(
        f"headline of 2 x {asked.tokens:,} tokens: {spent:.2f} s of processor time (orjson here: {1e3 * parse:.2f} ms a MB)"
    )
    for name, share in coverage(asked.seeds).items():
        print(f"95 % interval of the excess holds the truth, {name}: {100 * share:.1f} % of {asked.seeds} seeds")


if __name__ == "__main__":
    main()
