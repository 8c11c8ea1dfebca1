"""OpenAI's own Python client: ``python openai_python.py MODEL FEATURE,FEATURE,... URL [URL ...]``.

Prints a JSON list, for each URL an object of one result a feature: what the client hands to its caller.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from typing import Any

from openai import AsyncOpenAI, BadRequestError, OpenAI
from pydantic import BaseModel, Field

QUESTION = [{"role": "user", "content": "Name three things a lighthouse keeper does on a foggy night."}]
PET = [{"role": "user", "content": "A cat called Tom of 3 years, as JSON."}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
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
FORCED = {"type": "function", "function": {"name": "get_weather"}}


class Pet(BaseModel):
    """What structured output is asked for."""

    name: str = Field(max_length=12)
    age: int = Field(le=99)


class Client:
    """One base URL; each public method is a feature."""

    def __init__(self, url: str, model: str) -> None:
        self._options: dict[str, Any] = {
            "base_url": f"{url}/v1",
            "api_key": "canary-key",
            "timeout": 120.0,
            "max_retries": 0,
        }
        self._client = OpenAI(**self._options)
        self._greedy: dict[str, Any] = {"model": model, "temperature": 0}

    def models(self) -> Any:
        return [model.id for model in self._client.models.list()]

    def chat(self) -> Any:
        return plain(
            self._client.chat.completions.create(
                **self._greedy, messages=QUESTION, max_tokens=12, logprobs=True, top_logprobs=3
            )
        )

    def choices(self) -> Any:
        """Two choices, drawn with a seed: the one call that is not greedy."""
        sampled = self._greedy | {"temperature": 0.8, "seed": 7}
        return plain(self._client.chat.completions.create(**sampled, messages=QUESTION, max_tokens=8, n=2))

    def stream(self) -> Any:
        chunks = self._client.chat.completions.create(
            **self._greedy,
            messages=QUESTION,
            max_tokens=12,
            stream=True,
            stream_options={"include_usage": True},
            logprobs=True,
            top_logprobs=2,
        )
        return whole(chunks)

    def events(self) -> Any:
        """The helper that builds a message from a stream."""
        with self._client.chat.completions.stream(
            **self._greedy, messages=PET, max_tokens=32, response_format=Pet
        ) as stream:
            kinds = [event.type for event in stream]
            return {"kinds": kinds, "final": plain(stream.get_final_completion())}

    def left(self) -> Any:
        """Only the first chunks of a stream are taken, then the connection is closed."""
        with self._client.chat.completions.create(
            **self._greedy, messages=QUESTION, max_tokens=48, stream=True
        ) as stream:
            return [plain(chunk) for chunk, _ in zip(stream, range(3), strict=False)]

    def structured(self) -> Any:
        reply = self._client.chat.completions.parse(**self._greedy, messages=PET, max_tokens=48, response_format=Pet)
        assert reply.choices[0].message.parsed is not None
        return plain(reply)

    def tools(self) -> Any:
        reply = self._client.chat.completions.create(
            **self._greedy, messages=WEATHER, max_tokens=64, tools=[TOOL], tool_choice=FORCED
        )
        assert reply.choices[0].message.tool_calls[0].function.name == "get_weather"
        return plain(reply)

    def tools_stream(self) -> Any:
        chunks = whole(
            self._client.chat.completions.create(
                **self._greedy, messages=WEATHER, max_tokens=64, tools=[TOOL], tool_choice=FORCED, stream=True
            )
        )
        assert any(choice["delta"].get("tool_calls") for chunk in chunks for choice in chunk["choices"])
        return chunks

    def tools_answered(self) -> Any:
        """A conversation in which a call has been answered."""
        call = {
            "id": "call_0",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
        }
        messages = [
            *WEATHER,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_0", "content": "18 °C, sunny"},
        ]
        return plain(self._client.chat.completions.create(**self._greedy, messages=messages, max_tokens=12))

    def completions(self) -> Any:
        return plain(
            self._client.completions.create(
                **self._greedy, prompt=["The capital of France is", "Ice floats because"], max_tokens=8, logprobs=2
            )
        )

    def embeddings(self) -> Any:
        """Twice: this client asks for base64 by itself, then plain numbers."""
        common: dict[str, Any] = {"model": self._greedy["model"], "input": ["a cat", "ein Haus, 日本語 🌞"]}
        replies = [
            self._client.embeddings.create(**common),
            self._client.embeddings.create(**common, encoding_format="float"),
        ]
        assert len(replies[0].data[1].embedding) > 100
        return [plain(reply) for reply in replies]

    def responses(self) -> Any:
        return plain(
            self._client.responses.create(**self._greedy, input="Name one thing that floats.", max_output_tokens=8)
        )

    def responses_stream(self) -> Any:
        events = whole(
            self._client.responses.create(
                **self._greedy, input="Name one thing that floats.", max_output_tokens=8, stream=True
            )
        )
        assert events[-1]["type"] in {"response.completed", "response.incomplete"}
        return events

    def refused(self) -> Any:
        """A bad request raises the client's own exception, with the engine's words in it."""
        try:
            self._client.chat.completions.create(**self._greedy, messages="not a list")  # type: ignore[arg-type]
        except BadRequestError as error:
            return {"status": error.status_code, "body": error.body, "type": error.response.headers["content-type"]}
        raise AssertionError("the engine took it")

    def together(self) -> Any:
        """Four at once over one client's connections."""

        async def ask() -> list[Any]:
            async with AsyncOpenAI(**self._options) as client:
                return await asyncio.gather(
                    *(
                        client.completions.create(**self._greedy, prompt=f"{number} and {number} make", max_tokens=6)
                        for number in range(4)
                    )
                )

        return [reply.choices[0].text for reply in asyncio.run(ask())]


def plain(value: BaseModel) -> Any:
    """A reply as JSON, fields that the client does not know included."""
    return json.loads(value.model_dump_json(exclude_unset=True))


def whole(stream: Iterable[BaseModel]) -> list[Any]:
    return [plain(one) for one in stream]


def main(model: str, features: str, *urls: str) -> None:
    print(
        json.dumps(
            [
                {name: getattr(client, name)() for name in features.split(",")}
                for client in (Client(u, model) for u in urls)
            ]
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
