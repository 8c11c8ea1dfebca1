"""A toy engine: a deterministic language model of single characters behind the reference engine's HTTP shapes.

For tests of everything between a client and a verdict that need no real weights: it starts in a moment, its logits are a pure function of the
context and of its own settings, so a test can say exactly what two of them must disagree about. ``python -m tests.toy --help``.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import random
import struct
import sys
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

#: Ids: 0 end of turn, 1 start, then printable ASCII from 32.
END, START, FIRST = 0, 1, 2
VOCABULARY = [b"<|end|>", b"<|start|>", *(bytes([code]) for code in range(32, 127))]
LIMIT = 4096
MODEL = {"id": "toy", "object": "model", "owned_by": "parhelion", "max_model_len": LIMIT}


def encode(text: str) -> list[int]:
    """One id a character; what is not in the vocabulary becomes a question mark."""
    return [ord(one) - 32 + FIRST if 32 <= ord(one) < 127 else ord("?") - 32 + FIRST for one in text]


def decode(ids: list[int]) -> str:
    """The text of ids, special tokens left out."""
    return "".join(VOCABULARY[one].decode() for one in ids if one >= FIRST)


def _numbers(seed: bytes, count: int) -> list[float]:
    """``count`` numbers in [0, 1), a pure function of the seed."""
    out: list[float] = []
    block = 0
    while len(out) < count:
        digest = hashlib.blake2b(seed + struct.pack("<I", block)).digest()
        out += [value / 2**32 for value in struct.unpack("<16I", digest)]
        block += 1
    return out[:count]


@dataclass
class Toy:
    """Settings of one engine. ``noise``: size in nats of what its logits differ by from the common model; ``step``: its logits are multiples of this."""

    noise: float = 0.0
    seed: int = 0
    step: float = 0.0
    template: str = "<{role}>{content}"
    temperature: float = 1.0
    ids: bool = True
    silent: bool = False
    pause: float = 0.0
    key: str = ""
    dtype: str = "float32"
    version: str = "0"
    requests: list[dict[str, Any]] = field(default_factory=list)

    def logits(self, context: list[int]) -> list[float]:
        """The common model's logits for the next token, plus this engine's own deviation."""
        key = struct.pack(f"<{len(context[-6:])}H", *context[-6:])
        values = [8.0 * value for value in _numbers(key, len(VOCABULARY))]
        values[END] = 20.0 if len(context) % 41 == 40 else -5.0  # replies of up to 41 tokens, by the prompt's length
        values[START] = -20.0
        if self.noise:
            own = _numbers(key + struct.pack("<q", self.seed), len(VOCABULARY))
            values = [value + self.noise * (2 * other - 1) for value, other in zip(values, own, strict=True)]
        return [round(value / self.step) * self.step for value in values] if self.step else values

    def logprobs(self, context: list[int]) -> list[float]:
        """Log-softmax, in nats."""
        values = self.logits(context)
        top = max(values)
        total = math.log(sum(math.exp(value - top) for value in values)) + top
        return [value - total for value in values]

    def chat_ids(self, messages: list[dict[str, Any]]) -> list[int]:
        """The rendered prompt."""
        return [
            START,
            *(one for message in messages for one in encode(self.template.format(**message))),
            *encode("<assistant>"),
        ]

    def generate(self, prompt: list[int], body: dict[str, Any], choice: int) -> tuple[list[int], str]:
        """Ids and finish reason."""
        temperature = body.get("temperature", self.temperature)
        draw = random.Random(f"{body.get('seed', 0)}/{choice}")
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 16
        out: list[int] = []
        while len(out) < limit:
            row = self.logprobs(prompt + out)
            if temperature:
                chosen = draw.choices(range(len(row)), [math.exp(value / temperature) for value in row])[0]
            else:
                chosen = row.index(max(row))  # the first maximum: the lowest id
            out.append(chosen)
            if chosen == END:
                return out, "stop"
        return out, "length"


def _row(ids: list[float] | list[int], logprobs: list[float], chosen: int, top: int) -> dict[str, Any]:
    best = sorted(range(len(logprobs)), key=lambda one: (-logprobs[one], one))[:top]
    return _entry(chosen, logprobs) | {"top_logprobs": [_entry(one, logprobs) for one in best]}


def _entry(token: int, logprobs: list[float]) -> dict[str, Any]:
    return {"token": VOCABULARY[token].decode(), "logprob": logprobs[token], "bytes": list(VOCABULARY[token])}


class Server:
    """The HTTP side."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self.ill = ""

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 26, middlewares=[self._ailing])
        app.router.add_post("/ill/{how}", self.fall_ill)
        app.router.add_post("/become/{dtype}", self.become)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/version", self.version)
        app.router.add_get("/health", self.health)
        app.router.add_get("/server_info", self.info)
        app.router.add_post("/tokenize", self.tokenize)
        app.router.add_post("/detokenize", self.detokenize)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/completions", self.completions)
        return app

    async def fall_ill(self, request: web.Request) -> web.Response:
        """From now on every other route behaves so: hang, garbage, reset, cut, error, empty, or well."""
        self.ill = request.match_info["how"]
        return web.Response()

    async def become(self, request: web.Request) -> web.Response:
        """From now on it says so of itself: as if started again in the moment between two requests."""
        self.toy.dtype = request.match_info["dtype"]
        return web.Response()

    @web.middleware
    async def _ailing(self, request: web.Request, handler: Any) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        if self.toy.key and request.headers.get("Authorization") != f"Bearer {self.toy.key}":
            return web.json_response({"error": {"message": "Unauthorized", "type": "auth", "code": 401}}, status=401)
        match "" if request.path.startswith("/ill/") else self.ill:
            case "hang":
                await asyncio.sleep(3600)
            case "garbage":
                transport.write(b"\x00\xff not http at all\r\n\r\n")  # type: ignore[attr-defined]
                transport.close()
            case "reset":
                transport.abort()  # type: ignore[attr-defined]
            case "cut":
                transport.write(
                    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"choices": ['
                )  # type: ignore[attr-defined]
                transport.close()
            case "error":
                return web.Response(status=500, text="out of memory")
            case "empty":
                return web.json_response({"choices": []})
        return await handler(request)  # type: ignore[no-any-return]

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [MODEL]})

    async def version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self.toy.version, "engine": "parhelion-reference"})

    async def health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def info(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "engine": "parhelion-reference",
                "version": self.toy.version,
                "dtype": self.toy.dtype,
                "sampling_defaults": {"temperature": self.toy.temperature},
            }
        )

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        ids = self.toy.chat_ids(body["messages"]) if "messages" in body else encode(body["prompt"])
        return web.json_response({"tokens": ids, "count": len(ids), "max_model_len": LIMIT})

    async def detokenize(self, request: web.Request) -> web.Response:
        return web.json_response({"prompt": decode((await request.json())["tokens"])})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        if body is None or not isinstance(body.get("messages"), list):
            return _refuse("messages: a list is required")
        prompt = self.toy.chat_ids(body["messages"])
        return await self._answer(request, body, [prompt], chat=True)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        if body is None or "prompt" not in body:
            return _refuse("prompt: is required")
        prompt = body["prompt"]
        if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
            prompt = [prompt]
        return await self._answer(
            request, body, [encode(one) if isinstance(one, str) else one for one in prompt], chat=False
        )

    async def _body(self, request: web.Request) -> dict[str, Any] | None:
        try:
            body = json.loads(await request.read())
        except ValueError:
            return None
        if not isinstance(body, dict):
            return None
        self.toy.requests.append(body)
        return body

    async def _answer(
        self, request: web.Request, body: dict[str, Any], prompts: list[list[int]], *, chat: bool
    ) -> web.StreamResponse:
        if body.get("model") not in {None, "toy"}:
            return _refuse("model: not served here", 404)
        n = body.get("n") or 1
        choices = [
            self._choice(body, prompt, number, chat=chat)
            for number, prompt in enumerate(one for one in prompts for _ in range(n))
        ]
        usage = {
            "prompt_tokens": sum(len(prompt) for prompt in prompts),
            "completion_tokens": sum(len(choice["ids"]) for choice in choices),
        }
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        head = {"id": "toy-1", "object": "chat.completion" if chat else "text_completion", "created": 1, "model": "toy"}
        if chat:
            head["prompt_token_ids"] = (
                prompts[0] if body.get("return_token_ids") else None
            )  # null when not asked for, as vLLM has it
        if body.get("stream"):
            return await self._stream(request, body, head, choices, usage, chat=chat)
        whole = [self._whole(body, choice, chat=chat) for choice in choices]
        return web.json_response(head | {"choices": whole, "usage": usage})

    def _choice(self, body: dict[str, Any], prompt: list[int], number: int, *, chat: bool) -> dict[str, Any]:
        ids, reason = self.toy.generate(prompt, body, number)
        wanted = None if self.toy.silent else body.get("logprobs")
        top = (body.get("top_logprobs") or 0) if chat else (wanted or 0)
        rows = []
        if wanted or (wanted == 0 and not chat and wanted is not False):
            rows = [_row(ids, self.toy.logprobs(prompt + ids[:index]), token, top) for index, token in enumerate(ids)]
        scored = None
        if body.get("prompt_logprobs") is not None:
            scored = [None, *(self._scored(prompt, index, body["prompt_logprobs"]) for index in range(1, len(prompt)))]
        return {"index": number, "ids": ids, "reason": reason, "rows": rows, "prompt": prompt, "scored": scored}

    def _scored(self, prompt: list[int], index: int, top: int) -> dict[str, Any]:
        row = self.toy.logprobs(prompt[:index])
        order = sorted(range(len(row)), key=lambda one: (-row[one], one))
        shown = dict.fromkeys([prompt[index], *order[:top]])
        return {
            str(one): {"logprob": row[one], "rank": order.index(one) + 1, "decoded_token": VOCABULARY[one].decode()}
            for one in shown
        }

    def _logprobs(
        self, body: dict[str, Any], choice: dict[str, Any], part: slice, *, chat: bool
    ) -> dict[str, Any] | None:
        rows, ids = choice["rows"][part], choice["ids"][part]
        if not rows:
            return None
        if chat:
            return {"content": rows}
        named = bool(body.get("return_tokens_as_token_ids"))

        def label(entry: dict[str, Any]) -> str:
            return f"token_id:{VOCABULARY.index(bytes(entry['bytes']))}" if named else str(entry["token"])

        return {
            "tokens": [f"token_id:{one}" if named else VOCABULARY[one].decode() for one in ids],
            "token_logprobs": [row["logprob"] for row in rows],
            "top_logprobs": [{label(one): one["logprob"] for one in row["top_logprobs"]} for row in rows],
            "text_offset": [0] * len(rows),
        }

    def _whole(self, body: dict[str, Any], choice: dict[str, Any], *, chat: bool) -> dict[str, Any]:
        text = decode(choice["ids"])
        out = {
            "index": choice["index"],
            "finish_reason": choice["reason"],
            "logprobs": self._logprobs(body, choice, slice(None), chat=chat),
        }
        out |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        out |= self._ids(body, choice, choice["ids"], chat=chat, first=True)
        if choice["scored"] is not None:
            out["prompt_logprobs"] = choice["scored"]
        return out

    def _ids(
        self, body: dict[str, Any], choice: dict[str, Any], ids: list[int], *, chat: bool, first: bool
    ) -> dict[str, Any]:
        asked = body.get("return_token_ids") and self.toy.ids
        out: dict[str, Any] = {"token_ids": ids if asked else None}
        if not chat and first:
            out["prompt_token_ids"] = choice["prompt"] if asked else None
        return out

    async def _stream(
        self,
        request: web.Request,
        body: dict[str, Any],
        head: dict[str, Any],
        choices: list[dict[str, Any]],
        usage: dict[str, Any],
        *,
        chat: bool,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        head = head | {"object": "chat.completion.chunk" if chat else "text_completion"}

        async def send(event: dict[str, Any]) -> None:
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")

        if chat:
            role = {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}
            await send(head | {"choices": [{"index": one["index"]} | role for one in choices]})
        head.pop("prompt_token_ids", None)
        for choice in choices:
            for position, token in enumerate(choice["ids"]):
                last = position == len(choice["ids"]) - 1
                text = decode([token])
                piece: dict[str, Any] = {"index": choice["index"], "finish_reason": choice["reason"] if last else None}
                piece["logprobs"] = self._logprobs(body, choice, slice(position, position + 1), chat=chat)
                piece |= {"delta": {"content": text}} if chat else {"text": text}
                piece |= self._ids(body, choice, [token], chat=chat, first=position == 0)
                await send(head | {"choices": [piece]})
                await asyncio.sleep(self.toy.pause)
        if (body.get("stream_options") or {}).get("include_usage"):
            await send(head | {"choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _refuse(message: str, status: int = 400) -> web.Response:
    return web.json_response(
        {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}, status=status
    )


def main(made: Any = None) -> None:
    """Serve one toy on a free loopback port; its URL is the first line of output. ``made``: what makes its application, where not ``Server`` alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", type=float, default=0.0)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--template", default="<{role}>{content}")
    parser.add_argument("--pause", type=float, default=0.0)  # after each streamed token, in seconds
    parser.add_argument("--key", default="")
    parser.add_argument("--dtype", default="float32")  # what it says of itself
    parser.add_argument("--version", default="0")
    parser.add_argument("--port", type=int, default=0)  # one that an earlier engine has had
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--no-ids", dest="ids", action="store_false")
    options = vars(parser.parse_args())
    port = options.pop("port")
    toy = Toy(**options)

    async def serve() -> None:
        runner = web.AppRunner(made(toy) if made else Server(toy).application(), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
