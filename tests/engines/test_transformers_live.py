"""``transformers serve`` itself: what it is found to be, and that it answers what we make of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.capabilities import Level
from engines.dialect import Call, Endpoint
from engines.http_fetch import connect
from engines.probe import probe
from engines.process import free_port, start
from engines.registry import dialect

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(600)]

PATH = "/v1/chat/completions"
BODY = {
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "temperature": 0,
    "max_completion_tokens": 4,
    "frequency_penalty": 0,
    "logprobs": True,
    "top_logprobs": 3,
    "return_token_ids": True,
}


@pytest.fixture(scope="module")
def serve(
    engine_interpreter: str, smollm2_directories: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Its base URL, and the name of the model it was started with."""
    model, port = str(smollm2_directories["fp32"]), free_port()
    command = [engine_interpreter, str(Path(engine_interpreter).parent / "transformers"), "serve", model]
    command += ["--dtype", "float32", "--device", "cpu", "--port", str(port), "--log-level", "warning"]
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    log = tmp_path_factory.mktemp("serve") / "serve.log"
    with start("transformers serve", command, url=f"http://127.0.0.1:{port}", log=log, environment=quiet) as engine:
        yield engine.wait_ready(400, path="/health").url, model


def test_what_it_is(serve: tuple[str, str]) -> None:
    url, model = serve

    async def main() -> None:
        async with connect(url, timeout=240) as fetch:
            found = await probe(fetch, dialect("transformers"), model)
            assert found.capabilities.level is Level.TEXT
            assert [one.finding for one in found.findings] == ["no_logprobs"]
            assert found.footprint.value("engine") == "transformers"

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_it_refuses_what_others_take_and_answers_what_we_make_of_it(serve: tuple[str, str], stream: bool) -> None:
    url, model = serve
    speak = dialect("transformers")
    body = BODY | {"model": model, "stream": stream}

    async def main() -> None:
        async with connect(url, timeout=240) as fetch:
            assert (await fetch(Call(PATH, body))).status == 422
            asked = speak.ask(Endpoint.CHAT, body, 20)
            reply = speak.read(Endpoint.CHAT, asked, await fetch(Call(PATH, asked)))
            assert reply.error is None
            [choice] = reply.choices
            assert choice.text.strip().startswith("The capital of France"[: len(choice.text.strip())])
            assert choice.text.strip()
            assert (reply.completion_tokens, choice.finish_reason) == (4, "length")  # the bound under its own name
            assert choice.tokens == () or not any(token.id for token in choice.tokens)

    asyncio.run(main())
