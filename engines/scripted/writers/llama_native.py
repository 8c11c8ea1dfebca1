"""llama.cpp's own ``/completion``: a text or ids in, tokens and their probabilities out.

House rules. Pure. What the recorded replies hold, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from engines.scripted.asked import Asked, Habits, asked
from engines.scripted.engine import Engine, Event, Query, Stream, Whole
from engines.scripted.generate import Said, Step
from engines.scripted.refused import Refused
from engines.scripted.writers.llama_rows import listed

Json = dict[str, Any]

BUILD = "b0-scripted"
HABITS = Habits(temperature=0.8, top_p=0.95, top_k=40, min_p=0.05)

#: The server's own values of what the toy does not do.
SETTINGS: Json = {
    "seed": 4294967295,
    "temperature": 0.8,
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "typical_p": 1.0,
    "repeat_last_n": 64,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "mirostat": 0,
    "max_tokens": -1,
    "n_predict": -1,
    "n_keep": 0,
    "ignore_eos": False,
    "stream": False,
    "n_probs": 0,
    "min_keep": 0,
    "samplers": ["penalties", "top_k", "top_p", "min_p", "temperature"],
    "post_sampling_probs": False,
}


def completion(engine: Engine, query: Query) -> Whole | Stream:
    """Answer ``/completion``."""
    wanted = _asked(engine, query.body)
    if wanted.stream:
        return Stream(_stream(engine, wanted))
    said = engine.whole(wanted)[0]
    return Whole(native(engine, wanted, said), len(said.steps))


def _asked(engine: Engine, body: Json) -> Asked:
    probs, limit = body.get("n_probs"), body.get("n_predict", body.get("max_tokens"))
    bias = body.get("logit_bias")
    given = {
        **body,
        "logprobs": probs or None,
        "max_tokens": (1 << 20) if limit is None or limit == -1 else max(1, limit) if isinstance(limit, int) else limit,
        "logit_bias": _bias(engine, bias) if isinstance(bias, list) else bias,
        "max_completion_tokens": None,
        "echo": None,
        "prompt_logprobs": None,
        "n": None,
    }
    if body.get("prompt") is None:
        raise Refused('"prompt" must be a string, an array of ids or an array of both')
    wanted = asked(engine.script, HABITS, given, chat=False)
    return replace(wanted, prompts=wanted.prompts[:1])


def _bias(engine: Engine, listed: list[Any]) -> Json:
    """Read pairs of an id or a text and a value; ``false`` forbids a token."""
    found: Json = {}
    for pair in listed:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], bool | int | float)):
            raise Refused("logit_bias: pairs of a token and a value are required")
        ids = engine.toy.table.encode(pair[0]) if isinstance(pair[0], str) else (pair[0],)
        for token in ids:
            found[str(token)] = -1e9 if pair[1] is False else float(pair[1])
    return found


def native(engine: Engine, wanted: Asked, said: Said) -> Json:
    """Write the whole native reply; also what ``verbose`` adds to the compatible routes."""
    value: Json = {"index": 0, "content": said.text(), "tokens": said.ids if _wants_tokens(wanted) else []}
    value |= {"id_slot": 0, "stop": True, "model": engine.script.model}
    value |= _ended(engine, wanted, said.prompt, said.steps)
    if wanted.top:
        value["completion_probabilities"] = listed(engine, said.steps)
    return value


def _wants_tokens(wanted: Asked) -> bool:
    return wanted.body.get("return_tokens") is True


def _ended(engine: Engine, wanted: Asked, prompt: tuple[int, ...], said: tuple[Step, ...]) -> Json:
    last = said[-1]
    stop = "limit" if last.finish == "length" else "word" if last.stop else "eos"
    sampling = wanted.sampling
    used = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
    }
    used |= {"n_predict": wanted.limit, "max_tokens": wanted.limit, "n_probs": wanted.top or 0, "stream": wanted.stream}
    return {
        "tokens_predicted": len(said),
        "tokens_evaluated": len(prompt),
        "generation_settings": {**SETTINGS, **used, "stop": list(wanted.stop)},
        "prompt": engine.toy.table.decode(prompt),
        "has_new_line": False,
        "truncated": False,
        "stop_type": stop,
        "stopping_word": last.stop or "",
        "tokens_cached": len(prompt) + len(said) - 1,
        "timings": timings(len(prompt), len(said)),
    }


def timings(prompt: int, said: int) -> Json:
    """Write ``timings``: counts, and no times."""
    names = ("ms", "per_token_ms", "per_second")
    before = {"cache_n": 0, "prompt_n": prompt, **{f"prompt_{name}": 0.0 for name in names}}
    return {**before, "predicted_n": said, **{f"predicted_{name}": 0.0 for name in names}}


def _stream(engine: Engine, wanted: Asked) -> Iterator[Event]:
    prompt = wanted.prompts[0]
    said: list[Step] = []
    for step in engine.said(wanted, prompt, 0, stream=True):
        said.append(step)
        counts = {"tokens_predicted": len(said), "tokens_evaluated": len(prompt)}
        value: Json = {
            "index": 0,
            "content": step.text,
            "tokens": [step.row.id],
            "stop": False,
            "id_slot": -1,
            **counts,
        }
        if wanted.top:
            value["completion_probabilities"] = listed(engine, [step])
        yield Event(value, 1)
    ends = {"index": 0, "content": "", "tokens": [], "id_slot": 0, "stop": True, "model": engine.script.model}
    yield Event({**ends, **_ended(engine, wanted, prompt, tuple(said))})
