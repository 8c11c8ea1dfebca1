"""The comparison of rollouts as one function, for trainers and notebooks.

House rules. Pure: no file, no engine, no clock. Takes what training code has: lists, numpy arrays, torch tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.rollouts.measured import Measured, Settings
from proxy.rollouts.rollout import Unusable, make
from proxy.rollouts.tally import Tally


def compare_rollouts(
    response_ids: Any,
    rollout_logprobs: Any,
    trainer_logprobs: Any,
    *,
    masks: Any = None,
    unfiltered: bool | None = None,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    cap: float = 2.0,
    worst: int = 10,
) -> Measured:
    """Compare the logprobs that the rollout engine and the trainer give to the tokens of some responses.

    Each of the first three is a sequence with one item per response (or a 2-D array), each item a sequence over its tokens: ids, log p and log q in nats. ``masks``
    alike: true (not 0) for tokens that take part, as padding, tool output and other turns do not; a token id of -100 takes none either. None, NaN and infinities
    are left out and counted. ``unfiltered``: the responses were drawn at temperature 1 without top-p, top-k, min-p, penalties or a grammar, and both sides
    report raw logprobs; only then is the mean of k3 an unbiased estimate of KL(rollout || trainer) (Schulman 2020). ``clip_low`` and ``clip_high`` are PPO's
    epsilons, ``cap`` that of truncated importance sampling.

    Returns a frozen ``Measured``; ``to_dict()`` is what ``parhelion rollouts --json`` writes. A response whose lengths differ, or with a logprob above 0, is counted in
    ``unusable``. Raises ValueError when the arguments have not one item per response each.

        >>> found = compare_rollouts([[5, 7, 9]], [[-0.5, -1.0, -2.0]], [[-0.5, -1.1, -2.0]])
        >>> found.tokens, round(found.numbers["k1_nats"]["raw"], 4)
        (3, 0.0333)
    """
    columns = [_items(one) for one in (response_ids, rollout_logprobs, trainer_logprobs)]
    taken = [None] * len(columns[0]) if masks is None else _items(masks)
    if len({len(one) for one in (*columns, taken)}) != 1:
        sizes = ", ".join(str(len(one)) for one in (*columns, taken))
        raise ValueError(
            f"one item per response is needed in each: ids, rollout logprobs, trainer logprobs, masks have {sizes}"
        )
    tally = Tally(Settings(unfiltered, clip_low, clip_high, cap, worst))
    for number, (ids, ours, theirs, mask) in enumerate(zip(*columns, taken, strict=True), 1):
        try:
            tally.add(make(ids, ours, theirs, mask=mask, name=str(number)))
        except Unusable as reason:
            tally.unusable[reason.reason] += 1
    return tally.measured()


def _items(found: Any) -> Sequence[Any]:
    listed = found.tolist() if hasattr(found, "tolist") else list(found)
    if not isinstance(listed, list):
        raise ValueError("a sequence with one item per response is needed")  # noqa: TRY004 - as every other fault of an argument here
    return listed
