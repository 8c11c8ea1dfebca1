"""LMDeploy, on its PyTorch engine and on TurboMind: the OpenAI baseline with ids on chats, and scoring where it is offered.

House rules. Sources: LMDeploy 0.18's protocol and serving files, and public reports where named. Facts used here: ``return_token_ids`` gives a chat's choice ``output_ids``, on
a stream with the last delta of a step; without ``--logprobs-mode`` the PyTorch engine answers 400 to a chat that asks for logprobs; completions never have any, and break a stream
that asks. Rows hold the vocabulary's own pieces, not text, and leave the chosen token out of its list; a chosen token that was filtered away has an empty row of value 0.
TurboMind's values are of what sampling left: 0 for a greedy token (lmdeploy issue 2232), to be seen by the probe. Prompt scores came with 0.17 or 0.18 and are the PyTorch engine's;
before, the question is a 400.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engines import openai
from engines.asking import ask_json, prompts_of, refuse_media
from engines.body import document
from engines.choices import reply
from engines.dialect import Answer, Call, Defaults, DialectError, Endpoint, Fetch, Json, Scored
from engines.openai import choices_of
from engines.pairs import scored
from engines.pieces import mend
from engines.rows import ids_of, number, whole
from proxy.compare.token_stream import Reply

#: Keys of a choice that are null, on a stream missing, unless they are asked for.
_EXTRA = {"output_ids": "return_token_ids", "output_token_logprobs": "return_logprob"}
#: Fields of a chat that change how it is rendered, beside its messages.
_RENDERED = ("tools", "chat_template_kwargs", "enable_thinking", "reasoning_effort", "input_ids", "response_format")


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask a chat for ids, and for logprobs unless ``top`` is 0; a completion has neither. Greedy is said in both ways that engines here know."""
    shaped = openai.with_usage(body)
    if endpoint is Endpoint.CHAT:
        shaped = openai.with_logprobs(endpoint, shaped, top) if top > 0 else shaped
        shaped["return_token_ids"] = True
    elif endpoint is Endpoint.COMPLETIONS:
        shaped.pop("logprobs", None)
    if number(shaped.get("temperature")) == 0:  # TurboMind goes on to draw at temperature 0
        shaped["top_k"] = 1
    elif (number(shaped.get("top_k")) or 0) < 0:  # other engines' way to write 0
        shaped["top_k"] = 0
    return shaped


