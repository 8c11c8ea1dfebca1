"""The evaluation harness: ``python lm_eval_client.py MODEL TOKENIZER TASK,TASK,... URL [URL ...]``.

Prints a JSON list, for each URL an object of one result a task: the scores, and for every question what the engine's replies were read as. Tasks are the
files in ``lm_eval_tasks``; nothing comes from a hub.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lm_eval
import yaml

TASKS = Path(__file__).parent / "lm_eval_tasks"


def task(name: str) -> dict[str, Any]:
    """A task's file as the harness wants it, its questions found wherever this is run."""
    config = dict(yaml.safe_load((TASKS / f"{name}.yaml").read_text()))
    return config | {"dataset_kwargs": {"data_files": {"test": str(TASKS / "sky.jsonl")}}}


def evaluated(url: str, model: str, tokenizer: str, names: list[str]) -> dict[str, Any]:
    """One evaluation over ``local-completions``: tokens sent as ids, log-likelihoods by echo and logprobs."""
    done = lm_eval.simple_evaluate(
        model="local-completions",
        model_args={
            "model": model,
            "base_url": f"{url}/v1/completions",
            "tokenizer": tokenizer,
            "tokenizer_backend": "huggingface",
            "tokenized_requests": True,
            "num_concurrent": 1,
            "max_retries": 1,
            "max_length": 1024,
            "timeout": 120,
        },
        tasks=[task(name) for name in names],
        bootstrap_iters=0,
        log_samples=True,
    )
    return {
        name: {
            "scores": done["results"][name],
            "replies": [[sample["resps"], sample["filtered_resps"]] for sample in done["samples"][name]],
        }
        for name in names
    }


def main(model: str, tokenizer: str, names: str, *urls: str) -> None:
    print(json.dumps([evaluated(url, model, tokenizer, names.split(",")) for url in urls]))


if __name__ == "__main__":
    main(*sys.argv[1:])
