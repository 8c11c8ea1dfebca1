"""``python -m tests.bench``: measure rows, print the table, write it as JSON and Markdown."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.ratio import Verdict
from tests.bench.rows import bodies, comparator, cost, cpu, fidelity, ill, inject, latency, metrics, streams, tls
from tests.bench.stand import Stand, stand
from tests.bench.table import Result, as_json, as_markdown, as_text

ROWS: dict[str, Callable[[Stand], Iterator[Result]]] = {
    "cpu": cpu.mirrored,
    "rate": cpu.mirrored_at_rate,
    "litellm": cpu.python_gateway,
    "off": cpu.off,
    "throughput": cpu.throughput,
    "paced": latency.paced,
    "seldom": latency.seldom,
    "streams": streams.thousand,
    "instructions": cost.user_instructions,
    "syscalls": cost.system_calls,
    "bodies": bodies.large,
    "ill": ill.shadows,
    "tokens": comparator.tokens,
    "saturated": comparator.saturated,
    "metrics": metrics.cost,
    "fidelity": fidelity.bodies,
    "inject": inject.injecting,
    "https": tls.https,
}


def main() -> int:
    """Measure; the exit status is 1 when a goal is not met or a row is void."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help=f"which, with commas between: {', '.join(ROWS)}")
    parser.add_argument("--pairs", type=int, default=9, help="rounds of a row; fewer than 9 prove nothing")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="folder for table.json and table.md")
    said = parser.parse_args()
    unknown = [name for name in said.rows.split(",") if name not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}")
    results: list[Result] = []
    with stand(said.pairs, said.seconds) as bench:
        for name in said.rows.split(","):
            began = time.monotonic()
            for result in ROWS[name](bench):
                results.append(result)
                bench.say(as_text([result]).splitlines()[1])
            bench.say(f"row {name}: {time.monotonic() - began:.0f} s")
    said.output.mkdir(parents=True, exist_ok=True)
    (said.output / "table.json").write_text(as_json(results))
    (said.output / "table.md").write_text(as_markdown(results))
    print(as_text(results))
    return int(any(one.verdict in {Verdict.NOT_MET, Verdict.VOID} for one in results))


if __name__ == "__main__":
    sys.exit(main())
