"""What an engine is and can do, found out by asking it: footprint, capabilities, findings.

House rules. Asks through the injected ``fetch`` only, some twenty small requests. An engine that cannot be used at all is a DialectError with a
bounded reason (``capabilities.remedy`` says what to do); anything less is a finding. Nothing is assumed of an engine because of its name
that a canary can show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from dataclasses import replace as replace_fields
from statistics import median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from engines import canary, self_noise
from engines.capabilities import Capabilities, Finding, remedy
from engines.dialect import Call, Defaults, Dialect, DialectError, Endpoint, Fetch, Json
from engines.facts.gather import gather
from engines.facts.reading import Facts, as_object, get, models_of
from engines.footprint import Footprint, make
from engines.parity import Prompt
from engines.subject import Subject
from proxy.compare.token_stream import Reply, Token, TokenStream

#: A decode and a prefill of one model differ by at most a few tenths of a nat (bf16); beyond this they are not the same model.
_SAME_MODEL = 2.0
#: Of a hosted API's stack the reply's fingerprint is all that is shown.
_HOSTED = frozenset({"openai", "together", "fireworks", "openrouter"})
#: Sampling defaults by name, as ``declare`` gives them too.
_SAMPLING = tuple(one.name for one in fields(Defaults) if one.name != "enable_thinking")
_WHOLE = ("top_k", "max_tokens_completions", "max_tokens_chat")


class Probe(Struct, frozen=True):
    """One engine as found. ``defaults`` are the sampling values for what a client leaves out, as far as they are known; ``routes`` is what ``stack_of`` says of it."""

    dialect: str
    model: str
    defaults: Defaults
    footprint: Footprint
    capabilities: Capabilities
    findings: tuple[Finding, ...] = ()
    prompt: Prompt = Prompt()
    routes: Footprint = Footprint({})


async def stack_of(
    fetch: Fetch, dialect: Dialect, model: str | None = None, declared: Mapping[str, Any] | None = None
) -> Footprint:
    """Return the part of a footprint that routes tell and nothing has to be generated for. Raises DialectError when it cannot be reached."""
    entry = await _model_entry(fetch, model, asking=False)
    facts = await gather(fetch, dialect.name, entry, dialect.defaults)
    return make(facts.probed, {}, declared or {})


async def probe(
    fetch: Fetch, dialect: Dialect, model: str | None = None, declared: Mapping[str, Any] | None = None
) -> Probe:
    """Probe one engine. ``model`` None takes the first it serves. Raises DialectError when it cannot be used at all."""
    declared = declared or {}
    entry = await _model_entry(fetch, model)
    name = model or str(entry.get("id"))
    facts = await gather(fetch, dialect.name, entry, dialect.defaults)
    routes = make(facts.probed, {}, declared)
    engine, reply = await _first(fetch, dialect, name)
    rendered, refused = await _rendered(engine)
    seen, findings = await _capabilities(engine, reply, rendered, refused)
    cold_warm, batch_mates = await self_noise.measure(engine)
    seen = replace(seen, context_length=facts.context_length, cold_warm=cold_warm, batch_mates=batch_mates)
    seen = _with_mode(seen, dialect, facts, declared)
    facts.inferred["logprob_mode"] = seen.logprob_mode
    facts.inferred["logit_step"] = seen.logits_step
    if seen.logits_step in ("bf16", "fp16"):
        facts.inferred["dtype"] = seen.logits_step
    facts.probed["tokenizer_hash"] = await canary.tokenizer_hash(fetch, dialect, name)
    facts.probed["chat_template_hash"] = await canary.chat_template_hash(fetch, dialect, name)
    if dialect.name == "vllm" and reply.system_fingerprint:
        facts.probed["config_hash"] = reply.system_fingerprint.rpartition("-")[2]
    elif dialect.name in _HOSTED:
        facts.probed["config_hash"] = reply.system_fingerprint
    footprint = make(facts.probed, facts.inferred, declared)
    return Probe(
        dialect=dialect.name,
        model=name,
        defaults=declared_defaults(facts.defaults, declared),
        footprint=footprint,
        capabilities=seen,
        findings=tuple(findings),
        prompt=Prompt(rendered, reply.prompt_tokens, footprint.value("tokenizer_hash"), chat=seen.chat),
        routes=routes,
    )


async def _model_entry(fetch: Fetch, model: str | None, *, asking: bool = True) -> Json:
    """Return the model's entry in the list; of an engine that lists none, the name it answers under (``asking``: it may be asked for a token)."""
    answer = await get(fetch, "/v1/models")
    if answer.failure is not None:
        raise DialectError(answer.failure, remedy(answer.failure))
    if answer.status in (401, 403, 503):
        raise DialectError(f"status_{answer.status}", remedy(f"status_{answer.status}"))
    listed = models_of(answer)
    named = [entry for entry in listed or () if isinstance(entry.get("id"), str)]
    wanted = [entry for entry in named if entry["id"] == model] if model else named
    if wanted:
        return wanted[0]
    if model is None and not asking:
        return {}
    if model is None and (name := await _answers_as(fetch)) is not None:
        return {"id": name}
    if model is None:
        reason = "no_model" if listed is not None else "not_an_engine"
        raise DialectError(reason, remedy(reason))
    return {"id": model}  # not every engine lists what it serves; the canary will tell


