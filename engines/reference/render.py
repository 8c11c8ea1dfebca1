"""Messages into prompt text and texts into token ids, by the model's own template and tokenizer.

House rules: the only file that calls a tokenizer object. A template's own complaint becomes a refusal; nothing else of the template reaches a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.reference.prompts import Chat, Text
from engines.reference.refusal import RefusalError


def chat_ids(tokenizer: Any, chat: Chat) -> tuple[int, ...]:
    """Token ids of a conversation."""
    return _ids(tokenizer, chat_text(tokenizer, chat), special=chat.add_special_tokens)


def chat_text(tokenizer: Any, chat: Chat) -> str:
    """Prompt text of a conversation, as the model's template writes it."""
    if not tokenizer.chat_template:
        raise RefusalError("this model has no chat template; ask /v1/completions", param="messages")
    try:
        text = tokenizer.apply_chat_template(
            list(chat.messages),
            tools=list(chat.tools) if chat.tools else None,
            add_generation_prompt=chat.add_generation_prompt,
            continue_final_message=chat.continue_final_message,
            tokenize=False,
            **chat.template_arguments,
        )
    except Exception as complaint:
        # Templates raise what they like: jinja's errors, and TypeError or KeyError from within an expression.
        raise RefusalError(
            f"the chat template refuses these messages ({type(complaint).__name__})", param="messages"
        ) from complaint
    return str(text)


def text_ids(tokenizer: Any, text: Text) -> tuple[tuple[int, ...], ...]:
    """Token ids of each prompt; ids that were given stay as they are."""
    return tuple(
        _ids(tokenizer, prompt, special=text.add_special_tokens) if isinstance(prompt, str) else prompt
        for prompt in text.prompts
    )


def opening(tokenizer: Any) -> tuple[int, ...]:
    """Token ids by which the template opens a reply; empty where it shows none."""
    said = [{"role": "user", "content": "."}]
    try:
        bare, whole = (
            tokenizer.apply_chat_template(said, add_generation_prompt=opened, tokenize=False)
            for opened in (False, True)
        )
    except Exception:  # noqa: BLE001 - a template raises what it likes; it then shows no opening
        return ()
    ids = [tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (bare, whole)]
    return ids[1][len(ids[0]) :] if ids[1][: len(ids[0])] == ids[0] else ()


def text_of(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of token ids, special tokens written out."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=False))


def pieces_of(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the tokenizer's own spelling of each id."""
    return [str(piece) for piece in tokenizer.convert_ids_to_tokens(list(ids))]


def _ids(tokenizer: Any, text: str, *, special: bool) -> tuple[int, ...]:
    ids = tuple(int(number) for number in tokenizer(text, add_special_tokens=special)["input_ids"])
    if not ids:
        raise RefusalError("the prompt has no tokens", param="prompt")
    return ids
