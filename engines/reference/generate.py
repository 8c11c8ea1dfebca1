"""Runs the model over one sequence: read a prompt (scoring it on the way), then continue it token by token.

A prompt is read once, in stretches of ``STRETCH`` tokens over one growing KV cache, so the logits of a long prompt never lie in memory all at once and a
client that has gone stops the work within a stretch. Decoding continues from the same cache.

House rules: runs in the worker thread alone; knows no HTTP. Everything that it yields is a plain value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from engines.reference.logprobs import Logits, Logprobs, Row, row, rows, whole
from engines.reference.planted import planted, tie_rule
from engines.reference.sampling import adjusted, generator, pick
from engines.reference.tokens import TextStream
from engines.reference.weights import Loaded
from engines.reference.work import Event, Generation, PromptRead, Step

#: Tokens a forward pass takes at most. 512 x 150,000 float32 logits are 0.3 GB; vLLM's chunked prefill uses 2048.
STRETCH = 512


class AbandonedError(Exception):
    """Nobody waits for this any more."""


class Cached:
    """One sequence and its KV cache."""

    def __init__(self, loaded: Loaded, cache: Any = None) -> None:
        self._loaded = loaded
        self._cache = cache

    def extend(self, tokens: Sequence[int], keep: int) -> Logits:
        """Append tokens; the logits at the last ``keep`` of them, float32, shape (keep, vocabulary)."""
        import torch

        given = torch.tensor([list(tokens)], dtype=torch.long, device=self._loaded.device)
        out = self._loaded.torch_model(
            input_ids=given, past_key_values=self._cache, use_cache=True, logits_to_keep=keep
        )
        self._cache = out.past_key_values
        logits: Logits = out.logits[0, -keep:].to(dtype=torch.float32, device="cpu").numpy()
        return logits

    def fork(self) -> Cached:
        """Copy the sequence, for the next choice of the same prompt."""
        return Cached(self._loaded, copy.deepcopy(self._cache))


def run(
    loaded: Loaded, prompts: Sequence[Sequence[int]], wanted: Generation, cancelled: Callable[[], bool]
) -> Iterator[Event]:
    """Every event of a request, in order: each prompt, then its choices one after the other (index = prompt x n + choice)."""
    import torch

    with torch.inference_mode():
        for number, prompt in enumerate(prompts):
            sequence = Cached(loaded)
            scored, every, last = read(sequence, prompt, wanted, cancelled)
            yield PromptRead(number, scored, every)
            for choice in range(wanted.n):
                branch = sequence if choice == wanted.n - 1 else sequence.fork()
                place = number * wanted.n + choice
                yield from choose(branch, last, prompt, wanted, loaded=loaded, index=place, cancelled=cancelled)


def read(
    sequence: Cached, prompt: Sequence[int], wanted: Generation, cancelled: Callable[[], bool]
) -> tuple[tuple[Row | None, ...] | None, Logprobs | None, Logits]:
    """Read a prompt of at least one token: (rows or None, every token's values or None, the logits after its last token)."""
    top, least = wanted.prompt_top, wanted.whole_from
    scored: list[Row | None] = [None]
    every: list[Logprobs] = []
    last: Logits = np.empty(0, dtype=np.float32)
    for start in range(0, len(prompt), STRETCH):
        _heed(cancelled)
        stretch = prompt[start : start + STRETCH]
        read_so_far = prompt[: start + len(stretch)]
        given = sequence.extend(stretch, keep=1 if top is None and least is None else len(stretch))
        logits = planted(given, read_so_far, wanted.plant, wanted.opening)
        last = logits[-1]
        following = prompt[start + 1 : start + 1 + len(stretch)]
        if top is not None:
            in_float32 = wanted.plant.values == "float32"
            scored.extend(rows(logits[: len(following)], following, top, in_float32=in_float32))
        if least is not None and len(following) > (skipped := max(0, least - start - 1)):
            every.append(whole(logits[skipped : len(following)]))
    return None if top is None else tuple(scored), np.concatenate(every) if every else None, last


def choose(
    sequence: Cached,
    logits: Logits,
    prompt: Sequence[int],
    wanted: Generation,
    *,
    loaded: Loaded,
    index: int,
    cancelled: Callable[[], bool],
) -> Iterator[Step]:
    """Continue a prompt whose last token left ``logits``, until it ends."""
    if wanted.max_tokens == 0:
        yield Step(index, None, finish="length")
        return
    source = generator(wanted.sampling, index % wanted.n)
    shown = TextStream(wanted.stop, include_stop=wanted.include_stop)
    ends = wanted.stop_ids if wanted.ignore_end else wanted.stop_ids | loaded.end_ids
    output: list[int] = []
    while True:
        _heed(cancelled)
        early = len(output) < wanted.min_tokens
        forbidden = sorted(wanted.stop_ids | loaded.end_ids) if early else ()
        before = [*prompt, *output]
        ties = tie_rule(before, wanted.plant, wanted.opening)
        token = pick(adjusted(logits, wanted.sampling, prompt, output, forbidden), wanted.sampling, source, ties)
        in_float32 = wanted.plant.values == "float32"
        line = None if wanted.top is None else row(logits, token, wanted.top, in_float32=in_float32)
        output.append(token)
        offset = shown.length
        finish, reason, text = _end(shown, token, wanted, loaded, count=len(output), ending=token in ends, early=early)
        yield Step(index, token, line, text, offset, finish, reason)
        if finish is not None:
            return
        given = sequence.extend([token], keep=1)
        logits = planted(given, [*before, token], wanted.plant, wanted.opening)[0]


def _end(
    shown: TextStream, token: int, wanted: Generation, loaded: Loaded, *, count: int, ending: bool, early: bool
) -> tuple[str | None, int | str | None, str]:
    """Decide whether one more token ends it: (finish reason, what stopped it, text that became certain) after one more token."""
    if ending:
        # The token that ends a reply is a row of it, and not part of its text.
        text = shown.push(loaded.table.visible(token, skip_special=wanted.skip_special)) if wanted.include_stop else ""
        named = token if token in wanted.stop_ids and token not in loaded.end_ids else None
        return "stop", named, text + shown.finish()
    text = shown.push(loaded.table.visible(token, skip_special=wanted.skip_special), watch=not early)
    if shown.stopped is not None:
        return "stop", shown.stopped, text
    if count >= wanted.max_tokens:
        return "length", None, text + shown.finish()
    return None, None, text


def _heed(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise AbandonedError