async def _answers_as(fetch: Fetch) -> str | None:
    """Ask for one token without naming a model, as `transformers serve` allows that was started with one; None when that is refused."""
    asked = canary.question(Endpoint.CHAT, "", length=1)
    del asked["model"]
    name = as_object(await fetch(Call("/v1/chat/completions", asked))).get("model")
    # It names the revision too, where none was asked for, and then refuses the name with it (seen on 5.19).
    return name.removesuffix("@main") if isinstance(name, str) and name else None


async def _first(fetch: Fetch, dialect: Dialect, model: str) -> tuple[Subject, Reply]:
    """Ask the canary as a chat, or as a completion where there is no chat. Raises DialectError when neither is answered."""
    errors: list[str] = []
    for endpoint in (Endpoint.CHAT, Endpoint.COMPLETIONS):
        engine = Subject(fetch, dialect, model, endpoint)
        reply = await engine.ask(5)
        if reply.error == "status_400":  # fewer alternatives than five are allowed, or none, or no logprobs at all
            reply = await engine.ask(0)
        if reply.error == "status_400":
            reply = await engine.send(canary.question(endpoint, model))
        if reply.error is None:
            return engine, reply
        errors.append(reply.error)
    raise DialectError(errors[0], remedy(errors[0]))


async def _rendered(engine: Subject) -> tuple[tuple[int, ...] | None, str]:
    """Return the canary's prompt as ids, else why they cannot be had ("" when the engine has no such thing)."""
    if engine.dialect.prompt_ids is None:
        return None, ""
    asked = canary.question(engine.endpoint, engine.model)
    try:
        return (await engine.dialect.prompt_ids(engine.fetch, engine.endpoint, asked))[0], ""
    except DialectError as error:
        return None, error.reason


async def _capabilities(
    engine: Subject, reply: Reply, rendered: tuple[int, ...] | None, refused: str
) -> tuple[Capabilities, list[Finding]]:
    choice = reply.choices[0]
    seen = Capabilities(
        chat=engine.endpoint is Endpoint.CHAT, token_ids=choice.has_ids, text_only=not choice.has_logprobs
    )
    top, longest = await _most_alternatives(engine)
    if longest is None and seen.text_only:
        return seen, [_NO_LOGPROBS]
    if longest is not None and seen.text_only:  # five were too many, fewer are not
        choice = longest
        seen = replace(seen, text_only=False, token_ids=choice.has_ids)
    findings: list[Finding] = []
    if top < 2:
        findings.append(
            Finding(
                "alternatives_incomplete", f"it gives {top} alternatives", "allow more: ties and near ties need two"
            )
        )
    mode = canary.values_mode(choice.tokens)
    if mode is not None:
        findings.append(_not_logprobs(mode))
    same, misread = await _streamed(engine, choice, min(top, 5))
    seen = replace(
        seen,
        top_logprobs=top,
        rows_per_token=not choice.rows_missing and choice.count in (None, len(choice.tokens)),
        logits_step=canary.logits_step(choice.tokens if longest is None else longest.tokens),
        logprob_mode=mode or await _mode(engine) or "unknown",
        stream_same=same,
    )
    if misread is not None:
        findings.append(misread)
    seen, problem = await _forced(engine, choice, reply.prompt_tokens, seen, rendered, refused)
    return seen, [*findings, problem] if problem else findings


_OTHER_TOKENS = Finding(
    "stream_misaligned",
    "a stream tells other tokens than a whole reply",
    "nothing to do: streams without all tokens are counted as incomparable, or compared through another source",
)
_DISPLACED = Finding(
    "logprob_alignment",
    "in a stream each token has the logprob of its neighbour",
    "a fault of this engine: report it there; values of streams are not compared where they show it",
)
_NO_LOGPROBS = Finding(
    "no_logprobs",
    "its replies carry no logprobs",
    "start it so that it gives them (vLLM: --max-logprobs, LMDeploy: --logprobs-mode), or use another server: for Transformers,"
    " `parhelion engine reference`; without them only tokens are compared, or texts",
    severe=True,
)


def _not_logprobs(mode: str) -> Finding:
    return Finding(
        "logprob_mode",
        f"its logprobs are {'logits' if mode == 'logits' else 'renormalised after sampling'}, not logprobs",
        "start it with raw logprobs (vLLM: --logprobs-mode raw_logprobs); values are not compared until then",
        severe=True,
    )


