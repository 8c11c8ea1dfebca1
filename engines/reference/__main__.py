"""``python -m engines.reference``: the reference engine without Parhelion's command line, for an environment that has only what it needs."""

from __future__ import annotations

import argparse
import sys

from engines.reference.options import DEVICES, DTYPES, EngineStartError, ReferenceOptions
from engines.reference.server import serve


def main() -> int:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(
        prog="python -m engines.reference", description="OpenAI-compatible reference engine on Transformers and torch."
    )
    parser.add_argument("--model", required=True, help="directory, hub name or .gguf file")
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="fp32")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--served-model-name")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--attention", default="sdpa", help="Transformers' attention implementation: sdpa, eager, ...")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--max-logprobs", type=int, default=1000)
    parser.add_argument("--chat-template", metavar="FILE", help="instead of the model's own template")
    parser.add_argument("--temperature", type=float, help="for requests without one")
    parser.add_argument(
        "--planted",
        metavar="FAULTS",
        default="",
        help="put faults in, for trials alone: logit-noise=0.02,from-position=16",
    )
    parser.add_argument(
        "--planted-routes", action="store_true", help="serve /planted/FAULTS/v1/... as well, for trials alone"
    )
    parser.add_argument(
        "--full-vocabulary", action="store_true", help="serve /full_logprobs: every token's value as an .npy array"
    )
    try:
        serve(ReferenceOptions(**vars(parser.parse_args())))
    except (EngineStartError, ValueError) as wrong:
        print(f"parhelion: {wrong}", file=sys.stderr)  # noqa: T201 - a command's own words
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
