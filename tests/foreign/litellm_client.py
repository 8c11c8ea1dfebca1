"""LiteLLM's client library: ``python litellm_client.py MODEL FEATURE,FEATURE,... URL [URL ...]``.

Prints a JSON list, for each URL an object of one result a feature: what LiteLLM hands to its caller.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is downloaded at import

import litellm

QUESTION = [{"role": "user", "content": "Name three things a lighthouse keeper does on a foggy night."}]
PET = [{"role": "user", "content": "A cat called Tom of 3 years, as JSON."}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
PET_FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "pet",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
            "required": ["name", "age"],
            "additionalProperties": False,
        },
    },
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 16}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


class Client:
    """One base URL; each public method is a feature."""

    def __init__(self, url: str, model: str) -> None:
        self._common: dict[str, Any] = {
            "api_base": f"{url}/v1",
            "api_key": "canary-key",
            "timeout": 120.0,
            "max_retries": 0,
        }
        self._greedy = self._common | {"model": f"openai/{model}", "temperature": 0}
        self._model = model

    def chat(self) -> Any:
        return plain(
            litellm.completion(**self._greedy, messages=QUESTION, max_tokens=10, logprobs=True, top_logprobs=3)
        )

    def stream(self) -> Any:
        """The chunks, and what LiteLLM builds of them."""
        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(litellm.completion(**self._greedy, messages=QUESTION, max_tokens=10, **options))
        return [*map(plain, chunks), plain(litellm.stream_chunk_builder(chunks, messages=QUESTION))]

    def asynchronous(self) -> Any:
        async def ask() -> list[Any]:
            asked = [litellm.acompletion(**self._greedy, messages=PET, max_tokens=6) for _ in range(3)]
            return [plain(reply) for reply in await asyncio.gather(*asked)]

        return asyncio.run(ask())

    def completions(self) -> Any:
        model = {"model": f"text-completion-openai/{self._model}"}
        return plain(litellm.text_completion(**(self._greedy | model), prompt="Ice floats because", max_tokens=8))

    def structured(self) -> Any:
        reply = litellm.completion(**self._greedy, messages=PET, max_tokens=48, response_format=PET_FORMAT)
        assert json.loads(reply.choices[0].message.content).keys() == {"name", "age"}
        return plain(reply)

    def tools(self) -> Any:
        choice = {"type": "function", "function": {"name": "get_weather"}}
        reply = litellm.completion(**self._greedy, messages=WEATHER, max_tokens=64, tools=[TOOL], tool_choice=choice)
        assert reply.choices[0].message.tool_calls[0].function.name == "get_weather"
        return plain(reply)

    def embeddings(self) -> Any:
        reply = litellm.embedding(
            **self._common,
            model=f"openai/{self._model}",
            input=["a cat", "ein Haus, 日本語 🌞"],
            encoding_format="float",
        )
        return plain(reply)

    def refused(self) -> Any:
        """A bad request raises LiteLLM's own exception."""
        try:
            litellm.completion(**self._greedy, messages=QUESTION, max_tokens=4, top_p=7)
        except litellm.BadRequestError as error:
            return {"status": error.status_code, "message": str(error)}
        raise AssertionError("the engine took it")


def plain(reply: Any) -> Any:
    return json.loads(reply.model_dump_json())


def main(model: str, features: str, *urls: str) -> None:
    clients = (Client(url, model) for url in urls)
    print(json.dumps([{name: getattr(client, name)() for name in features.split(",")} for client in clients]))


if __name__ == "__main__":
    main(*sys.argv[1:])