def inject(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask a chat for logprobs and ids as far as they can be taken away again."""
    flag = body.get("return_token_ids")
    if endpoint is not Endpoint.CHAT or not (flag is None or isinstance(flag, bool)):
        return dict(body)
    if openai.untouchable(endpoint, body):
        return dict(body)
    own = (
        openai.asked_alternatives(endpoint, body) is not None
    )  # a longer list cannot be cut back: the chosen token's place is not in it
    return {**(body if own else openai.undoable(endpoint, body, top)), "return_token_ids": True}


def strip(endpoint: Endpoint, client: Json, value: Json) -> Json | None:
    """Take away what ``inject`` added, and drop an event that is there for the ids alone."""
    asked = openai.asked_alternatives(endpoint, client)
    choices = choices_of(value)
    silent = asked is None and not any(client.get(flag) for flag in _EXTRA.values())
    if silent and choices and all(map(_only_ids, choices)):
        return None
    for choice in choices:
        for name, flag in _EXTRA.items():
            if client.get(flag) is not True and name in choice:
                _take(choice, name)
        if asked is None and "logprobs" in choice:
            _take(choice, "logprobs")
    return value


def _take(choice: Json, name: str) -> None:
    if "delta" in choice:
        del choice[name]
    else:
        choice[name] = None


def _only_ids(choice: Json) -> bool:
    """Tell an event that is sent, where a parser holds the text back, for the sake of its ids: a delta that says nothing but its role."""
    delta = choice.get("delta")
    unfinished = choice.get("finish_reason") is None and bool(choice.get("output_ids"))
    return isinstance(delta, dict) and unfinished and not any(delta[name] for name in delta if name != "role")


def read(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer as token streams. Never raises."""
    del endpoint
    value, error = document(answer)
    for choice in choices_of(value):
        if ids_of(choice.get("token_ids")) is None:
            choice["token_ids"] = choice.get("output_ids")
        logprobs = choice.get("logprobs")
        rows = logprobs.get("content") if isinstance(logprobs, dict) else None
        if isinstance(rows, list) and rows:
            _mend([row for row in rows if isinstance(row, dict)], choice)
        elif isinstance(choice.get("output_token_logprobs"), list):
            choice["logprobs"] = {"content": [_of_pair(row) for row in choice["output_token_logprobs"]]}
    return reply(value, request, error, raw_bytes=True)


def _mend(rows: list[Json], choice: Json) -> None:
    """Turn pieces into text, and put the chosen token into its own list, where other engines have it."""
    mend(rows, _texts(choice.get("message")))
    ids = ids_of(choice["token_ids"]) or ()
    for row, known in zip(rows, ids if len(ids) == len(rows) else [None] * len(rows), strict=True):
        listed = row.get("top_logprobs")
        if isinstance(listed, list) and listed and row.get("logprob") is not None:
            chosen = {name: row.get(name) for name in ("token", "bytes", "logprob")}
            row["top_logprobs"] = [{**chosen, "id": known}, *listed]


def _of_pair(row: Any) -> Json:
    held = isinstance(row, list) and len(row) == 2
    return {"logprob": row[0], "id": whole(row[1])} if held else {}


def _texts(message: Any) -> list[str]:
    """Return what a reply shows of its tokens."""
    said: Json = message if isinstance(message, dict) else {}
    calls = said.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    shown = [said.get(name) for name in ("reasoning_content", "reasoning", "content")]
    shown += [function.get("name") for function in functions if isinstance(function, dict)]
    return [text for text in shown if isinstance(text, str)]


async def prompt_ids(fetch: Fetch, endpoint: Endpoint, body: Json) -> tuple[tuple[int, ...], ...]:
    """Return the ids of a prompt, or of a chat that is one user's message: no route renders any other. Raises ``no_prompt_ids`` for those."""
    refuse_media(endpoint, body)
    if endpoint is not Endpoint.CHAT:
        prompts = prompts_of(body)
        return tuple([await _encode(fetch, one) if isinstance(one, str) else tuple(one) for one in prompts])
    messages = body.get("messages")
    only = messages[0] if isinstance(messages, list) and len(messages) == 1 else None
    plain = isinstance(only, dict) and only.keys() == {"role", "content"} and only["role"] == "user"
    text = only["content"] if plain and isinstance(only, dict) else None
    if not isinstance(text, str) or any(body.get(name) for name in _RENDERED):
        raise DialectError("no_prompt_ids", "/v1/encode renders a single user message and nothing else")
    return (await _encode(fetch, text, do_preprocess=True),)


async def tokenize(fetch: Fetch, text: str, model: str | None) -> tuple[int, ...]:
    """Return the ids of visible text, no special tokens added."""
    del model
    return await _encode(fetch, text, add_bos=False)


async def _encode(fetch: Fetch, text: str, **how: bool) -> tuple[int, ...]:
    ids = ids_of((await ask_json(fetch, Call("/v1/encode", {"input": text, **how}))).get("input_ids"))
    if ids is None:
        raise DialectError("unexpected_reply", "/v1/encode gave no list of token ids")
    return ids


async def score(
    fetch: Fetch, model: str | None, prompt: tuple[int, ...], ids: tuple[int, ...], top: int
) -> tuple[Scored, ...]:
    """Score ``ids`` after ``prompt`` in one prefill. Rows are of what follows the boundary, so an empty prompt leaves position 0 out."""
    del model
    question = {
        "input_ids": [*prompt, *ids],
        "return_logprob": True,
        "logprob_start_len": max(0, len(prompt) - 1),
        "top_logprobs_num": top,
        "max_tokens": 0,
        "stream": False,
    }
    meta = (await ask_json(fetch, Call("/generate", question))).get("meta_info")
    found: Json = meta if isinstance(meta, dict) else {}
    return scored(found.get("input_token_logprobs"), found.get("input_top_logprobs"), ids, 0 if prompt else 1)


DIALECT = replace(
    openai.DIALECT,
    name="lmdeploy",
    max_top_logprobs=20,
    # The others come from the model's generation_config.json, or are 0.8, 1 and 50: unknown from here.
    defaults=Defaults(),
    logprob_mode="raw",
    ask=ask,
    read=read,
    strip=strip,
    inject=inject,
    prompt_ids=prompt_ids,
    tokenize=tokenize,
    score=score,
    misread=frozenset({"presence_penalty", "frequency_penalty"}),  # accepted, and applied to nothing
    notes=(
        "logprobs need `--backend pytorch --logprobs-mode raw_logprobs`; TurboMind's are of what sampling left, and not compared",
        "completions have neither ids nor logprobs; of chats only a single user message can be rendered to ids",
    ),
)
