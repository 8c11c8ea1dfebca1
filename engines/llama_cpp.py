"""llama.cpp's server: ids in every row, merged rows for multi-byte characters, scoring step by step.

House rules. Sources: recorded replies and live runs of the 2026.10 build in ``xllamacpp``, its server README. A shadow is asked without
stream: only a whole reply tells all ids (``return_tokens`` and ``verbose``), and only with them can merged rows be told apart (see
``rejoin``). Unknown fields and model names are ignored by the server; ``n`` above 1 is a 400.
"""

from __future__ import annotations

from dataclasses import replace

from engines import openai
from engines.asking import ask_ids, ask_text, chosen, prompts_of, refuse_media, with_model
from engines.body import document
from engines.choices import reply
from engines.dialect import Answer, Call, Defaults, Endpoint, Fetch, Json
from engines.openai import asked_alternatives, choices_of
from engines.rejoin import alone, own_bytes, rejoin, spelled
from engines.rows import ids_of, whole
from engines.stepping import MOST_STEPS, score
from proxy.compare.token_stream import Reply, Token, Tokens, TokenStream

_RENDERED = (
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "reasoning_format",
    "json_schema",
    "grammar",
)


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs and all ids, whole instead of as a stream."""
    shaped = openai.with_logprobs(endpoint, body, top)
    shaped.pop("stream_options", None)
    return {**shaped, "stream": False, "return_tokens": True, "verbose": True}


def inject(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs, and for all ids where the reply is whole.

    Streams with tools stay as they are, because with logprobs they are refused; so does what asks for everything the server knows of a
    request, or in its own words for logprobs.
    """
    streamed = body.get("stream") is True
    own = body.get("verbose") or "n_probs" in body
    if own or (streamed and body.get("tools")) or openai.untouchable(endpoint, body):
        return dict(body)
    asked = _asked(endpoint, body)
    shaped = dict(body) if asked is not None and asked >= 2 else openai.undoable(endpoint, body, top)
    return shaped if streamed else {**shaped, "return_tokens": True, "verbose": True}


def strip(endpoint: Endpoint, client: Json, value: Json) -> Json | None:
    """Take away what ``inject`` added. Chat replies without logprobs have no such key, completions have a null."""
    if client.get("verbose") is not True:
        value.pop("__verbose", None)
    asked = _asked(endpoint, client)
    for choice in choices_of(value):
        if asked:
            openai.cut_alternatives(choice, asked)
        elif endpoint is Endpoint.CHAT:
            choice.pop("logprobs", None)
        elif "logprobs" in choice:
            choice["logprobs"] = None
    return value


def _asked(endpoint: Endpoint, body: Json) -> int | None:
    asked = asked_alternatives(endpoint, body)
    if asked is not None and endpoint is Endpoint.CHAT and body.get("top_logprobs") is None:
        return 20  # the server's own number where a client names none
    return asked


def read(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer; merged rows are told apart where the ids are there, else the stream says that rows are missing."""
    del endpoint
    value, error = document(answer)
    seen = reply(value, {**request, "echo": False}, error, raw_bytes=True)  # echo is ignored by the server
    verbose = value.get("__verbose")
    ids = ids_of(verbose.get("tokens")) if isinstance(verbose, dict) else None
    timings = value.get("timings")
    predicted = whole(timings.get("predicted_n")) if isinstance(timings, dict) else None
    if len(seen.choices) != 1:
        # Usage, timings and ids are those of one prompt of the list.
        return Reply(
            choices=tuple(_mended(stream, None, None) for stream in seen.choices),
            model=seen.model,
            system_fingerprint=seen.system_fingerprint,
            error=seen.error,
        )
    choices = (_mended(seen.choices[0], ids, predicted),)
    return Reply(choices, *(getattr(seen, name) for name in seen.__struct_fields__[1:]))


def _mended(stream: TokenStream, ids: tuple[int, ...] | None, predicted: int | None) -> TokenStream:
    count = predicted if stream.count is None else stream.count
    rows: Tokens = stream.tokens
    missing = False
    if ids and (count is None or count == len(ids)):
        count = len(ids)
        rejoined = rejoin(rows, ids)
        rows = tuple(Token(text="", id=known) for known in ids) if rejoined is None else rejoined
    elif rows:
        known = own_bytes(rows)
        missing = (count is not None and count != len(rows)) or any(alone(row, known) is False for row in rows)
        rows = tuple(spelled(row, known) for row in rows)
    values = {name: getattr(stream, name) for name in stream.__struct_fields__}
    return TokenStream(**{**values, "tokens": rows, "count": count, "rows_missing": missing})


async def prompt_ids(fetch: Fetch, endpoint: Endpoint, body: Json) -> tuple[tuple[int, ...], ...]:
    """Render a chat with ``/apply-template``, then tokenize as the server does: special tokens added and recognised."""
    refuse_media(endpoint, body)
    prompts: list[str | list[int]]
    if endpoint is Endpoint.CHAT:
        prompts = [await ask_text(fetch, Call("/apply-template", chosen(body, _RENDERED)), "prompt")]
    else:
        prompts = prompts_of(body)
    rendered: list[tuple[int, ...]] = []
    for prompt in prompts:
        if isinstance(prompt, list):
            rendered.append(tuple(prompt))
        else:
            question = {"content": prompt, "add_special": True, "parse_special": True}
            rendered.append(await ask_ids(fetch, Call("/tokenize", question)))
    return tuple(rendered)


async def tokenize(fetch: Fetch, text: str, model: str | None) -> tuple[int, ...]:
    """Return the ids of visible text, no special tokens added or recognised."""
    question = with_model({"content": text, "add_special": False, "parse_special": False}, model)
    return await ask_ids(fetch, Call("/tokenize", question))


async def detokenize(fetch: Fetch, ids: tuple[int, ...], model: str | None) -> str:
    """Return the text of the ids."""
    return await ask_text(fetch, Call("/detokenize", with_model({"tokens": list(ids)}, model)), "content")


def cache_salt(body: Json, salt: str) -> Json:
    """Return the body with the prompt cache off: the server has no salts."""
    del salt
    return {**body, "cache_prompt": False}


DIALECT = replace(
    openai.DIALECT,
    name="llama_cpp",
    max_top_logprobs=None,
    defaults=Defaults(temperature=0.8, top_p=0.95, top_k=40, min_p=0.05),
    logprob_mode="raw",
    ask=ask,
    read=read,
    strip=strip,
    inject=inject,
    prompt_ids=prompt_ids,
    tokenize=tokenize,
    detokenize=detokenize,
    score=score,
    cache_salt=cache_salt,
    notes=(
        "asked without stream, whatever the client does: only a whole reply tells the ids of multi-byte characters",
        f"scores at most {MOST_STEPS} positions a reply, spread evenly over it, one request each",
        "of the tokens of one multi-byte character only the last has a value",
        "one slot and one thread keep it bit-equal with itself",
    ),
)
