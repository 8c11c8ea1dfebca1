"""LangChain's chat model and embeddings for OpenAI: ``python langchain_client.py MODEL FEATURE,FEATURE,... URL [URL ...]``.

Prints a JSON list, for each URL an object of one result a feature: what LangChain hands to its caller.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field

MESSAGES = [SystemMessage("You keep answers short."), HumanMessage("Why do cats purr?")]


class Pet(BaseModel):
    """A pet."""

    name: str = Field(max_length=12)
    age: int = Field(le=99)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"18 °C and sunny in {city}"


class Client:
    """One base URL; each public method is a feature."""

    def __init__(self, url: str, model: str) -> None:
        self._common: dict[str, Any] = {
            "model": model,
            "base_url": f"{url}/v1",
            "api_key": "canary-key",
            "timeout": 120.0,
            "max_retries": 0,
        }

    def _chat(self, most: int) -> ChatOpenAI:
        return ChatOpenAI(**self._common, temperature=0, max_tokens=most)

    def invoke(self) -> Any:
        return self._chat(10).invoke(MESSAGES, logprobs=True, top_logprobs=2).model_dump()

    def stream(self) -> Any:
        return [chunk.model_dump() for chunk in self._chat(10).stream(MESSAGES, stream_usage=True)]

    def batch(self) -> Any:
        prompts = [f"{number} and {number} make" for number in range(3)]
        return [message.content for message in self._chat(6).batch(prompts)]

    def asynchronous(self) -> Any:
        async def ask() -> list[str]:
            return [str(chunk.content) async for chunk in self._chat(8).astream(MESSAGES)]

        return asyncio.run(ask())

    def tools(self) -> Any:
        """A forced call, then the conversation with its answer."""
        bound = self._chat(64).bind_tools([get_weather], tool_choice="get_weather", strict=True)
        reply = bound.invoke("What is the weather in Paris?")
        assert isinstance(reply, AIMessage)
        assert reply.tool_calls[0]["name"] == "get_weather"
        call = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_0", "type": "tool_call"}
        answered = [
            HumanMessage("What is the weather in Paris?"),
            AIMessage("", tool_calls=[call]),
            ToolMessage(get_weather.invoke({"city": "Paris"}), tool_call_id="call_0"),
        ]
        return [reply.model_dump(), self._chat(12).invoke(answered).model_dump()]

    def structured(self) -> Any:
        structured = self._chat(48).with_structured_output(Pet, method="json_schema", include_raw=True)
        reply: Any = structured.invoke("A cat called Tom of 3 years, as JSON.")
        assert isinstance(reply["parsed"], Pet)
        return {"pet": reply["parsed"].model_dump(), "raw": reply["raw"].model_dump()}

    def embeddings(self) -> Any:
        # check_embedding_ctx_length cuts texts with a tokenizer that would have to be downloaded.
        model = OpenAIEmbeddings(**self._common, check_embedding_ctx_length=False)
        return [model.embed_documents(["a cat", "ein Haus, 日本語 🌞"]), model.embed_query("a cat")]


def main(model: str, features: str, *urls: str) -> None:
    clients = (Client(url, model) for url in urls)
    results = [{name: getattr(client, name)() for name in features.split(",")} for client in clients]
    print(json.dumps(results, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
