"""What the fields of a rollout are called in the files of veRL, TRL, OpenRLHF, SkyRL, slime and others.

House rules. Names only, in order of preference; the first that is there and not null counts. A line of many rollouts (lists of lists) is taken apart. Anything
unknown is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proxy.rollouts.rollout import Rollout, Unusable, make

#: Field by field: the names under which it is looked for. ``README.md`` says whose they are.
PROMPT = ("prompt_ids", "prompt_token_ids", "prompts", "prompt_tokens", "input_ids_prompt")
RESPONSE = ("response_ids", "responses", "completion_ids", "response_token_ids", "completion_token_ids", "output_ids", "output_token_ids")  # fmt: skip
#: Prompt and response in one list; the response is as long as ``LENGTH`` says, or the mask.
WHOLE = ("tokens", "sequences", "input_ids")
LENGTH = ("response_length", "response_len")
ROLLOUT = (
    "rollout_logprobs", "rollout_log_probs", "sampling_per_token_logps", "sampling_logprobs", "inference_logprobs", "generation_logprobs", "completion_logprobs",
    "response_logprobs", "output_logprobs", "logprobs",
)  # fmt: skip
TRAINER = (
    "trainer_logprobs", "train_logprobs", "training_logprobs", "trainer_log_probs", "old_log_probs", "old_logprobs", "old_per_token_logps", "per_token_logps",
    "action_log_probs", "actor_log_probs", "log_probs",
)  # fmt: skip
MASK = ("response_mask", "loss_mask", "loss_masks", "completion_mask", "action_mask", "response_masks")
NAME = ("id", "uid", "request_id", "trajectory_id", "index")

#: Sampling settings under which k3 is a score and no KL, with the values that change nothing.
_NEUTRAL: dict[str, tuple[float, ...]] = {
    "temperature": (1.0,), "top_p": (1.0,), "top_k": (-1.0, 0.0), "min_p": (0.0,), "repetition_penalty": (1.0,), "presence_penalty": (0.0,),
    "frequency_penalty": (0.0,),
}  # fmt: skip


def looks_like(line: Any) -> bool:
    """Say whether a line of JSON is a rollout: it has ids of a response and somebody's logprobs of them."""
    if not isinstance(line, dict):
        return False
    return _first(line, RESPONSE + WHOLE) is not None and _first(line, ROLLOUT + TRAINER) is not None


def rollouts_of(line: Any, name: str) -> Iterator[Rollout | Unusable]:
    """Yield the rollouts of one line: mostly one; of a batch each, usable or not. ``name`` is what an unnamed one is called."""
    if not isinstance(line, dict):
        yield Unusable("not_json", "not a JSON object")
        return
    ids = _first(line, RESPONSE) or _first(line, WHOLE)
    if isinstance(ids, list) and ids and isinstance(ids[0], list):
        for number in range(len(ids)):
            yield _one({key: _nth(value, number, len(ids)) for key, value in line.items()}, f"{name}.{number + 1}")
    else:
        yield _one(line, name)


def _one(line: dict[str, Any], name: str) -> Rollout | Unusable:
    try:
        return _read(line, name)
    except Unusable as reason:
        return reason


def _read(line: dict[str, Any], name: str) -> Rollout:
    mask, prompt, response = _first(line, MASK), _first(line, PROMPT), _first(line, RESPONSE)
    if response is None:
        prompt, response = _parted(line, mask)
    if response is None:
        raise Unusable("no_response_ids", f"none of {', '.join(RESPONSE)}, nor {WHOLE[0]} with {LENGTH[0]}")
    if mask is None:
        mask = _attention(line, response)
    own = _first(line, NAME)
    return make(
        response,
        _first(line, ROLLOUT),
        _first(line, TRAINER),
        prompt_ids=prompt if isinstance(prompt, list) else (),  # a prompt as text is no list of ids
        mask=mask,
        name=str(own)[:64] if isinstance(own, str | int) else name,
        unfiltered=_unfiltered(line),
    )


def _parted(line: dict[str, Any], mask: Any) -> tuple[Any, Any]:
    """Prompt and response out of one list."""
    whole, length = _first(line, WHOLE), _first(line, LENGTH)
    if length is None and isinstance(mask, list):
        length = len(mask)
    if not isinstance(whole, list) or not isinstance(length, int):
        return None, None
    if not 0 < length <= len(whole):
        raise Unusable("length_mismatch", f"a response of {length} in {len(whole)} tokens")
    return whole[:-length], whole[-length:]


def _attention(line: dict[str, Any], response: Any) -> Any:
    """The end of an attention mask over prompt and response tells where a padded response ends."""
    attention = line.get("attention_mask")
    if isinstance(attention, list) and isinstance(response, list) and len(attention) >= len(response) > 0:
        return attention[-len(response) :]
    return None


def _unfiltered(line: dict[str, Any]) -> bool | None:
    """Whether it was drawn at temperature 1 and without filters, as far as the line says; only a temperature of 1 says so."""
    inner = line.get("sampling_params")
    found = {**line, **inner} if isinstance(inner, dict) else line
    said = {name: found[name] for name in _NEUTRAL if isinstance(found.get(name), int | float)}
    if any(value not in _NEUTRAL[name] for name, value in said.items()):
        return False
    return True if "temperature" in said else None


def _first(line: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((line[name] for name in names if line.get(name) is not None), None)


def _nth(value: Any, number: int, of: int) -> Any:
    return value[number] if isinstance(value, list) and len(value) == of else value
