"""An engine that nobody can ask any more: what its recorded replies and its owner's word say of it.

House rules. Asks nothing and invents nothing: what was not declared is unknown, but for what its dialect documents for every engine of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.capabilities import Capabilities
from engines.dialect import Dialect
from engines.footprint import make
from engines.probe import Probe, declared_defaults


def unasked(dialect: Dialect, declared: Mapping[str, Any]) -> Probe:
    """Return what a probe would have, as far as it is known. ``declared``: as ``primary.declare``."""
    mode = declared.get("logprob_mode")
    mode = mode if isinstance(mode, str) else dialect.logprob_mode
    footprint = make({}, {"engine": dialect.name, "logprob_mode": mode}, declared)
    defaults = declared_defaults(dialect.defaults, declared)
    return Probe(dialect.name, "", defaults, footprint, Capabilities(logprob_mode=mode))
