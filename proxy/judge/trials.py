"""From what came of one exchange to what it says towards each candidate's verdict: a result, the two keys under which it counts once, and of which stacks it is.

House rules. Forms and decides nothing else: whether a conversation was counted before only the store knows. No token is looked at. Keys are keyed hashes: nothing a
client sent leaves here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

import orjson
from msgspec import Struct

from proxy.compare import trial
from proxy.compare.comparison import Mode
from proxy.compare.trial import Result, Sight
from proxy.exchange import Ended, Exchange
from proxy.judge.arm import Arm
from proxy.judge.case import ShadowArm
from proxy.judge.examine import Examined
from proxy.judge.request import Asked, Unreadable, header, read_request
from proxy.judge.settle import Outcome, conversation
from proxy.ledger.tallies import Counted, Scope

_DAY = 86400
_KEY = b"x-parhelion-key"
_LARGE = 1 << 16  # bytes of a request that is read although nothing will be compared
#: Fields of a body that hold what is asked, on any route; settings are not part of a prompt.
_PROMPT = ("messages", "system", "instructions", "prompt", "input", "query", "documents", "text_1", "text_2", "tools")
#: Why an exchange that was given up says nothing of an arm: the operator's switch was off before anything was asked.
_SWITCHED_OFF = "kill_switch"
#: How an exchange ended that no arm can be blamed for.
_NO_REPLY = frozenset({Ended.CLIENT_GONE, Ended.PRIMARY_CUT, Ended.NO_REPLY})


class Against(Struct, frozen=True):
    """A candidate, and the control it is held against: the first that runs a mode of the candidate's; None without one."""

    candidate: ShadowArm
    control: ShadowArm | None

    @property
    def forced(self) -> bool:
        """Whether sampled output can be judged, too."""
        return all(one is None or Mode.FORCED in one.modes for one in (self.candidate, self.control))

    def scope(self, primary: str) -> Scope:
        """Of which stacks a result is now."""
        arm = self.candidate.arm
        if self.control is None:
            return Scope(arm.name, primary, arm.footprint)
        return Scope(arm.name, primary, arm.footprint, self.control.arm.name, self.control.arm.footprint)


class Trials:
    """Trials of exchanges for every candidate of a replica."""

    def __init__(self, primary: Arm, shadows: Sequence[ShadowArm], salt: bytes) -> None:
        self._primary, self._salt = primary, salt
        controls = [one for one in shadows if one.role == "control"]
        self._pairs = tuple(
            Against(one, next((other for other in controls if {*other.modes} & {*one.modes}), None))
            for one in shadows
            if one.role == "candidate"
        )

    def of(self, exchange: Exchange, examined: Examined, talk: str = "") -> tuple[Counted, ...]:
        """What an examined exchange says of each candidate; nothing of one about which it says nothing. ``talk``: its conversation's hash, where it is known."""
        if not self._pairs or examined.asked is None:
            return ()
        by_arm: dict[str, list[Outcome]] = {}
        for outcome in examined.outcomes:
            by_arm.setdefault(outcome.shadow, []).append(outcome)
        found = [(pair, self._trial(pair, by_arm)) for pair in self._pairs]
        if all(one is None for _, one in found):
            return ()
        unit, prompt = keys(exchange, examined.asked, self._salt, talk)
        primary = examined.context.primary_footprint
        return tuple(
            Counted(
                pair.scope(primary),
                unit,
                prompt,
                exchange.started,
                one.result,
                one.by,
                one.control_by,
                variation=None if one.result is Result.MISSING else _variation(pair, by_arm),
            )
            for pair, one in found
            if one is not None
        )

    @staticmethod
    def _trial(pair: Against, by_arm: Mapping[str, list[Outcome]]) -> trial.Trial | None:
        control = pair.control
        candidate = _sights(by_arm.get(pair.candidate.arm.name, ()), own_prompt=control is None)
        if control is None:
            return trial.trial(candidate)
        # The control renders the prompt for all: where that is another one, forced mode tells nothing of either arm, and free mode of each.
        return trial.trial(candidate, _sights(by_arm.get(control.arm.name, ()), own_prompt=False))

    def scopes(self) -> dict[str, Scope]:
        """Of which stacks a result would be now, by candidate."""
        return {pair.candidate.arm.name: pair.scope(self._primary.footprint) for pair in self._pairs}

    def given_up(self, exchange: Exchange, reason: str, asked: Asked | None = None) -> tuple[Counted, ...]:
        """A missing result for each candidate of which an exchange that was not examined would have told something.

        ``asked``: its request, where it was read already. A large one is not read for it, and is a unit by itself.
        """
        if not self._pairs or reason == _SWITCHED_OFF or exchange.ended in _NO_REPLY or exchange.status >= 400:
            return ()
        if not exchange.request_whole:
            return ()
        greedy = True
        if len(exchange.request_body) > _LARGE:
            unit, prompt = (_hash(self._salt, what, exchange.id.encode()) for what in (b"conversation", b"prompt"))
        else:
            try:
                asked = asked or read_request(exchange, _LARGE)
            except Unreadable:
                return ()
            if asked.out_of_scope() is not None:
                return ()
            unit, prompt = keys(exchange, asked, self._salt)
            if (dialect := self._primary.dialect) is not None:
                greedy = asked.greedy(self._primary.defaults, dialect.greedy_at)
        return tuple(
            Counted(pair.scope(self._primary.footprint), unit, prompt, exchange.started, Result.MISSING, reason)
            for pair in self._pairs
            if pair.forced or greedy
        )


def keys(exchange: Exchange, asked: Asked, salt: bytes, talk: str = "") -> tuple[str, str]:
    """Return the keys of the conversation and of the prompt. ``talk``: the conversation's hash, where it is known.

    A conversation that the client names (``x-parhelion-key``) counts once, whenever; one known by its beginning once a day, as any prompt: days are UTC, of the
    exchange's begin.
    """
    day = int(exchange.started // _DAY)
    unit = talk or conversation(exchange, asked, salt)
    if not header(exchange.request_headers, _KEY):
        unit = f"{unit}@{day}"
    body = asked.body
    told = orjson.dumps(
        [asked.model, asked.endpoint.value, *(body.get(field) for field in _PROMPT)], option=orjson.OPT_SORT_KEYS
    )
    return unit, f"{_hash(salt, b'prompt', told)}@{day}"


def _hash(salt: bytes, what: bytes, key: bytes) -> str:
    hashed = _keyed(salt, what).copy()
    hashed.update(key)
    return hashed.hexdigest()


@lru_cache(maxsize=8)
def _keyed(salt: bytes, what: bytes) -> hashlib.blake2b:
    """The hash with its key taken in; to be copied."""
    secret = hashlib.blake2b(salt, digest_size=32, person=what).digest()
    return hashlib.blake2b(digest_size=12, key=secret)


def _variation(pair: Against, by_arm: Mapping[str, list[Outcome]]) -> float | None:
    """What sampled output that both arms scored says of their distributions."""
    arms = (pair.candidate,) if pair.control is None else (pair.candidate, pair.control)
    scored = [
        next((one.comparison for one in by_arm.get(arm.arm.name, ()) if one.mode is Mode.FORCED), None) for arm in arms
    ]
    if scored[0] is None or scored[-1] is None:
        return None
    return trial.variation(scored[0], None if pair.control is None else scored[1])


def _sights(outcomes: Sequence[Outcome], *, own_prompt: bool) -> dict[Mode, Sight]:
    return {
        one.mode: trial.look(
            one.mode, one.comparison, incomparable=one.incomparable, shed=one.shed, own_prompt=own_prompt
        )
        for one in outcomes
    }
