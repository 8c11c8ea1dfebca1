"""``python -m tests.bench.publish``: write the last table (build/bench/table.json) into RESULTS.md, and what matters most of it into the README.

House rules. Shows what was measured, whole and in the words of the table; leaves nothing out of RESULTS.md, where rows that were measured apart have a part of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.bench.ratio import Interval, Verdict
from tests.bench.table import Result, as_markdown

ROOT = Path(__file__).parents[2]
_BEGIN, _END = "<!-- bench: written by python -m tests.bench.publish -->\n", "<!-- /bench -->\n"
#: Goals whose rows the README shows, as far as they have a bound.
_HEADLINES = (1, 2, 4, 6, 10, 11, 15)


def results_of(table: dict[str, Any]) -> list[Result]:
    """The results that ``table.as_json`` wrote."""
    return [
        Result(
            one["goal"],
            one["row"],
            one["bound"],
            Verdict(one["verdict"]),
            None
            if one["ratio"] is None
            else Interval(one["ratio"], one["low"], float("inf") if one["high"] is None else one["high"], one["pairs"]),
            one["figure"],
            one["share"],
            one["note"],
        )
        for one in table["results"]
    ]


def page(table: dict[str, Any], before: str = "") -> str:
    """The whole of RESULTS.md; of what stood there ``before``, the parts of other rows stay."""
    rows = _rows(table["where"]["command"])
    others = [part for part in re.split(r"(?m)^(?=# What )", before) if part and _rows(part) != rows]
    return "\n".join([part.rstrip() + "\n" for part in (*others, _part(table))])


def _rows(command: str) -> str:
    """Which rows were asked for: "" for every one."""
    said = re.search(r"--rows[ =]([^\s`]+)", command)
    return said[1] if said else ""


def _part(table: dict[str, Any]) -> str:
    where = table["where"]
    return (
        f"# What `{where['command']}` measured\n\n"
        f"On {where['machine']}, {where['cores']} cores, Linux {where['kernel']}, Python {where['python']}; {where['when']}, revision {where['revision']}. Ratios are ours / theirs.\n"
        "How to read it: [README.md](README.md).\n\n" + as_markdown(results_of(table))
    )


def headlines(table: dict[str, Any]) -> str:
    """The rows for the README."""
    rows = [one for one in results_of(table) if one.goal in _HEADLINES and one.bound and " rps" not in one.row]
    lines = ["| | goal | measured [95 %] | |", "| --- | --- | --- | --- |"]
    lines += [f"| {one.row} | {one.bound} | {one.measured} | {one.verdict.value} |" for one in rows]
    return "\n".join(lines) + "\n"


def into(readme: str, table: dict[str, Any]) -> str:
    """The README with its table written anew. Raises ValueError when it has no place for one."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the README has no lines {_BEGIN.strip()} and {_END.strip()}")
    return f"{before}{begin}\n{headlines(table)}\n{end}{after}"


def main() -> int:
    """Publish."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.publish", description=__doc__)
    parser.add_argument("table", type=Path, nargs="?", default=ROOT / "build" / "bench" / "table.json")
    table = json.loads(parser.parse_args().table.read_text())
    results = Path(__file__).parent / "RESULTS.md"
    results.write_text(page(table, results.read_text() if results.exists() else ""))
    if any(one.goal in _HEADLINES for one in results_of(table)):
        readme = ROOT / "README.md"
        readme.write_text(into(readme.read_text(), table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