async def _most_alternatives(engine: Subject) -> tuple[int, TokenStream | None]:
    """Find how many alternatives it gives of the twenty that are asked for by default, and a choice that has them."""
    allowed = engine.dialect.max_top_logprobs
    most = 20 if allowed is None else min(20, allowed)
    for wanted in sorted({most, min(most, 5), min(most, 2)}, reverse=True):
        reply = await engine.ask(wanted)
        if reply.error is None and reply.choices[0].has_logprobs:
            tops = [len(token.top) for token in reply.choices[0].tokens if token.logprob is not None]
            return min(wanted, max(tops)), reply.choices[0]
    return 0, None


async def _mode(engine: Subject) -> str | None:
    """Compare the first position's list at temperature 1 and 0.5: the same where values are raw."""
    rows: list[Token] = []
    for temperature in (1.0, 0.5):
        reply = await engine.ask(5, length=1, temperature=temperature)
        if reply.error is not None or not reply.choices[0].tokens:
            return None
        rows.append(reply.choices[0].tokens[0])
    return canary.scaled(*rows)


async def _streamed(engine: Subject, whole: TokenStream, top: int) -> tuple[bool | None, Finding | None]:
    """Ask the canary as a stream, as the live path would: does it show the same tokens, with their own values? None when a stream is never asked for them."""
    if engine.dialect.inject is None:
        return None, None
    asked = {**canary.question(engine.endpoint, engine.model), "stream": True}
    reply = await engine.send(engine.dialect.inject(engine.endpoint, asked, top))
    if reply.error is not None or not reply.choices or reply.choices[0].rows_missing:
        return False, _OTHER_TOKENS
    stream = reply.choices[0]
    ids = whole.has_ids and stream.has_ids
    if [token.id if ids else token.text for token in whole.tokens] != [
        token.id if ids else token.text for token in stream.tokens
    ]:
        return False, _OTHER_TOKENS
    return True, _DISPLACED if canary.displaced(whole.tokens, stream.tokens) else None


async def _forced(
    engine: Subject,
    choice: TokenStream,
    prompt_tokens: int | None,
    seen: Capabilities,
    rendered: tuple[int, ...] | None,
    refused: str,
) -> tuple[Capabilities, Finding | None]:
    """Check the rendered ids against usage, score the canary's own tokens and measure decode against scoring."""
    score = engine.dialect.score
    if score is None or not choice.has_ids or (rendered is None and not refused):
        return seen, Finding(
            "no_forced_scoring", "given tokens cannot be scored", "nothing to do: it is compared in free mode only"
        )
    if rendered is None:
        return seen, _no_scoring(refused)
    if prompt_tokens not in (None, len(rendered)):
        text = f"it renders {len(rendered)} prompt tokens, but generates from {prompt_tokens}"
        return seen, Finding("prompt_tokens", text, "forced scoring is off, since it would start from another prompt")
    ids = tuple(token.id for token in choice.tokens if token.id is not None)
    try:
        rows = await score(engine.fetch, engine.model, rendered, ids, max(2, min(5, seen.top_logprobs)))
    except DialectError as error:
        return seen, _no_scoring(error.reason)
    seen = replace(seen, prompt_ids=True)
    gaps = [
        abs(row.token.logprob - own)
        for row in rows
        if row.token.logprob is not None and (own := choice.tokens[row.index].logprob) is not None
    ]
    if not gaps or max(gaps) > _SAME_MODEL:
        text = f"its scoring is {max(gaps):.2f} nats off its own decoding" if gaps else "its scoring gives no values"
        return seen, Finding("no_forced_scoring", text, "forced scoring is off: it does not score what it decodes")
    return replace(seen, forced=True, self_noise=max(gaps), self_noise_median=median(gaps)), None


def _no_scoring(reason: str) -> Finding:
    return Finding("no_forced_scoring", f"scoring given tokens failed: {reason}", remedy(reason))


def _with_mode(seen: Capabilities, dialect: Dialect, facts: Facts, declared: Mapping[str, Any]) -> Capabilities:
    """Settle the logprob mode: declared, else stated by the engine, else observed, else as its documents say."""
    stated = declared.get("logprob_mode") or facts.probed.get("logprob_mode")
    if isinstance(stated, str):
        return replace(seen, logprob_mode=stated)
    if seen.logprob_mode == "unknown" and not seen.text_only:
        return replace(seen, logprob_mode=dialect.logprob_mode)
    return seen


def declared_defaults(known: Defaults, declared: Mapping[str, Any]) -> Defaults:
    """Let ``declare`` say sampling defaults that no route shows."""
    said: dict[str, Any] = {
        name: int(value) if name in _WHOLE else float(value)
        for name in _SAMPLING
        if isinstance(value := declared.get(name), int | float) and not isinstance(value, bool)
    }
    if isinstance(thinking := declared.get("enable_thinking"), bool):
        said["enable_thinking"] = thinking
    return replace_fields(known, **said)
