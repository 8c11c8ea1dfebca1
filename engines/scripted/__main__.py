"""``python -m engines.scripted``: the scripted engine without Parhelion's command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engines.scripted.script_load import ScriptError, load
from engines.scripted.server import serve
from engines.scripted.writers.registry import NAMES


def main() -> int:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(
        prog="python -m engines.scripted", description="A toy model that speaks any engine's dialect, by a script."
    )
    parser.add_argument("--dialect", choices=NAMES, default="vllm")
    parser.add_argument("--script", type=Path, help="a YAML file; engines/scripted/README.md says what it holds")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8200)
    options = parser.parse_args()
    try:
        serve(load(options.script), options.dialect, options.host, options.port)
    except (ScriptError, OSError) as wrong:
        print(f"parhelion: {wrong}", file=sys.stderr)  # noqa: T201 - a command's own words
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
