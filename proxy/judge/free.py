"""``free`` mode: the shadows answer the same request on their own, and lend their tokens to a primary that gave none.

House rules. A shadow is asked at most once for an exchange. A request that was sampled is not mirrored here: two random draws say
nothing about each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from engines.alike import Known
from engines.dialect import Answer, Call, Dialect, Endpoint, Json
from proxy.compare import layers
from proxy.compare.compare_free import compare_free
from proxy.compare.comparison import Comparison, Mode, Source
from proxy.compare.output_shape import with_shapes
from proxy.compare.ranking import compare_ranking
from proxy.compare.token_stream import Reply
from proxy.compare.vectors import compare_vectors
from proxy.exchange import Exchange
from proxy.judge import sources, usage
from proxy.judge.arm import Answered, Arm, Refused
from proxy.judge.beforehand import beforehand, defaults_findings, remember
from proxy.judge.case import LONG, Case, Got, Mirrored, ShadowArm, sound
from proxy.judge.expecting import expected
from proxy.judge.request import Asked
from proxy.judge.settle import Outcome
from proxy.judge.shape import shadow_body
from proxy.judge.shown import Seen, noteworthy
from proxy.judge.sources import Tokens
from proxy.ledger.detail import MOST_ALTERNATIVES

Replies = Mapping[str, Answered | Refused]


def ask_shadows(
    exchange: Exchange, asked: Asked, primary: Arm, wanted: Sequence[ShadowArm], then: Callable[[Mirrored], None]
) -> int:
    """Ask every shadow that is wanted, at least one; ``then`` is told the exchange with all their answers. Greedy requests only.

    Returns the bytes that are held to be sent.
    """
    answers: dict[str, Got | Refused] = {}
    long = len(exchange.request_body) > LONG
    kept, held = None if long else asked, 0

    def came(name: str, body: Json | None, answer: Answer | Refused) -> None:
        answers[name] = answer if isinstance(answer, Refused) else Got(body, answer)
        if len(answers) == len(wanted):
            then(Mirrored(exchange, kept, None, True, answers, long))

    for shadow in wanted:
        arm = shadow.arm
        if arm.dialect is None:
            came(arm.name, {}, Refused("shadow_unready", shed=True))
            continue
        body = copy_for(asked, primary, shadow, arm.dialect)
        expected = 0
        if arm.guard.tokens_per_day is not None:
            expected = usage.completion(exchange.pieces)
        told = partial(came, arm.name, None if long else body)
        held += arm.begin(asked.path, body, exchange.id, expected, told)
    return held


def copy_for(asked: Asked, primary: Arm, shadow: ShadowArm, dialect: Dialect) -> Json:
    """Return a request as a shadow is asked it."""
    most = shadow.arm.most(shadow.top_logprobs)
    own = shadow.arm.defaults
    return shadow_body(asked, dialect, models=shadow.models, defaults=primary.defaults, top_logprobs=most, own=own)


def read_answers(
    mirrored: Mirrored, asked: Asked, primary: Arm, shadows: Sequence[ShadowArm], known: Known | None = None
) -> Replies:
    """Read what the shadows answered. ``known``: the primary's own answer."""
    replies: dict[str, Answered | Refused] = {}
    for shadow in shadows:
        match mirrored.answers.get(shadow.arm.name):
            case Got(body, answer):
                dialect = shadow.arm.dialect
                if body is None:
                    body = {} if dialect is None else copy_for(asked, primary, shadow, dialect)
                replies[shadow.arm.name] = shadow.arm.read(asked.endpoint, body, answer, known)
            case Refused() as refused:
                replies[shadow.arm.name] = refused
            case None:
                pass
    return replies


