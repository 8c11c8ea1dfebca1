"""Rows of logprobs as JSON: chat's list of rows, completions' four parallel lists, vLLM's prompt logprobs.

House rules: pure. The alternatives of a chat row are the true first k in order; the chosen token stands beside them and is not squeezed in. In completions, whose
alternatives are keyed by text, the chosen token is always a key, as in vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence

from engines.reference.logprobs import Ranked, Row
from engines.reference.refusal import Json
from engines.reference.tokens import TokenTable
from engines.reference.work import Step


def label(token: int, table: TokenTable, *, as_id: bool) -> str:
    """Write a token's text, or ``token_id:N`` as vLLM's ``return_tokens_as_token_ids`` wants it."""
    return f"token_id:{token}" if as_id else table.text(token)


def chat_row(row: Row, table: TokenTable, *, as_id: bool) -> Json:
    """Write one entry of ``choices[].logprobs.content``; ``bytes`` are the token's own whatever its label is."""
    return {
        **_entry(row.token, table, as_id=as_id),
        "top_logprobs": [_entry(ranked, table, as_id=as_id) for ranked in row.top],
    }


def _entry(ranked: Ranked, table: TokenTable, *, as_id: bool) -> Json:
    return {
        "token": label(ranked.id, table, as_id=as_id),
        "logprob": ranked.logprob,
        "bytes": list(table.data(ranked.id)),
    }


def completion_rows(steps: Sequence[Step], table: TokenTable, *, as_id: bool) -> Json:
    """Write ``choices[].logprobs`` of completions for steps that carry a token; a step without a row (the first of a prompt) is null."""
    lists: Json = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    for step in steps:
        if step.token is None:
            continue
        lists["text_offset"].append(step.offset)
        lists["tokens"].append(label(step.token, table, as_id=as_id))
        lists["token_logprobs"].append(step.row.token.logprob if step.row else None)
        lists["top_logprobs"].append(_by_label(step.row, table, as_id=as_id) if step.row else None)
    return lists


def _by_label(row: Row, table: TokenTable, *, as_id: bool) -> Json:
    found: Json = {}
    for ranked in (row.token, *row.top):
        found.setdefault(label(ranked.id, table, as_id=as_id), ranked.logprob)
    return found


def prompt_rows(rows: Sequence[Row | None] | None, table: TokenTable) -> list[Json | None] | None:
    """Write vLLM's ``prompt_logprobs``: per token a map from id to value, rank and text, the prompt's own token first."""
    if rows is None:
        return None
    return [
        None if row is None else {str(ranked.id): _ranked(ranked, table) for ranked in (row.token, *row.top)}
        for row in rows
    ]


def _ranked(ranked: Ranked, table: TokenTable) -> Json:
    return {"logprob": ranked.logprob, "rank": ranked.rank, "decoded_token": table.text(ranked.id)}
