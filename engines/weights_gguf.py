"""Turns a GGUF file into a directory in Hugging Face's layout, so that vLLM, Transformers and llama.cpp run the very same weights.

Transformers dequantises a GGUF while loading but refuses to save the result ("quantized with gguf and is not serializable"); so the tensors are moved into a
fresh model whose configuration does not speak of GGUF, and that is saved. House rules: whole or not at all: a directory appears under its final name only when
everything in it is written. Importing this needs no torch; converting does, and can be handed to another interpreter that has it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_ROOT = Path(__file__).resolve().parent.parent


class ConversionError(Exception):
    """The file could not be converted; the text says why and how to mend it."""


def huggingface_directory(gguf: Path, cache: Path, *, dtype: str = "fp32", python: str | None = None) -> Path:
    """Return one of ``huggingface_directories``."""
    return huggingface_directories(gguf, cache, (dtype,), python=python)[dtype]


def huggingface_directories(
    gguf: Path, cache: Path, dtypes: Sequence[str], *, python: str | None = None
) -> dict[str, Path]:
    """Return the directories under ``cache`` that hold ``gguf``'s weights as safetensors, by dtype, converting once.

    ``python`` is an interpreter with torch and Transformers to convert with; this one when None. A directory's name
    carries a digest of the file's size and first megabyte, so another file of the same name is converted anew. Several
    dtypes at once cost little more than one. Raises ConversionError.
    """
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise ConversionError(f"dtype {dtype}: choose one of {', '.join(DTYPES)}")
    if not gguf.is_file():
        raise ConversionError(f"{gguf}: there is no such file")
    digest = _digest(gguf)
    targets = {dtype: cache / f"{gguf.stem}-{dtype}-{digest}" for dtype in dtypes}
    missing = {dtype: target for dtype, target in targets.items() if not target.is_dir()}
    if not missing:
        return targets
    if python is None and importlib.util.find_spec("torch") is not None:
        convert(gguf, missing)
        return targets
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])),
    }
    wanted = [f"{dtype}={target}" for dtype, target in missing.items()]
    command = [python or sys.executable, "-m", "engines.weights_gguf", str(gguf), *wanted]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise ConversionError(
            said[-1].removeprefix("parhelion: ") if said else f"{command[0]} ended: {done.returncode}"
        )
    return targets


def convert(gguf: Path, targets: Mapping[str, Path]) -> None:
    """Write a directory for each dtype. Needs torch and Transformers; about 25 s for 135 million parameters."""
    try:
        import torch
        import transformers
    except ImportError as missing:
        raise ConversionError(
            f"{missing.name} is not installed: pip install 'parhelion[reference]' (in a checkout: '.[reference]')"
        ) from missing
    where, name = str(gguf.parent), gguf.name
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, gguf_file=name)
        # Always dequantised in full and rounded once: the narrower directories hold the fp32 one's values, rounded.
        loaded = transformers.AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
    except (OSError, ValueError, KeyError, NotImplementedError) as failed:
        raise ConversionError(f"{gguf}: {' '.join(str(failed).split())[:300]}") from failed
    for dtype, target in targets.items():
        model = _plain(transformers, loaded, getattr(torch, DTYPES[dtype]))
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            model.save_pretrained(unfinished)
            tokenizer.save_pretrained(unfinished)
            _publish(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _plain(transformers: Any, loaded: Any, dtype: Any) -> Any:
    """Move the tensors into a model of the same configuration without its quantisation."""
    described = loaded.config.to_dict()
    described.pop("quantization_config", None)
    model = transformers.AutoModelForCausalLM.from_config(type(loaded.config).from_dict(described)).to(dtype)
    missing, unexpected = model.load_state_dict(loaded.state_dict(), strict=False)
    # Tied output weights are one tensor under two names: not missing.
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    if unexpected or set(missing) - tied:
        raise ConversionError(
            f"tensors do not fit the configuration: missing {sorted(set(missing) - tied)[:3]}, unexpected {sorted(unexpected)[:3]}"
        )
    model.generation_config = loaded.generation_config
    return model


def _publish(unfinished: Path, target: Path) -> None:
    """Give a directory its final name; readable for others, as a container's user may be another one."""
    unfinished.chmod(0o755)
    for file in unfinished.iterdir():
        file.chmod(0o644)
    try:
        unfinished.rename(target)
    except OSError:
        # Another process finished first: its directory is the same.
        if not target.is_dir():
            raise


def _digest(gguf: Path) -> str:
    with gguf.open("rb") as opened:
        return hashlib.sha256(str(gguf.stat().st_size).encode() + opened.read(2**20)).hexdigest()[:12]


def main() -> int:
    """Convert one file from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m engines.weights_gguf", description="Convert a GGUF file into Hugging Face directories."
    )
    parser.add_argument("gguf", type=Path)
    parser.add_argument("targets", nargs="+", metavar="DTYPE=DIRECTORY", help=f"dtype: {', '.join(DTYPES)}")
    chosen = parser.parse_args()
    targets = {dtype: Path(directory) for dtype, _, directory in (target.partition("=") for target in chosen.targets)}
    if unknown := targets.keys() - DTYPES.keys():
        parser.error(f"{', '.join(sorted(unknown))}: choose dtypes from {', '.join(DTYPES)}")
    try:
        convert(chosen.gguf, targets)
    except ConversionError as failed:
        print(f"parhelion: {failed}", file=sys.stderr)  # noqa: T201 - a command's own words
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
