"""``free`` mode: the shadows answer the same request on their own, and lend their tokens to a primary that gave none.

House rules. A shadow is asked at most once for an exchange. A request that was sampled is not mirrored here: two random draws say
nothing about each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Mode, Source
from proxy.compare.findings import values_incomparable
from proxy.compare.token_stream import Reply
from proxy.judge import sources
from proxy.judge.arm import Answered, Arm, Refused
from proxy.judge.case import Case, ShadowArm, sound
from proxy.judge.settle import Outcome
from proxy.judge.shape import shadow_body
from proxy.judge.sources import Tokens

Replies = Mapping[str, Answered | Refused]


async def ask_shadows(case: Case, primary: Arm, shadows: Sequence[ShadowArm], *, twin_needed: bool) -> Replies:
    """Ask every shadow that runs free, and the control also when only its tokens are wanted. Greedy requests only."""
    if not case.greedy:
        return {}
    wanted = [one for one in shadows if Mode.FREE in one.modes or (twin_needed and one.role == "control")]
    answers = await asyncio.gather(*(_ask(case, primary, one) for one in wanted))
    return {one.arm.name: answer for one, answer in zip(wanted, answers, strict=True)}


async def _ask(case: Case, primary: Arm, shadow: ShadowArm) -> Answered | Refused:
    arm, asked = shadow.arm, case.asked
    if arm.dialect is None:
        return Refused("shadow_unready", shed=True)
    body = shadow_body(
        asked, arm.dialect, models=shadow.models, defaults=primary.defaults, top_logprobs=arm.most(shadow.top_logprobs)
    )
    expected = case.primary.completion_tokens or 0
    return await arm.ask(asked.endpoint, asked.path, body, case.exchange.id, expected=expected)


def twin_of(replies: Replies, shadows: Sequence[ShadowArm]) -> Reply | None:
    """The control's usable reply, if there is one."""
    for shadow in shadows:
        answer = replies.get(shadow.arm.name)
        if shadow.role == "control" and isinstance(answer, Answered) and answer.reply.error is None:
            return answer.reply
    return None


async def rescore(case: Case, primary: Arm, *, top: int) -> Tokens | None:
    """(d): ask the primary again, off the client's path; kept only when it says the same."""
    if not case.greedy or primary.dialect is None:
        return None
    body = shadow_body(
        case.asked, primary.dialect, models={}, defaults=primary.defaults, top_logprobs=primary.most(top)
    )
    answer = await primary.ask(case.asked.endpoint, case.asked.path, body, case.exchange.id)
    twin = answer.reply if isinstance(answer, Answered) else None
    return sources.by_twin(case.primary, twin, Source.RESCORE)


def outcome(case: Case, shadow: ShadowArm, replies: Replies, tokens: Tokens | None, primary: Arm) -> Outcome:
    """Settle one shadow's free mode. ``tokens`` are the primary's, None when only its text is known."""
    name, role = shadow.arm.name, shadow.role
    if not case.greedy:
        return Outcome(name, role, Mode.FREE, incomparable="sampled", footprint=shadow.arm.footprint)
    match replies.get(name):
        case Refused(reason, shed=True):
            return Outcome(name, role, Mode.FREE, shed=reason)
        case Refused(reason):
            return Outcome(name, role, Mode.FREE, incomparable=reason, footprint=shadow.arm.footprint)
        case Answered(reply, timing):
            known = tokens or Tokens(case.primary, Source.TEXT)
            comparison = sound(
                Mode.FREE,
                lambda: compare_free(
                    known.reply,
                    reply,
                    source=known.source,
                    tau=case.taus.free,
                    greedy=True,
                    values_incomparable=values_incomparable(primary.logprob_mode, shadow.arm.logprob_mode),
                    stop=case.asked.stops(),
                ),
            )
            return Outcome(
                name, role, Mode.FREE, comparison, shadow_reply=reply, timing=timing, footprint=shadow.arm.footprint
            )
        case None:
            raise AssertionError("a shadow that runs free was not asked")