async def with_twin(case: Case, primary: Arm, shadows: Sequence[ShadowArm], replies: Replies) -> Replies:
    """The same with the control's answer where it does not run free and its tokens are wanted."""
    control = next((one for one in shadows if one.role == "control" and Mode.FREE not in one.modes), None)
    if control is None or not case.greedy:
        return replies
    arm, asked = control.arm, case.asked
    if arm.dialect is None:
        return replies
    body = copy_for(asked, primary, control, arm.dialect)
    expected = case.primary.completion_tokens or 0
    return {**replies, arm.name: await arm.ask(asked.endpoint, asked.path, body, case.exchange.id, expected=expected)}


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
        return _sampled(case, shadow, primary)
    match replies.get(name):
        case Refused(reason, shed=True):
            return Outcome(name, role, Mode.FREE, shed=reason)
        case Refused(reason):
            seen = Seen(sent=((_call(case, primary, shadow),),)) if reason == "shadow_error" else None
            return Outcome(name, role, Mode.FREE, incomparable=reason, footprint=shadow.arm.footprint, seen=seen)
        case Answered(reply, timing):
            comparison = sound(Mode.FREE, lambda: _compared(case, shadow, reply, tokens, primary))
            seen = Seen(tokens.reply if tokens else case.primary, reply)
            if noteworthy(comparison):
                seen = replace(seen, again=again(case, primary), sent=((_call(case, primary, shadow),),))
            return Outcome(name, role, Mode.FREE, comparison, None, None, reply, timing, shadow.arm.footprint, seen)
        case None:
            raise AssertionError("a shadow that runs free was not asked")


def again(case: Case, primary: Arm) -> Call | None:
    """Return what asks the primary for its reply once more, with its values shown."""
    if primary.dialect is None:
        return None
    top = primary.most(MOST_ALTERNATIVES)
    body = shadow_body(case.asked, primary.dialect, models={}, defaults=primary.defaults, top_logprobs=top)
    return Call(case.asked.path, body)


def _call(case: Case, primary: Arm, shadow: ShadowArm) -> Call:
    dialect = shadow.arm.dialect
    return Call(case.asked.path, None if dialect is None else copy_for(case.asked, primary, shadow, dialect))


def _sampled(case: Case, shadow: ShadowArm, primary: Arm) -> Outcome:
    """Two random draws say nothing about each other; that the engines would have drawn differently is said all the same."""
    noted = defaults_findings(case.asked, primary.defaults, shadow.arm)
    comparison = Comparison(
        mode=Mode.FREE,
        incomparable="sampled",
        findings=tuple(one.name for one in noted),
        evidence={one.name: one.evidence for one in noted},
    )
    return Outcome(shadow.arm.name, shadow.role, Mode.FREE, comparison, footprint=shadow.arm.footprint)


def _compared(case: Case, shadow: ShadowArm, reply: Reply, tokens: Tokens | None, primary: Arm) -> Comparison:
    """Hold a shadow's reply against the primary's, as the route asks for."""
    asked, arm = case.asked, shadow.arm
    if asked.endpoint is Endpoint.EMBEDDINGS:
        return compare_vectors(case.primary, reply)
    if asked.endpoint in {Endpoint.RERANK, Endpoint.SCORE}:
        return compare_ranking(case.primary, reply, kind=asked.endpoint.value)
    own = tokens or Tokens(case.primary, Source.TEXT)
    doubt: str | None = None
    known = layers.Known(contexts=(primary.context, arm.context), max_tokens=asked.max_tokens)
    if asked.endpoint.by_token:
        doubt, known = beforehand(asked, primary, arm, Mode.FREE)
    comparison = compare_free(
        own.reply,
        reply,
        source=own.source,
        tau=case.taus.free,
        greedy=True,
        values_incomparable=doubt,
        stop=asked.stops(),
        known=known,
    )
    remember(arm, Mode.FREE, doubt, comparison)
    return with_shapes(comparison, own.reply, reply, expected(asked.endpoint, asked.body))


def without_forcing(shadow: ShadowArm) -> Outcome:
    """Settle one shadow's forced mode on a route where nothing can be scored."""
    arm = shadow.arm
    return Outcome(arm.name, shadow.role, Mode.FORCED, incomparable="endpoint", footprint=arm.footprint)
