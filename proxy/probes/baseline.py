"""The runs that an engine's later answers are held against, and of which stack they are.

House rules. A frozen value and its file. A baseline is of one set of probes and one engine; asked with another set it is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from proxy.probes.ask import Run
from proxy.probes.probe import BadProbes


class Baseline(Struct, frozen=True):
    """``probes``: the set's id. ``footprint``: its id, and what routes told of the stack then (``fields``). ``made``: Unix seconds."""

    probes: str
    engine: str
    model: str | None
    footprint: str
    runs: tuple[Run, ...]
    made: float
    fields: dict[str, str | int | float | bool | None] = {}
    schema: Literal["parhelion.probe_baseline/1"] = "parhelion.probe_baseline/1"


def load(path: Path) -> Baseline | None:
    """Read a baseline, None where there is none yet. Raises BadProbes."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Baseline)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadProbes(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError:
        raise BadProbes(f"{path}: not a baseline of `parhelion probes run`; name another with --baseline") from None
    if not found.runs or len({(len(one.gaps), len(one.flipped)) for one in found.runs}) != 1:
        raise BadProbes(f"{path}: its runs are not of one length; learn it anew with --learn")
    return found
