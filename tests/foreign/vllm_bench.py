"""vLLM's serving benchmark: ``python vllm_bench.py MODEL TOKENIZER BACKENDS URL [URL ...]``, run by an interpreter that has vLLM.

BACKENDS are names of vLLM's own (``openai,openai-chat``). Prints a JSON list, for each URL an object of one result a backend: what the benchmark saves. The
benchmark is run as its own command line would (``vllm bench serve``), which a CPU wheel does not install.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from vllm.benchmarks.serve import add_cli_args
from vllm.benchmarks.serve import main as bench

PATHS = {"openai": "/v1/completions", "openai-chat": "/v1/chat/completions"}
REQUESTS = 8


def measured(url: str, backend: str, model: str, tokenizer: str, folder: Path) -> dict[str, Any]:
    """One run: random prompts of a fixed seed, greedy, up to four at once."""
    parser = argparse.ArgumentParser()
    add_cli_args(parser)
    name = f"{backend}-{url.rpartition(':')[2]}.json"
    words = f"""
        --backend {backend} --base-url {url} --endpoint {PATHS[backend]} --model {model} --tokenizer {tokenizer}
        --dataset-name random --random-input-len 24 --random-output-len 12 --num-prompts {REQUESTS} --seed 5
        --temperature 0 --max-concurrency 4 --disable-tqdm --ready-check-timeout-sec 0
        --save-result --save-detailed --result-dir {folder} --result-filename {name}
    """
    bench(parser.parse_args(words.split()))
    return dict(json.loads((folder / name).read_text()))


def main(model: str, tokenizer: str, backends: str, *urls: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = [
            {name: measured(url, name, model, tokenizer, Path(folder)) for name in backends.split(",")} for url in urls
        ]
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
