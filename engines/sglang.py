"""SGLang: the OpenAI baseline with ids where a whole reply gives them, and scoring of given tokens through its own ``/generate``.

House rules. Sources: SGLang 0.5.23's protocol and serving files, and public reports where named. Facts used here: ``return_token_ids`` gives a chat's choice
``response_token_ids`` and ``prompt_token_ids``, but is a 400 on a chat's stream, so a shadow is asked for whole replies; older versions ignore it, and no ids come.
``/generate`` takes ids and scores a prompt: ``[logprob, id, text]`` rows from ``logprob_start_len`` on, the first one null; rows from 0 on would compute all of the
prompt anew. Unknown fields are ignored; null where a field has a default is refused, and so is ``top_k: 0``.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as with_fields

from engines import openai
from engines.asking import ask_ids, ask_json, ask_text, chosen, prompts_of, refuse_media, with_model
from engines.body import document, is_stream
from engines.choices import reply
from engines.dialect import Answer, Call, Defaults, DialectError, Endpoint, Fetch, Json, Scored
from engines.doubtful import drop_short, without_copies, without_latin_1
from engines.openai import choices_of
from engines.pairs import scored
from engines.rows import ids_of
from proxy.compare.token_stream import Reply, Token

_RENDERED = (
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning",
    "reasoning_effort",
    "thinking",
    "chat_template_kwargs",
    "continue_final_message",
)
#: Keys that a choice has only when ids are asked for.
_IDS = ("token_ids", "response_token_ids", "prompt_token_ids")


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs and ids, whole instead of as a stream: a chat's stream has no ids, and may repeat alternatives."""
    given = {name: value for name, value in body.items() if value is not None}
    shaped = openai.with_logprobs(endpoint, given, top)
    shaped.pop("stream_options", None)
    if shaped.get("top_k") == 0:  # other engines' way to write -1
        shaped["top_k"] = -1
    return {**shaped, "stream": False, "return_token_ids": True}


