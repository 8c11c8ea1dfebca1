"""For the engines' own Python: import a few files of an engine and nothing of what they would start.

An engine's package imports CUDA kernels, torch and a server on the way to its protocol. Here every module of it is a stand-in but those named as real, which are
the installed files, unchanged; so are the parents of those, whose ``__init__`` files are left out. A stand-in has any name that is asked of it: a class that can be made,
called, subclassed and checked against, and does nothing.

``serve`` answers one JSON line for each JSON line it is sent.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import types


class _Anything(type):
    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        made = _Anything(name, (StandIn,), {})
        setattr(cls, name, made)
        return made


class StandIn(metaclass=_Anything):
    """What a stand-in module holds."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return args[0] if args and callable(args[0]) else StandIn()

    def __init_subclass__(cls, **kwargs):
        pass

    def __class_getitem__(cls, item):
        return cls

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema

        return core_schema.any_schema()


class _Module(types.ModuleType):
    real = frozenset()

    def __getattr__(self, name):
        if name.startswith("__") or f"{self.__name__}.{name}" in self.real:
            raise AttributeError(name)  # so that ``from package import module`` goes on to import it
        made = _Anything(name, (StandIn,), {})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, package, real, absent):
        self.package, self.real, self.absent = package, real, absent
        self.root = importlib.util.find_spec(package).submodule_search_locations[0].removesuffix(f"/{package}")

    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if name in self.real or top not in {self.package, *self.absent}:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = [f"{self.root}/{name.replace('.', '/')}"] if top == self.package else []
        return spec

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def stand_in(package, real, absent):
    """Let ``real`` modules of ``package`` be imported alone; ``absent`` are other packages that are not installed."""
    _Module.real = frozenset(real)
    sys.meta_path.insert(0, _Finder(package, _Module.real, set(absent)))


def serve(jobs):
    """Answer each line ``{"do": name, ...}`` with ``jobs[name](...)``; what a job raises is answered as ``{"error": ...}``."""
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = jobs[job.pop("do")](**job)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test that asked shall see it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
