"""A reply's JSON object to a ``Reply``: every choice as a token stream.

House rules. Pure and total. Engine differences come in as ``raw_bytes`` alone; what else an engine does differently its own dialect mends
afterwards. Whether rows are one per token is decided here, by counting, and never assumed.
"""

from __future__ import annotations

from typing import Any

from engines.rows import chat_rows, ids_of, legacy_rows, whole
from proxy.compare.columns import Columns
from proxy.compare.token_stream import Channel, Reply, Token, Tokens, TokenStream, ToolCall

Json = dict[str, Any]

#: Finish reasons of other names, mapped to OpenAI's.
_SAME = {"eos": "stop", "eos_token": "stop", "stop_sequence": "stop", "word": "stop", "limit": "length"}
_KNOWN = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter", "abort", "error", "parse_error"})
#: These say that the engine gave up: what was said so far is no answer to compare.
_GAVE_UP = frozenset({"abort", "error"})


def reply(document: Json, request: Json, error: str | None, *, raw_bytes: bool = False) -> Reply:
    """Read the object. ``error`` is what is already known to be wrong with it."""
    listed = document.get("choices")
    choices = [choice for choice in listed if isinstance(choice, dict)] if isinstance(listed, list) else []
    usage = _dict(document.get("usage"))
    prompt_tokens, completion_tokens = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
    prompt_ids = ids_of(document.get("prompt_token_ids"))
    streams = tuple(
        _stream(
            choice,
            index=index,
            echoed=prompt_tokens if request.get("echo") is True else 0,
            count=completion_tokens if len(choices) == 1 else None,
            prompt_ids=prompt_ids,
            raw_bytes=raw_bytes,
        )
        for index, choice in _indexed(choices)
    )
    gave_up = next((stream.finish_reason for stream in streams if stream.finish_reason in _GAVE_UP), None)
    return Reply(
        choices=streams,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=whole(_dict(usage.get("prompt_tokens_details")).get("cached_tokens")),
        model=_text(document.get("model")) or None,
        system_fingerprint=_text(document.get("system_fingerprint")) or None,
        error=error or (f"finish_{gave_up}" if gave_up else None),
    )


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _indexed(choices: list[Json]) -> list[tuple[int, Json]]:
    """Pair choices with their index, in index order; by place when the engine's indices are missing or not unique."""
    given = [whole(choice.get("index")) for choice in choices]
    if None in given or len(set(given)) != len(given):
        return list(enumerate(choices))
    return sorted(zip(given, choices, strict=True), key=lambda pair: pair[0])  # type: ignore[arg-type] # None was ruled out


def _stream(
    choice: Json,
    *,
    index: int,
    echoed: int | None,
    count: int | None,
    prompt_ids: tuple[int, ...] | None,
    raw_bytes: bool,
) -> TokenStream:
    message = _dict(choice.get("message"))
    chat = isinstance(choice.get("message"), dict)
    text = _text(message.get("content")) + _text(message.get("refusal")) if chat else _text(choice.get("text"))
    reasoning = _text(message.get("reasoning")) or _text(message.get("reasoning_content"))
    calls = _tool_calls(message)
    ids = ids_of(choice.get("token_ids"))
    if ids is not None:
        count = len(ids)
    finish_reason = _finish_reason(choice.get("finish_reason"))
    rows, missing = _one_per_token(_rows(choice.get("logprobs"), raw_bytes=raw_bytes), ids, count, echoed)
    return TokenStream(
        index=index,
        tokens=_with_channels(rows, reasoning, text, calls) if chat else rows,
        text=text,
        reasoning=reasoning,
        tool_calls=calls,
        finish_reason=finish_reason,
        count=count,
        prompt_ids=ids_of(choice.get("prompt_token_ids")) or prompt_ids,
        rows_missing=missing,
        refused=finish_reason == "content_filter" or bool(_text(message.get("refusal"))),
    )


def _rows(logprobs: Any, *, raw_bytes: bool) -> Tokens:
    if not isinstance(logprobs, dict):
        return ()
    return chat_rows(logprobs.get("content"), raw_bytes=raw_bytes) or legacy_rows(logprobs)


def _one_per_token(
    rows: Tokens, ids: tuple[int, ...] | None, count: int | None, echoed: int | None
) -> tuple[Tokens, bool]:
    """Hold rows against what else the reply says of its tokens: the tokens, and whether some have no row.

    ``echoed``: prompt tokens repeated before the answer's (0 without ``echo``, None when not known).
    """
    if not rows and not ids:
        return (), False
    if rows and echoed and len(rows) == echoed:
        return (), False  # vLLM with max_tokens 0: it counts the one token it drops
    if rows and echoed != 0:
        if count is None or (len(rows) != count and len(rows) != count + (echoed or 0)):
            return rows, True
        rows = rows if len(rows) == count else rows[len(rows) - count :]
    if ids is not None:
        if isinstance(rows, Columns) and len(rows) == len(ids) and rows.ids in (None, ids):
            return rows if rows.ids else rows.with_ids(ids), False
        if len(rows) == len(ids) and all(row.id in (None, known) for row, known in zip(rows, ids, strict=True)):
            return tuple(_with_id(row, known) for row, known in zip(rows, ids, strict=True)), False
        # Rows were swallowed (a tool or reasoning parser does that) or none were asked for: the ids are the tokens.
        return tuple(Token(text="", id=known) for known in ids), False
    return rows, count is not None and len(rows) != count


def _with_id(row: Token, known: int) -> Token:
    if row.id is not None:
        return row
    return Token(text=row.text, id=known, data=row.data, logprob=row.logprob, top=row.top, channel=row.channel)


def _finish_reason(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    reason = _SAME.get(value, value)
    return reason if reason in _KNOWN else "other"


def _tool_calls(message: Json) -> tuple[ToolCall, ...]:
    listed = message.get("tool_calls")
    calls = [_dict(call) for call in listed] if isinstance(listed, list) else []
    if isinstance(message.get("function_call"), dict):
        calls.append({"function": message["function_call"]})
    return tuple(
        ToolCall(
            name=_text(_dict(call.get("function")).get("name")),
            arguments=_text(_dict(call.get("function")).get("arguments")),
            id=_text(call.get("id")) or None,
        )
        for call in calls
    )


def _with_channels(tokens: Tokens, reasoning: str, content: str, calls: tuple[ToolCall, ...]) -> Tokens:
    """Tell tokens apart by channel where the reply does not say: reasoning first, content next, a call's tokens last.

    A whole reply lists the tokens of all channels in one array. They are cut where the texts end; where a text is not to be
    found in the tokens (ids without text), they stay as they are.
    """
    if not (reasoning or calls) or any(token.channel is not Channel.CONTENT for token in tokens):
        return tokens
    spelled = "".join(token.text for token in tokens)
    ends: list[tuple[int, Channel]] = []
    at = 0
    for part, channel in ((reasoning.strip(), Channel.REASONING), (content.strip(), Channel.CONTENT)):
        found = spelled.find(part, at) if part else -1
        if found >= 0:
            at = found + len(part)
            ends.append((at, channel))
    rest = Channel.TOOL if calls else Channel.CONTENT
    marked: list[Token] = []
    start = 0
    for token in tokens:
        channel = next((channel for end, channel in ends if start < end), rest)
        start += len(token.text)
        marked.append(token if channel is token.channel else _in_channel(token, channel))
    return tuple(marked)


def _in_channel(token: Token, channel: Channel) -> Token:
    return Token(text=token.text, id=token.id, data=token.data, logprob=token.logprob, top=token.top, channel=channel)