def inject(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask for logprobs as far as they can be taken away again, and for ids where they are not refused."""
    flag, streamed = body.get("return_token_ids"), body.get("stream")
    if openai.untouchable(endpoint, body) or not (flag is None or isinstance(flag, bool)):
        return dict(body)
    shaped = openai.undoable(endpoint, body, top)
    if endpoint is Endpoint.COMPLETIONS or streamed is None or streamed is False:
        shaped["return_token_ids"] = True
    return shaped


def strip(endpoint: Endpoint, client: Json, value: Json) -> Json | None:
    """Take away what ``inject`` added, and drop an event that is there for the rows alone."""
    choices = choices_of(value)
    if openai.asked_alternatives(endpoint, client) is None and choices and all(map(_only_rows, choices)):
        return None
    if client.get("return_token_ids") is not True:
        own = client.get("return_prompt_token_ids") is True
        for choice in choices:
            for name in _IDS:
                if not (own and name == "prompt_token_ids"):
                    choice.pop(name, None)
    return openai.strip(endpoint, client, value)


def _only_rows(choice: Json) -> bool:
    """Tell an event that is sent, where a parser holds the text back, for the sake of its rows: a delta that says nothing."""
    delta, unfinished = choice.get("delta"), choice.get("finish_reason") is None
    return isinstance(delta, dict) and unfinished and choice.get("logprobs") is not None and not any(delta.values())


def read(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer as token streams. Never raises.

    Alternatives that cannot be a row's own are left out: streams show every token of an event the first one's (sglang issues 39260, 5761
    and 2825), and lists by text lose those of equal text.
    """
    value, error = document(answer)
    asked = openai.asked_alternatives(endpoint, request) or 0
    for choice in choices_of(value):
        drop_short(choice.get("logprobs"), asked)
        if ids_of(choice.get("token_ids")) is None:
            choice["token_ids"] = choice.get("response_token_ids")

    def believable(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
        tokens = without_copies(tokens) if is_stream(answer) else tokens
        return without_latin_1(tokens) if endpoint is Endpoint.COMPLETIONS else tokens

    found = reply(value, request, error)
    return with_fields(
        found, choices=tuple(with_fields(one, tokens=believable(tuple(one.tokens))) for one in found.choices)
    )


async def prompt_ids(fetch: Fetch, endpoint: Endpoint, body: Json) -> tuple[tuple[int, ...], ...]:
    """Return what ``/tokenize`` makes of the request: one tuple for a chat, one per prompt for completions.

    Where it renders no chats (older versions), the chat itself is asked for one token and its prompt's ids.
    """
    refuse_media(endpoint, body)
    if endpoint is Endpoint.CHAT:
        question = with_model(chosen(body, _RENDERED), body.get("model"))
        try:
            return (await ask_ids(fetch, Call("/tokenize", question)),)
        except DialectError as error:
            if error.reason not in ("status_400", "status_404", "status_422"):
                raise
        return (await _ids_of_chat(fetch, question),)
    rendered: list[tuple[int, ...]] = []
    for prompt in prompts_of(body):
        if isinstance(prompt, list):
            rendered.append(tuple(prompt))
        else:
            rendered.append(await ask_ids(fetch, Call("/tokenize", with_model({"prompt": prompt}, body.get("model")))))
    return tuple(rendered)


async def _ids_of_chat(fetch: Fetch, question: Json) -> tuple[int, ...]:
    asked = {**question, "max_tokens": 1, "temperature": 0, "stream": False, "return_prompt_token_ids": True}
    choices = choices_of(await ask_json(fetch, Call("/v1/chat/completions", asked)))
    ids = ids_of(choices[0].get("prompt_token_ids")) if choices else None
    if ids is None:
        raise DialectError("no_prompt_ids", "neither /tokenize nor a chat's reply tells a chat's ids")
    return ids


async def tokenize(fetch: Fetch, text: str, model: str | None) -> tuple[int, ...]:
    """Return the ids of visible text, no special tokens added."""
    return await ask_ids(fetch, Call("/tokenize", with_model({"prompt": text, "add_special_tokens": False}, model)))


async def detokenize(fetch: Fetch, ids: tuple[int, ...], model: str | None) -> str:
    """Return the text of the ids."""
    question = with_model({"tokens": list(ids), "skip_special_tokens": False}, model)
    return await ask_text(fetch, Call("/detokenize", question), "text")


async def score(
    fetch: Fetch, model: str | None, prompt: tuple[int, ...], ids: tuple[int, ...], top: int
) -> tuple[Scored, ...]:
    """Score ``ids`` after ``prompt`` in one prefill: every position, with ``top`` alternatives each, of the one model there is.

    Rows begin at the prompt's last token, whose own is null; the first token of all has no row, so an empty prompt leaves position 0 out.
    """
    del model
    question = {
        "input_ids": [*prompt, *ids],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "logprob_start_len": max(0, len(prompt) - 1),
        "top_logprobs_num": top,
        "return_text_in_logprobs": True,
        "stream": False,
    }
    meta = (await ask_json(fetch, Call("/generate", question))).get("meta_info")
    rows, tops = (
        listed[1:] if isinstance(meta, dict) and isinstance(listed := meta.get(name), list) else None
        for name in ("input_token_logprobs", "input_top_logprobs")
    )
    return scored(rows, tops, ids, 0 if prompt else 1)


def cache_salt(body: Json, salt: str) -> Json:
    """Return the body with a prefix cache of its own."""
    return {**body, "cache_salt": salt}


DIALECT = replace(
    openai.DIALECT,
    name="sglang",
    max_top_logprobs=None,
    greedy_at=9e-7,  # below 1e-6 (_SAMPLING_EPS in its sampling parameters)
    # A chat's temperature, top_p, top_k and min_p come from the model's generation_config.json: unknown from here.
    defaults=Defaults(max_tokens_completions=16),
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
        "asked without stream, whatever the client does: only a whole reply tells a chat's ids; versions that ignore return_token_ids are compared by text",
        "values of a sampled reply are after temperature, those of a greedy one and of scoring are not",
    ),
)
