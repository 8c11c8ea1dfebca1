"""``python -m tests.fuzz NAME --seconds N``: one target for a time, with atheris where it is installed, else with hypothesis."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", nargs="?", help="the target")
    parser.add_argument("--list", action="store_true", help="name all targets and what each holds")
    parser.add_argument("--seconds", type=int, default=60, help="how long to run (default 60)")
    parser.add_argument("--with", dest="driver", choices=["atheris", "hypothesis"], help="which driver (default: atheris if installed)")  # fmt: skip
    parser.add_argument(
        "--found", type=Path, help="where new inputs and failing ones are left (default: build/fuzz/NAME)"
    )
    return parser.parse_args()


def main() -> int:
    """Run; 0 when nothing was found."""
    arguments = _arguments()
    from tests.fuzz import NAMES, kept, target
    from tests.fuzz.drive import atheris_here, with_hypothesis

    if arguments.list or not arguments.name:
        for name in NAMES:
            doc = sys.modules[target(name).check.__module__].__doc__ or ""
            print(f"{name:16} {doc.splitlines()[0]}")
        return 0
    found = arguments.found or Path("build") / "fuzz" / arguments.name
    found.mkdir(parents=True, exist_ok=True)
    if arguments.driver == "hypothesis" or not (arguments.driver or atheris_here()):
        tried = with_hypothesis(target(arguments.name), kept(arguments.name), arguments.seconds, seed=int(time.time()))
        print(f"{arguments.name}: {tried} inputs in {arguments.seconds} s, nothing found")
        return 0
    return _with_atheris(arguments.name, arguments.seconds, found)


def _with_atheris(name: str, seconds: int, found: Path) -> int:
    import atheris  # type: ignore[import-not-found]  # it publishes no types, and not every platform has it

    for module in [module for module in sys.modules if module.startswith(("proxy", "engines"))]:
        del sys.modules[module]  # what was imported to list the targets is imported again, to be followed
    with atheris.instrument_imports(include=["proxy", "engines"]):
        from tests.fuzz import CORPUS, target

        chosen = target(name)
    words = found / "words.dict"
    words.write_text("".join(_quoted(word) for word in chosen.words))
    fresh = found / "fresh"
    fresh.mkdir(exist_ok=True)
    for number, seed in enumerate(chosen.seeds):
        (fresh / f"seed-{number}").write_bytes(seed)
    flags = [f"-max_total_time={seconds}", f"-max_len={chosen.longest}", f"-artifact_prefix={found}/"]
    flags += [f"-dict={words}"] if chosen.words else []
    flags += ["-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], str(fresh), str(CORPUS / name), *flags], chosen.check)
    atheris.Fuzz()
    return 0


def _quoted(word: bytes) -> str:
    """A line of a libFuzzer dictionary."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'


if __name__ == "__main__":
    sys.exit(main())
