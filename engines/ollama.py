"""Ollama's ``/v1``: logprobs on chats alone, in OpenAI's shape; no ids, no scoring.

House rules. Sources: Ollama's ``openai`` and ``server`` packages and its API types (0.12.11 and later; embeds llama.cpp's server). Facts used here:
``top_logprobs`` beyond 20 is a 400; ``/v1/completions`` takes ``logprobs`` and gives none; ``max_completion_tokens``, ``n``, ``logit_bias``, ``top_k`` and
``min_p`` are overlooked; a choice without logprobs has no such key, a row without alternatives no ``top_logprobs``, and bytes are those of the shown
text. A step that holds the end of the thinking and the beginning of the content comes as two events of which the first has the rows of both, so channels
are told from the texts. Nothing was run against a live server.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from engines import openai
from engines.body import document
from engines.choices import reply
from engines.dialect import Answer, Defaults, Endpoint, Json
from engines.neutral import at_most, with_max_tokens
from engines.ollama_native import native_document
from engines.openai import asked_alternatives, choices_of
from engines.respell import texts
from engines.rows import ROW_CHANNEL
from proxy.compare.token_stream import Reply, Token, TokenStream

MOST = 20


def ask(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask a chat for logprobs, and every stream for usage; completions have none to give."""
    shaped = with_max_tokens(body)
    if endpoint is Endpoint.CHAT:
        shaped = at_most(openai.with_logprobs(endpoint, shaped, top), "top_logprobs", MOST)
    return openai.with_usage(shaped)


def inject(endpoint: Endpoint, body: Json, top: int) -> Json:
    """Ask a chat for logprobs as far as ``strip`` can undo it."""
    return openai.undoable(endpoint, body, top) if endpoint is Endpoint.CHAT else dict(body)


def strip(endpoint: Endpoint, client: Json, value: Json) -> Json | None:
    """Take the logprobs away with their key, and drop an event that is there for its rows alone (its parser was holding the text back)."""
    asked = asked_alternatives(endpoint, client)
    choices = choices_of(value)
    if asked is None and choices and all(_only_rows(choice) for choice in choices):
        return None
    for choice in choices:
        if asked is None:
            choice.pop("logprobs", None)
        elif endpoint is Endpoint.CHAT:
            _cut(choice, asked)
    return value


def _only_rows(choice: Json) -> bool:
    delta = choice.get("delta")
    return (
        isinstance(delta, dict)
        and bool(choice.get("logprobs"))
        and choice.get("finish_reason") is None
        and not any(delta.get(name) for name in ("content", "reasoning", "tool_calls"))
    )


def _cut(choice: Json, most: int) -> None:
    if most:
        openai.cut_alternatives(choice, most)
        return
    logprobs = choice.get("logprobs")
    rows = logprobs.get("content") if isinstance(logprobs, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            row.pop("top_logprobs", None)


def read(endpoint: Endpoint, request: Json, answer: Answer) -> Reply:
    """Read the answer; the row that is known to lack for the token which ended it is not counted as missing."""
    del endpoint
    value, error = native_document(answer) or document(answer)
    for choice in choices_of(value):
        _forget_channels(choice)
    seen = reply(value, request, error)
    return structs.replace(
        seen,
        choices=tuple(_without_last(stream) for stream in seen.choices),
        prompt_tokens=seen.prompt_tokens or None,  # a prompt that was cached as a whole has been reported as 0
    )


def _forget_channels(choice: Json) -> None:
    logprobs = choice.get("logprobs")
    rows = logprobs.get("content") if isinstance(logprobs, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            row.pop(ROW_CHANNEL, None)


def _without_last(stream: TokenStream) -> TokenStream:
    """Count the token that ended the reply out where it is the one without a row: the end token, or the one that held the stop string.

    llama.cpp's streams, of which Ollama makes its replies, count it and give it none. That it is this token which lacks is sure only when the rows
    spell the beginning of the text (what follows is what its own token has in front of the stop string) and none of them stands for several tokens.
    """
    rows = stream.tokens
    lacks_one = stream.finish_reason == "stop" and stream.count == len(rows) + 1
    if not (rows and lacks_one) or stream.reasoning or stream.tool_calls:
        return stream
    if not stream.text.startswith("".join(texts(rows))) or not all(_alone(row) for row in rows):
        return stream
    return structs.replace(stream, count=len(rows), rows_missing=False)


def _alone(row: Token) -> bool:
    """Tell that a row is of one token: merged ones end a character of several bytes, and are listed under another text among their alternatives."""
    return row.text.isascii() or any(one.logprob == row.logprob and one.text == row.text for one in row.top)


DIALECT = replace(
    openai.DIALECT,
    name="ollama",
    max_top_logprobs=MOST,
    # /v1 sends 1.0 for both when the client leaves them out, whatever the Modelfile says; top_k and min_p stay the Modelfile's.
    defaults=Defaults(temperature=1.0, top_p=1.0),
    logprob_mode="unknown",  # reported both as raw and as cut by top_k: the probe looks
    ask=ask,
    inject=inject,
    strip=strip,
    read=read,
    misread=frozenset({"logit_bias", "n", "top_k", "min_p", "repetition_penalty"}),
    notes=(
        "completions are compared by text: they never carry logprobs",
        "no token ids, no rendering of prompts, no scoring; n above 1 is answered with one choice",
        "a prompt longer than num_ctx loses its oldest messages without a word: compare the prompt token counts",
        "top_k (40 unless the Modelfile says otherwise) and min_p cannot be set by a request to /v1",
    ),
)
