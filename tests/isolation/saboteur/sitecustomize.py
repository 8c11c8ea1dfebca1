"""Sabotage inside the judge, for tests: Python imports this first when its folder leads ``PYTHONPATH``, and the comparison then does what a file says.

``PARHELION_SABOTAGE`` names the file; it is read at every comparison: ``raise``, ``block SECONDS``, ``hog`` (memory until there is none); when empty, nothing.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

_TARGET = "proxy.compare.compare_free"


def _sabotaged(compare: Any) -> Any:
    def instead(*positional: Any, **named: Any) -> Any:
        word, _, number = Path(os.environ["PARHELION_SABOTAGE"]).read_text(encoding="ascii").partition(" ")
        match word:
            case "raise":
                raise ZeroDivisionError("sabotage")
            case "block":
                time.sleep(float(number))
            case "hog":
                held = []
                while True:
                    held.append(bytes(1 << 20))
        return compare(*positional, **named)

    return instead


class _Loader(importlib.abc.Loader):
    def __init__(self, real: importlib.abc.Loader) -> None:
        self._real = real

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        module.compare_free = _sabotaged(module.compare_free)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != _TARGET:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


if "PARHELION_SABOTAGE" in os.environ:
    sys.meta_path.insert(0, _Finder())
