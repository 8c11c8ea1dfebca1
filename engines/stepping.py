"""Scoring given tokens on llama.cpp, one request per position.

House rules. The server has no prompt logprobs. What it has: the values of the next token after any ids, with the prompt cache making each
step cost one token. Reported values are those before sampling (``post_sampling_probs`` is off), so a logit bias that forces the wanted
token leaves them as they are, and the token's own row shows its logprob wherever it ranks. Seen on 2026.10 builds; the tests hold it
against a live server.
"""

from __future__ import annotations

from engines.asking import ask_json, with_model
from engines.dialect import Call, Fetch, Json, Scored
from engines.rejoin import own_bytes, spelled
from engines.rows import chat_rows
from proxy.compare.token_stream import Token

#: Positions of a reply that are scored: each is a request of its own.
MOST_STEPS = 12
#: A bias no logit outweighs.
_CERTAIN = 10_000


async def score(
    fetch: Fetch, model: str | None, prompt: tuple[int, ...], ids: tuple[int, ...], top: int
) -> tuple[Scored, ...]:
    """Score at most 12 positions, spread evenly over all, one request each.

    The last position goes first: it fills the cache (or finds it filled by the engine's own decoding), and each earlier one then is one token
    evaluated by itself at its place in that cache, which is what decoding does.
    A token that is part of a character gets no row of its own; it is then looked up among the alternatives, and its logprob is
    None when it is not one of them.
    """
    scored: list[Scored] = []
    for index in reversed(spread(len(ids), MOST_STEPS)):
        question: Json = {
            "prompt": [*prompt, *ids[:index]],
            "n_predict": 1,
            "n_probs": max(top, 1),
            "temperature": 0,
            "cache_prompt": True,
        }
        scored.append(Scored(index, await _step(fetch, with_model(question, model), ids[index])))
    return tuple(reversed(scored))


def spread(length: int, most: int) -> tuple[int, ...]:
    """Return at most ``most`` of the positions 0..length-1, evenly, first and last included."""
    if length <= most:
        return tuple(range(length))
    return tuple(round(step * (length - 1) / (most - 1)) for step in range(most))


async def _step(fetch: Fetch, question: Json, wanted: int) -> Token:
    for certain in (wanted, "a"):  # any token that is whole text brings the alternatives out
        answer = await ask_json(fetch, Call("/completion", {**question, "logit_bias": [[certain, _CERTAIN]]}))
        rows = chat_rows(answer.get("completion_probabilities"), raw_bytes=True)
        if rows:
            break
    else:
        return Token(text="", id=wanted)
    row = spelled(rows[0], own_bytes(rows))
    if row.id == wanted:
        return row
    found = next((one for one in row.top if one.id == wanted), None)
    if found is None:
        return Token(text="", id=wanted, top=row.top)
    return Token(text=found.text or "", id=wanted, data=found.data, logprob=found.logprob, top=row.top)
