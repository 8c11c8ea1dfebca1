"""Rollouts of reinforcement learning: how far the engine that draws them and the trainer that learns from them agree on their probabilities.

``compare_rollouts`` is the whole of it as one function, ``parhelion rollouts`` the same as a command. The map: ``rollout`` (one, checked) -> ``spelling``, ``lines``
(out of files) -> ``scoring`` (by an engine, where no trainer has) -> ``tally`` (added up) -> ``measured`` (the result) -> ``gate``, ``render``.
"""

from __future__ import annotations

from proxy.rollouts.compare import compare_rollouts
from proxy.rollouts.measured import Measured, Settings, Worst
from proxy.rollouts.rollout import Rollout, Unusable

__all__ = ["Measured", "Rollout", "Settings", "Unusable", "Worst", "compare_rollouts"]
