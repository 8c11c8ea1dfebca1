"""``forced`` mode: the shadows score the primary's own tokens, or, where those cannot be known, the canonical tokens of its text.

House rules. Ids are never guessed: they come from the primary's reply, from a twin with the same text, or are the canonical tokens
of the visible text, which are then scored by both sides and never presented as what the primary produced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from engines.dialect import Call, DialectError, Fetch, Scored
from proxy.compare.compare_forced import compare_forced
from proxy.compare.comparison import Mode, Source
from proxy.compare.token_stream import Token, TokenStream
from proxy.judge.arm import Arm, Refused
from proxy.judge.beforehand import beforehand, remember
from proxy.judge.case import Case, ShadowArm, sound
from proxy.judge.free import again
from proxy.judge.settle import Outcome
from proxy.judge.shown import Rows, Seen, noteworthy
from proxy.judge.sources import Tokens, says_something

Ids = tuple[tuple[int, ...], ...]


class Impossible(Exception):
    """Forced scoring cannot be done for this exchange; ``reason`` is a bounded label."""

    def __init__(self, reason: str, *, shed: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.shed = reason, shed


class Forcing:
    """Forced mode of one exchange over all shadows; the canonical reference is scored once and shared."""

    def __init__(
        self, case: Case, primary: Arm, shadows: Sequence[ShadowArm], tokens: Tokens | None, *, ask_primary: bool
    ) -> None:
        self.case, self.primary, self.shadows, self.tokens = case, primary, shadows, tokens
        self.ask_primary = ask_primary
        self.control = next((one for one in shadows if one.role == "control"), None)
        self._prompts: dict[str, Ids] = {}
        self._lock, self._scoring = asyncio.Lock(), asyncio.Lock()  # one rendering, one reference scoring
        self._scored_by_control: Rows | None = None
        self._sent: dict[str, tuple[tuple[Call, ...], ...]] = {}
        self._canonical: Ids | None = None

    async def outcome(self, shadow: ShadowArm) -> Outcome:
        """Settle one shadow's forced mode."""
        arm = shadow.arm
        try:
            if arm.dialect is not None and not _scores(shadow):  # whether or not the tokens are known
                raise Impossible("no_forced_scoring")
            tokens = self.tokens
            if tokens is None or not all(choice.has_ids or not choice.tokens for choice in tokens.reply.choices):
                tokens = await self._canonical_for(shadow)
            outputs = tuple(tuple(token.id or 0 for token in choice.tokens) for choice in tokens.reply.choices)
            rows = await self._score(shadow, outputs)
        except Impossible as error:
            if error.shed:
                return Outcome(arm.name, shadow.role, Mode.FORCED, shed=error.reason)
            return Outcome(arm.name, shadow.role, Mode.FORCED, incomparable=error.reason, footprint=arm.footprint)
        case, own = self.case, tokens
        reason, known = beforehand(case.asked, self.primary, arm, Mode.FORCED)
        comparison = sound(
            Mode.FORCED,
            lambda: compare_forced(
                own.reply,
                [tuple((row.index, row.token) for row in one) for one in rows],
                source=own.source,
                tau=case.taus.forced,
                greedy=case.greedy,
                values_incomparable=reason,
                unfiltered=case.unfiltered,
                known=known,
            ),
        )
        remember(arm, Mode.FORCED, reason, comparison)
        seen = Seen(own.reply, None, rows)
        if noteworthy(comparison):
            seen = replace(seen, again=again(case, self.primary), sent=self._sent.get(arm.name, ()))
        return Outcome(arm.name, shadow.role, Mode.FORCED, comparison, footprint=arm.footprint, seen=seen)

    async def _score(self, shadow: ShadowArm, outputs: Ids) -> Rows:
        """Every choice's ids scored by one shadow, after the primary's own prompt."""
        if shadow is self.control and self.tokens is None and self._scored_by_control is not None:
            return self._scored_by_control
        if shadow.arm.dialect is None:
            raise Impossible("shadow_unready", shed=True)
        if not _scores(shadow):
            raise Impossible("no_forced_scoring")
        prompts = await self._prompt_ids(shadow)
        per_prompt = max(1, len(outputs) // max(1, len(prompts)))
        rows = []
        sent: list[tuple[Call, ...]] = []
        for number, ids in enumerate(outputs):
            calls: list[Call] = []
            prompt = prompts[min(number // per_prompt, len(prompts) - 1)]
            scored = (
                await shadow.arm.score(
                    shadow.model(self.case.asked), prompt, ids, shadow.top_logprobs, self.case.exchange.id, calls
                )
                if ids
                else ()
            )
            if isinstance(scored, Refused):
                raise Impossible(scored.reason, shed=scored.shed)
            rows.append(scored)
            sent.append(tuple(calls))
        self._sent[shadow.arm.name] = tuple(sent)
        return tuple(rows)

    async def _prompt_ids(self, shadow: ShadowArm) -> Ids:
        """The primary's prompt as ids: as it reported them, else as the control renders it, else as this shadow does."""
        reported = self._reported_prompt()
        if reported is not None:
            return reported
        renderer = self.control if self.control is not None and self.control.arm.dialect is not None else shadow
        prompts = await self._rendered(renderer)
        count = self.case.primary.prompt_tokens
        if count is not None and count != sum(len(prompt) for prompt in prompts):
            raise Impossible("prompt_tokens")
        return prompts

    def _reported_prompt(self) -> Ids | None:
        for reply in (self.case.primary, self.tokens.reply if self.tokens else None):
            if reply is not None and reply.choices and all(choice.prompt_ids for choice in reply.choices):
                per_prompt = max(1, self.case.asked.n)
                return tuple(choice.prompt_ids or () for choice in reply.choices[::per_prompt])
        return None

    async def _rendered(self, by: ShadowArm) -> Ids:
        async with self._lock:
            if by.arm.name not in self._prompts:
                dialect = by.arm.dialect
                if dialect is None or dialect.prompt_ids is None:
                    raise Impossible("no_prompt_ids")
                body = dict(self.case.asked.body)
                if "model" in body:
                    body["model"] = by.model(self.case.asked)
                render, endpoint = dialect.prompt_ids, self.case.asked.endpoint
                try:
                    found = await by.arm.admitted(lambda fetch: render(fetch, endpoint, body), self.case.exchange.id)
                except DialectError:
                    raise Impossible("no_prompt_ids") from None
                if isinstance(found, Refused):
                    raise Impossible(found.reason, shed=found.shed)
                self._prompts[by.arm.name] = found
            return self._prompts[by.arm.name]

    async def _canonical_for(self, shadow: ShadowArm) -> Tokens:
        """(e): the visible text as canonical tokens, with the reference side's view of them."""
        if any(choice.tool_calls or choice.reasoning for choice in self.case.primary.choices):
            raise Impossible("no_primary_tokens")  # what a parser took apart cannot be put together again
        outputs = await self._canonical_ids(shadow)
        if shadow is self.control:
            rows = await self._by_primary(outputs)
        else:
            rows = await self._by_control(outputs)
        choices = tuple(
            _reference(choice, ids, scored)
            for choice, ids, scored in zip(self.case.primary.choices, outputs, rows, strict=True)
        )
        return Tokens(replace(self.case.primary, choices=choices), Source.CANONICAL)

    async def _by_control(self, outputs: Ids) -> Rows:
        if self.control is None:
            return await self._by_primary(outputs)
        async with self._scoring:
            if self._scored_by_control is None:
                self._scored_by_control = await self._score(self.control, outputs)
            return self._scored_by_control

    async def _by_primary(self, outputs: Ids) -> Rows:
        if not self.ask_primary:
            raise Impossible("no_primary_tokens")
        as_shadow = ShadowArm(self.primary, "primary", (Mode.FORCED,), {}, self._top())
        return await self._score(as_shadow, outputs)

    def _top(self) -> int:
        return max(shadow.top_logprobs for shadow in self.shadows)

    async def _canonical_ids(self, shadow: ShadowArm) -> Ids:
        by = self.control or shadow
        async with self._lock:
            if self._canonical is None:
                self._canonical = tuple(
                    [await _tokenise(by, self.case, choice) for choice in self.case.primary.choices]
                )
            return self._canonical


async def _tokenise(by: ShadowArm, case: Case, choice: TokenStream) -> tuple[int, ...]:
    """The canonical ids of a choice's text; kept only when they spell the same text again."""
    dialect = by.arm.dialect
    if dialect is None or dialect.tokenize is None or dialect.detokenize is None:
        raise Impossible("no_primary_tokens")
    if not says_something(choice):
        return ()
    tokenize, detokenize, model, text = dialect.tokenize, dialect.detokenize, by.model(case.asked), choice.text

    async def there_and_back(fetch: Fetch) -> tuple[tuple[int, ...], str]:
        ids = await tokenize(fetch, text, model)
        return ids, await detokenize(fetch, ids, model)

    try:
        found = await by.arm.admitted(there_and_back, case.exchange.id)
    except DialectError:
        raise Impossible("no_primary_tokens") from None
    if isinstance(found, Refused):
        raise Impossible(found.reason, shed=found.shed)
    ids, again = found
    if again != choice.text:
        raise Impossible("text_not_canonical")
    return ids


def _scores(shadow: ShadowArm) -> bool:
    dialect = shadow.arm.dialect
    return dialect is not None and dialect.score is not None and shadow.arm.forced


def _reference(choice: TokenStream, ids: tuple[int, ...], rows: tuple[Scored, ...]) -> TokenStream:
    """The reference side of a canonical comparison: every id, with values where the engine scored them."""
    scored = {row.index: row.token for row in rows}
    tokens = tuple(scored.get(number, Token(text="", id=token)) for number, token in enumerate(ids))
    return replace(choice, tokens=tokens, count=None, rows_missing=False)
