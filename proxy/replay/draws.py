"""Sampled requests asked several times of every arm, and whether the arms draw alike (``proxy.compare.mmd``).

Two random draws say nothing about each other, so the judge asks no shadow for them; a replay that is told to does. What a shadow drew stands in the record of its ``free`` mode, which says
``sampled`` as always, beside what the primary drew: so draws are kept and gone on with as everything else is.

House rules. Decides nothing: the test's p-value is told beside the verdict, which does not look at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from proxy.compare.comparison import Mode
from proxy.compare.mmd import Draws, discrepancy
from proxy.judge.arm import Answered, Arm
from proxy.judge.case import ShadowArm
from proxy.judge.desk import Done
from proxy.judge.free import copy_for
from proxy.judge.request import Asked
from proxy.ledger.record import Record, Settlement

_SAMPLED = "sampled"
Texts = tuple[str, ...]


async def drawn(done: Done, primary: Arm, shadows: Sequence[ShadowArm], id_: str) -> Done:
    """Ask the shadows, too, where the primary's reply was drawn at random; what they said goes into their records. One that fails has drawn nothing."""
    asked = None if done.examined is None else done.examined.asked
    wanted = {one.shadow for one in done.settlements if _is_draw(one.record)}
    if asked is None or not wanted:
        return done
    asking = [one for one in shadows if one.arm.name in wanted]
    said = await asyncio.gather(*(_draw(asked, primary, one, id_) for one in asking))
    texts = {one.arm.name: text for one, text in zip(asking, said, strict=True)}
    return Done(tuple(_with(one, texts) for one in done.settlements), done.examined, done.trials)


async def _draw(asked: Asked, primary: Arm, shadow: ShadowArm, id_: str) -> Texts:
    arm = shadow.arm
    if arm.dialect is None:
        return ()
    body = copy_for(asked, primary, shadow, arm.dialect)
    answer = await arm.ask(asked.endpoint, asked.path, body, id_, expected=asked.max_tokens or 0)
    if not isinstance(answer, Answered) or answer.reply.error is not None:
        return ()
    return tuple(choice.reasoning + choice.text for choice in answer.reply.choices)


def _is_draw(record: Record | None) -> bool:
    return (
        record is not None
        and record.content is not None
        and record.comparison.mode is Mode.FREE
        and record.comparison.incomparable == _SAMPLED
    )


def _with(one: Settlement, texts: Mapping[str, Texts]) -> Settlement:
    if one.record is None or one.record.content is None or not _is_draw(one.record):
        return one
    content = replace(one.record.content, shadow=texts.get(one.shadow, ()))
    return replace(one, record=replace(one.record, content=content))


def discrepancies(records: Iterable[Record]) -> dict[str, dict[str, Any] | None]:
    """Test each shadow's draws against the primary's, JSON-ready; None where no prompt has two of each arm."""
    found: dict[str, dict[str, tuple[list[str], list[str]]]] = {}
    for record in records:
        if _is_draw(record) and record.content is not None:
            ours, theirs = found.setdefault(record.shadow, {}).setdefault(record.prompt, ([], []))
            ours += record.content.primary
            theirs += record.content.shadow
    tested = {
        name: discrepancy(Draws(prompt, tuple(ours), tuple(theirs)) for prompt, (ours, theirs) in prompts.items())
        for name, prompts in found.items()
    }
    return {name: None if one is None else to_builtins(one) for name, one in tested.items()}


def sentence(name: str, found: Mapping[str, Any] | None) -> str:
    """Say what the test says of one shadow."""
    if found is None:
        return f"{name}: no sampled prompt has two draws of both arms: nothing can be said of how it draws"
    much = f"{found['ours']} draws of the primary, {found['theirs']} of its own at {found['prompts']} sampled prompts"
    left = f", {found['left_out']} prompts left out" if found["left_out"] else ""
    return (
        f"{name}: {much}{left}: MMD^2 {found['mmd_squared']:.3g}, p = {found['p_value']:.3g} "
        "(the chance of sets so far apart if both draw alike; of one look, after the last request)"
    )
