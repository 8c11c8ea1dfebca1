"""The picture of a report's beginning in the README, from the JSON that the demo wrote: ``python -m proxy.demo.picture report.json picture.svg``."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import orjson
from rich.console import Console

from proxy.ledger.render import render_beginning

_WIDTH = 118


def main() -> int:
    """Render one report."""
    if len(sys.argv) != 3:
        sys.stderr.write("usage: python -m proxy.demo.picture REPORT.json PICTURE.svg\n")
        return 2
    report = orjson.loads(Path(sys.argv[1]).read_bytes())
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    render_beginning(report, console)
    console.save_svg(sys.argv[2], title="make demo", unique_id="parhelion")
    return 0


if __name__ == "__main__":
    sys.exit(main())
