"""vLLM: the OpenAI baseline with token ids, and scoring of given tokens in one call.

House rules. Sources: recorded replies of vLLM 0.32, its protocol and serving files. Facts used here: ``return_token_ids`` gives a choice its
``token_ids`` and the reply its ``prompt_token_ids``; ``return_tokens_as_token_ids`` writes ``token_id:N`` for every text, which
keeps equal texts apart and tells the ids of rivals, but loses the rivals' texts; ``prompt_logprobs`` scores the prompt. More than 20 alternatives are a
400 unless the server allows more. The engine puts the chosen token first in a list, so lists are sorted on reading.
"""

from __future__ import annotations

from dataclasses import replace

from engines import openai
from engines.asking import ask_ids, ask_json, ask_text, chosen, prompts_of, refuse_media, with_model
from engines.dialect import Call, Defaults, DialectError, Endpoint, Fetch, Json, Scored
from engines.openai import asked_alternatives, choices_of
from engines.rows import prompt_row

_RENDERED = (
    "messages",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
)


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs, ids and usage. Rivals come by id, unless the client wants texts: then both arms are compared by text."""
    return openai.with_usage(_with_ids(endpoint, body, openai.with_logprobs(endpoint, body, top)))


def inject(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs as far as they can be taken away again, and for ids. No usage event: it would move ``system_fingerprint`` to itself."""
    flags = (body.get("return_token_ids"), body.get("return_tokens_as_token_ids"))
    if openai.untouchable(endpoint, body) or not all(flag is None or isinstance(flag, bool) for flag in flags):
        return dict(body)
    return _with_ids(endpoint, body, openai.undoable(endpoint, body, top))


def _with_ids(endpoint: Endpoint, client: Json, shaped: Json) -> Json:
    shaped["return_token_ids"] = True
    if asked_alternatives(endpoint, client) is None:
        shaped["return_tokens_as_token_ids"] = True
    return shaped


def strip(endpoint: Endpoint, client: Json, value: Json) -> Json | None:
    """Null what ``inject`` added, and drop an event that is there for the ids alone.

    A token that a parser gives no delta for has an event of its own where the client asked for logprobs (seen in 0.32), else none.
    """
    choices = choices_of(value)
    if client.get("return_token_ids") is not True:
        rows = asked_alternatives(endpoint, client) is not None and any(choice.get("logprobs") for choice in choices)
        if choices and not rows and all(_only_ids(choice) for choice in choices):
            return None
        for holder in (value, *choices):
            for field in ("token_ids", "prompt_token_ids"):
                if field in holder:
                    holder[field] = None
    return openai.strip(endpoint, client, value)


def _only_ids(choice: Json) -> bool:
    """Tell an event that no client would get otherwise: ids that a parser gives no delta for, or a prompt's ids before any token."""
    if choice.get("finish_reason") is not None:
        return False
    before = bool(choice.get("prompt_token_ids")) and not choice.get("token_ids") and choice.get("text") == ""
    return choice.get("delta") == {} or before


async def prompt_ids(fetch: Fetch, endpoint: Endpoint, body: Json) -> tuple[tuple[int, ...], ...]:
    """Return what ``/tokenize`` makes of the request: one tuple for a chat, one per prompt for completions."""
    refuse_media(endpoint, body)
    if endpoint is Endpoint.CHAT:
        question = with_model(chosen(body, _RENDERED), body.get("model"))
        return (await ask_ids(fetch, Call("/tokenize", question)),)
    special = chosen(body, ("add_special_tokens",))
    rendered: list[tuple[int, ...]] = []
    for prompt in prompts_of(body):
        if isinstance(prompt, list):
            rendered.append(tuple(prompt))
        else:
            question = with_model({"prompt": prompt, **special}, body.get("model"))
            rendered.append(await ask_ids(fetch, Call("/tokenize", question)))
    return tuple(rendered)


async def tokenize(fetch: Fetch, text: str, model: str | None) -> tuple[int, ...]:
    """Return the ids of visible text, no special tokens added."""
    return await ask_ids(fetch, Call("/tokenize", with_model({"prompt": text, "add_special_tokens": False}, model)))


async def detokenize(fetch: Fetch, ids: tuple[int, ...], model: str | None) -> str:
    """Return the text of the ids."""
    return await ask_text(fetch, Call("/detokenize", with_model({"tokens": list(ids)}, model)), "prompt")


async def score(
    fetch: Fetch, model: str | None, prompt: tuple[int, ...], ids: tuple[int, ...], top: int
) -> tuple[Scored, ...]:
    """Score ``ids`` after ``prompt`` in one prefill: every position, with ``top`` alternatives each.

    The first token of all has no row, so an empty prompt leaves position 0 out.
    """
    question = {
        "prompt": [*prompt, *ids],
        "prompt_logprobs": top,
        "max_tokens": 1,
        "temperature": 0,
        "stream": False,
    }
    answer = await ask_json(fetch, Call("/v1/completions", with_model(question, model)))
    choices = choices_of(answer)
    rows = choices[0].get("prompt_logprobs") if choices else None
    if not isinstance(rows, list) or len(rows) != len(prompt) + len(ids):
        raise DialectError("no_prompt_logprobs", "the answer does not hold one row per prompt token")
    scored: list[Scored] = []
    for index, wanted in enumerate(ids):
        token = prompt_row(rows[len(prompt) + index], wanted)
        if token is not None:
            scored.append(Scored(index, token))
        elif len(prompt) + index > 0:
            raise DialectError("scored_other_tokens", f"position {index} does not hold the token asked for")
    return tuple(scored)


def cache_salt(body: Json, salt: str) -> Json:
    """Return the body with a prefix cache of its own."""
    return {**body, "cache_salt": salt}


DIALECT = replace(
    openai.DIALECT,
    name="vllm",
    max_top_logprobs=20,
    # vLLM treats temperatures below 1e-5 as greedy (_SAMPLING_EPS in its sampling parameters).
    greedy_at=1e-5,
    # temperature, top_p, top_k and min_p come from the model's generation_config.json: unknown from here.
    defaults=Defaults(max_tokens_completions=16),
    logprob_mode="raw",
    ask=ask,
    strip=strip,
    inject=inject,
    prompt_ids=prompt_ids,
    tokenize=tokenize,
    detokenize=detokenize,
    score=score,
    cache_salt=cache_salt,
    notes=(
        "scoring is a prefill without the prefix cache: it differs from the engine's own decoding by its noise",
        "started with --logprobs-mode, its numbers may be logits or processed: declare logprob_mode",
    ),
)
