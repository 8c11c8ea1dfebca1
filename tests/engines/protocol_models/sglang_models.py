"""SGLang's own protocol, run by the Python that has it: accepts requests, makes replies.

Real are the request and response models, the sampling parameters, and the functions that make rows of what the scheduler hands over.
"""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace

import msgspec
from stand_ins import StandIn, serve, stand_in

stand_in(
    "sglang",
    {
        "sglang.utils",
        "sglang.version",
        "sglang.srt.environ",
        "sglang.srt.entrypoints.openai.protocol",
        "sglang.srt.entrypoints.openai.serving_base",
        "sglang.srt.entrypoints.openai.serving_chat",
        "sglang.srt.entrypoints.openai.sse_utils",
        "sglang.srt.entrypoints.openai.utils",
        "sglang.srt.managers.io_struct",
        "sglang.srt.sampling.sampling_params",
        "sglang.srt.utils.field_validators",
        "sglang.srt.utils.msgspec_utils",
    },
    {"PIL", "fastapi", "jinja2", "jsonschema", "orjson", "torch", "transformers", "zmq"},
)
# The coders of the messages between SGLang's processes cannot be made of stand-ins, and are not used here.
msgspec.msgpack.Decoder = msgspec.msgpack.Encoder = StandIn

from pydantic import TypeAdapter  # noqa: E402 - after the stand-ins
from sglang.srt.entrypoints.openai import protocol  # noqa: E402
from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat  # noqa: E402
from sglang.srt.entrypoints.openai.sse_utils import build_sse_content  # noqa: E402
from sglang.srt.entrypoints.openai.utils import to_openai_style_logprobs  # noqa: E402
from sglang.srt.managers.io_struct import GenerateReqInput  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402

#: SGLang remembers tokenizers by their address: none may be made where another one was.
_MADE = []


def accept(model, body):
    """Validate a request: the fields it does not know, and what it makes of those it does."""
    if model == "GenerateReqInput":
        return _accept_generate(body)
    known = getattr(protocol, model)
    made = known.model_validate(copy.deepcopy(body))
    ignored = set(body) - set(known.model_fields)
    if model == "TokenizeRequest" and body.get("messages") is not None:  # hands what it does not know on to a chat
        made.to_chat_completion_request()
        ignored -= set(protocol.ChatCompletionRequest.model_fields)
    return {"ignored": sorted(ignored), "value": made.model_dump(mode="json", include=set(body))}


def _accept_generate(body):
    made = TypeAdapter(GenerateReqInput).validate_python(copy.deepcopy(body))
    made.normalize_batch_and_arguments()
    params = SamplingParams(**made.sampling_params)
    params.normalize(None)
    params.verify(50_000)
    known = {field.name for field in dataclasses.fields(GenerateReqInput)}
    return {
        "ignored": sorted(set(body) - known),
        "value": {name: getattr(made, name) for name in body if name in known},
        "greedy": params.top_k == 1,
        "max_new_tokens": params.max_new_tokens,
    }


class _Tokenizer:
    """As much of a tokenizer as rows are made with: pieces by id."""

    def __init__(self, vocabulary, is_byte_level):
        self.vocabulary, self.is_byte_level = {int(known): piece for known, piece in vocabulary.items()}, is_byte_level

    def convert_ids_to_tokens(self, known):
        return self.vocabulary[known]


def _tokenizer(vocabulary, is_byte_level=True):
    made = _Tokenizer(vocabulary, is_byte_level)
    _MADE.append(made)
    return made


def _rows(rows, tops, vocabulary, is_byte_level=True):
    tokenizer = _tokenizer(vocabulary, is_byte_level)
    server = SimpleNamespace(tokenizer_manager=SimpleNamespace(tokenizer=tokenizer))
    return protocol.ChoiceLogprobs(content=OpenAIServingChat._build_token_logprobs_from_raw(server, rows, tops))


def chat(message, rows, tops, vocabulary, usage, is_byte_level=True, **choice):
    """Dump a whole chat."""
    made = protocol.ChatCompletionResponseChoice(
        index=0,
        message=protocol.ChatMessage(role="assistant", **message),
        logprobs=None if rows is None else _rows(rows, tops, vocabulary, is_byte_level),
        **choice,
    )
    reply = protocol.ChatCompletionResponse(id="1", model="m", choices=[made], usage=protocol.UsageInfo(**usage))
    return reply.model_dump_json()


def chat_stream(events, vocabulary, usage):
    """Dump a chat's stream; an event without rows has null for them."""
    lines = []
    for event in events:
        rows, tops = event.pop("rows", None), event.pop("tops", None)
        logprobs = None if rows is None else _rows(rows, tops, vocabulary).model_dump()
        lines.append(build_sse_content("1", 1, "m", 0, logprobs=logprobs, **event))
    last = protocol.ChatCompletionStreamResponse(id="1", model="m", choices=[], usage=protocol.UsageInfo(**usage))
    return "".join(lines) + f"data: {last.model_dump_json()}\n\ndata: [DONE]\n\n"


def completion(text, rows, tops, vocabulary, usage, **choice):
    """Dump a whole completion."""
    logprobs = to_openai_style_logprobs(
        output_token_logprobs=rows, output_top_logprobs=tops, tokenizer=_tokenizer(vocabulary)
    )
    made = protocol.CompletionResponseChoice(index=0, text=text, logprobs=logprobs, **choice)
    reply = protocol.CompletionResponse(id="1", model="m", choices=[made], usage=protocol.UsageInfo(**usage))
    return reply.model_dump_json()


def dump(model, fields):
    """Dump any other model."""
    return getattr(protocol, model)(**fields).model_dump_json()


serve({"accept": accept, "chat": chat, "chat_stream": chat_stream, "completion": completion, "dump": dump})
