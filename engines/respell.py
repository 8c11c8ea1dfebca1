"""Texts of rows and of their alternatives, for engines that decode each token by itself.

House rules. Pure and total. A SentencePiece tokenizer drops the leading blank of what it decodes, so such an engine says ``Paris`` for the token `` Paris``, and
nobody can tell it from the token ``Paris``. A row's own text is put right where the visible text shows it; an alternative's cannot be: the chosen token among
them gets its row's text, the others lose theirs and keep their values. Where no blank is seen to be lost nothing is changed: texts are mended, never guessed.
"""

from __future__ import annotations

from msgspec import structs

from proxy.compare.columns import Columns
from proxy.compare.token_stream import Alternative, Token, Tokens, TokenStream

_BLANK = " "


def texts(tokens: Tokens) -> list[str]:
    """Return every row's own text."""
    return tokens.names if isinstance(tokens, Columns) and not tokens.labelled else [row.text for row in tokens]


def respelled(stream: TokenStream) -> TokenStream:
    """Put the blanks back into rows that were decoded alone, by walking the visible text along them.

    A row that stands in the text as it is stays, one that stands there after a blank gets it; where a row stands in neither way, or reasoning and tool
    calls are no part of the text, the stream is returned as it is.
    """
    text = stream.text
    if not stream.tokens or stream.reasoning or stream.tool_calls or "".join(texts(stream.tokens)) == text:
        return stream
    rows: list[Token] = []
    at = 0
    for row in stream.tokens:
        if at == len(text) or not row.text:  # a special token, which no text shows
            rows.append(row)
        elif text.startswith(row.text, at):
            rows.append(row)
            at += len(row.text)
        elif text.startswith(_BLANK + row.text, at):
            rows.append(structs.replace(row, text=_BLANK + row.text, data=_blank(row.data)))
            at += 1 + len(row.text)
        else:
            return stream
    if at < len(text) or all(old is new for old, new in zip(stream.tokens, rows, strict=True)):
        return stream
    pairs = zip(stream.tokens, rows, strict=True)
    return structs.replace(stream, tokens=tuple(_with_list(new, old.text) for old, new in pairs))


def relisted(stream: TokenStream) -> TokenStream:
    """Mend the lists of rows whose own texts are right (decoded in their place) while their alternatives' were decoded alone.

    Seen by the chosen token: its value is in the list under its text without the blank, and its text is not.
    """
    tokens = stream.tokens
    if isinstance(tokens, Columns) and not tokens.labelled:
        shown = zip(tokens.names, tokens.rows(len(tokens)), strict=True)
        if all(not name.startswith(_BLANK) or name in listed for name, (listed, _) in shown):
            return stream  # seen without making a token of any row
    if not any(_listed_alone(row) for row in tokens):
        return stream
    rows = tuple(_with_list(row, row.text.removeprefix(_BLANK)) for row in tokens)
    return structs.replace(stream, tokens=rows)


def _listed_alone(row: Token) -> bool:
    if not row.text.startswith(_BLANK) or any(one.text == row.text for one in row.top):
        return False
    return any(one.logprob == row.logprob and one.text == row.text.removeprefix(_BLANK) for one in row.top)


def _with_list(row: Token, alone: str) -> Token:
    """Return the row whose list names the chosen token only; ``alone`` is its text as the list has it."""
    top: list[Alternative] = []
    found = False
    for one in row.top:
        is_chosen = not found and one.logprob == row.logprob and one.text in (alone, row.text)
        found = found or is_chosen
        top.append(structs.replace(one, text=row.text if is_chosen else None, data=row.data if is_chosen else None))
    return structs.replace(row, top=tuple(top))


def _blank(data: bytes | None) -> bytes | None:
    return b" " + data if data else data
