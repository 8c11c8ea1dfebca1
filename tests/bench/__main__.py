"""``python -m tests.bench``: measure rows, print the table, write it as JSON and Markdown."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.ratio import Verdict
from tests.bench.rows import bodies, comparator, cost, cpu, fidelity, ill, inject, latency, metrics, store, streams, tls
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
    "store": store.answers,
}


def main() -> int:
    """Measure; the exit status is 1 when a goal is not met or a row is void."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help=f"which, with commas between: {', '.join(ROWS)}")
    parser.add_argument("--pairs", type=int, default=9, help="rounds of a row; fewer than 9 prove nothing")
    parser.add_argument("--seconds", type=float, default=0.6, help="length of one measurement")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="folder for table.json and table.md")
    parser.add_argument("--list", action="store_true", help="say what each row measures")
    said = parser.parse_args()
    if said.list:
        print("\n".join(f"{name:13} {(row.__doc__ or '').splitlines()[0]}" for name, row in ROWS.items()))
        return 0
    names = said.rows.split(",")
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end what was started
    said.output.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with stand(said.pairs, said.seconds) as bench:
        for name in names:
            results += _row(bench, name)
            _write(said.output, results)
    print(as_text(sorted(results, key=lambda one: one.goal or 99)))
    return int(any(one.verdict in {Verdict.NOT_MET, Verdict.VOID} for one in results))


def _row(bench: Stand, name: str) -> Iterator[Result]:
    """The results of one row; one that breaks is void, and the others are measured all the same."""
    began = time.monotonic()
    try:
        for result in ROWS[name](bench):
            bench.say(as_text([result]).splitlines()[1])
            yield result
    except Exception as error:  # noqa: BLE001 - whatever breaks in one row, the others are worth having
        traceback.print_exc()
        yield Result(0, name, "", Verdict.VOID, figure=f"{type(error).__name__}", note=str(error)[:80])
    bench.say(f"row {name}: {time.monotonic() - began:.0f} s")


def _write(folder: Path, results: list[Result]) -> None:
    """After every row, so that nothing measured is lost."""
    ordered = sorted(results, key=lambda one: one.goal or 99)
    (folder / "table.json").write_text(as_json(ordered))
    (folder / "table.md").write_text(as_markdown(ordered))


if __name__ == "__main__":
    sys.exit(main())
