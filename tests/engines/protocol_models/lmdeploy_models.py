"""LMDeploy's own protocol, run by the Python that has it: checks requests, makes replies.

Real are the request and response models, the checks of each route, and the functions that make rows of what the engine hands over.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace

from stand_ins import serve, stand_in

_OPENAI = "lmdeploy.serve.openai."
stand_in(
    "lmdeploy",
    {
        f"{_OPENAI}protocol",
        f"{_OPENAI}chat_completions.logprobs",
        f"{_OPENAI}chat_completions.validation",
        f"{_OPENAI}endpoints.completions",
        f"{_OPENAI}endpoints.generate",
    },
    {"fastapi"},
)

from lmdeploy.messages import PytorchEngineConfig  # noqa: E402 - after the stand-ins
from lmdeploy.pytorch.disagg.config import EngineRole  # noqa: E402
from lmdeploy.serve.openai import protocol  # noqa: E402
from lmdeploy.serve.openai.chat_completions import logprobs as chat_logprobs  # noqa: E402
from lmdeploy.serve.openai.chat_completions import validation  # noqa: E402
from lmdeploy.serve.openai.endpoints import completions, generate  # noqa: E402

_CHECKS = {
    "ChatCompletionRequest": validation.check_request,
    "CompletionRequest": completions.check_request,
    "GenerateReqInput": generate.check_request,
}


def _server(engine, mode):
    """As much of a server as checks look at: an engine of the kind, started with a logprobs mode or without."""
    config = SimpleNamespace()
    if engine == "pytorch":
        config = PytorchEngineConfig()
        config.logprobs_mode, config.role = mode, EngineRole.Hybrid
    return SimpleNamespace(
        engine_config=config,
        session_manager=SimpleNamespace(has=lambda _: False),
        async_engine=SimpleNamespace(speculative_config=None),
        response_parser_cls=None,
    )


def accept(model, body, engine="pytorch", mode="raw_logprobs"):
    """Validate and check a request: the fields it does not know, what it makes of those it does, why it is refused."""
    known = getattr(protocol, model)
    made = known.model_validate(copy.deepcopy(body))
    check = _CHECKS.get(model)
    return {
        "ignored": sorted(set(body) - set(known.model_fields)),
        "value": made.model_dump(mode="json", include=set(body)),
        "refused": check(made, _server(engine, mode)) if check else "",
    }


class _Tokenizer:
    def __init__(self, vocabulary):
        self.vocabulary = {int(known): piece for known, piece in vocabulary.items()}

    def convert_ids_to_tokens(self, known):
        return self.vocabulary[known]


def _maps(maps):
    """What the engine hands over: for each position a map from id to value."""
    return [{int(known): value for known, value in one.items()} for one in maps]


def _choice(step, vocabulary):
    """The fields of one step (or of a whole reply): rows, pairs and ids as far as they are asked for."""
    ids, maps = step["ids"], _maps(step["maps"])
    asked = step.get("asked", ["logprobs", "return_token_ids"])
    made = chat_logprobs._create_chat_completion_logprobs(_Tokenizer(vocabulary), ids, maps)
    return {
        "logprobs": made if "logprobs" in asked else None,
        "output_token_logprobs": chat_logprobs._create_output_token_logprobs(ids, maps)
        if "return_logprob" in asked
        else None,
        "output_ids": ids if "return_token_ids" in asked else None,
    }


def chat(message, step, vocabulary, usage, finish_reason="stop"):
    """Dump a whole chat, every field of it."""
    made = protocol.ChatCompletionResponseChoice(
        index=0,
        message=protocol.ChatMessage(role="assistant", **message),
        finish_reason=finish_reason,
        **_choice(step, vocabulary),
    )
    reply = protocol.ChatCompletionResponse(model="m", choices=[made], usage=protocol.UsageInfo.build(**usage))
    return reply.model_dump_json()


def chat_stream(events, vocabulary, usage):
    """Dump a chat's stream without what is null; an event that is not the last delta of its step has neither rows nor ids."""
    lines = []
    for event in events:
        made = protocol.ChatCompletionResponseStreamChoice(
            index=0,
            delta=protocol.DeltaMessage(role="assistant", **event["delta"]),
            finish_reason=event.get("finish_reason"),
            **(_choice(event["step"], vocabulary) if "step" in event else {}),
        )
        lines.append(protocol.ChatCompletionStreamResponse(model="m", choices=[made]))
    lines.append(protocol.ChatCompletionStreamResponse(model="m", choices=[], usage=protocol.UsageInfo.build(**usage)))
    return "".join(f"data: {one.model_dump_json(exclude_none=True)}\n\n" for one in lines) + "data: [DONE]\n\n"


def scores(ids, maps, top):
    """Dump what ``/generate`` answers when it is asked to score its input."""
    rows = _maps(maps)
    meta = protocol.GenerateReqMetaOutput(
        prompt_tokens=len(ids),
        completion_tokens=0,
        finish_reason={"type": "length"},
        input_token_logprobs=generate._create_token_logprobs(ids, rows),
        input_top_logprobs=generate._create_top_logprobs(ids, rows, top) if top else None,
    )
    return protocol.GenerateReqOutput(text="", output_ids=[], meta_info=meta).model_dump_json()


def dump(model, fields):
    """Dump any other model."""
    return getattr(protocol, model)(**fields).model_dump_json()


serve({"accept": accept, "chat": chat, "chat_stream": chat_stream, "scores": scores, "dump": dump})
