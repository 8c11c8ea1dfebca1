"""The routes and the worker without a model: what a client sees when things go wrong inside."""

import asyncio
import contextlib
import json
import threading
from types import MappingProxyType

import aiohttp
import pytest
from aiohttp import web

from engines.reference import worker as worker_module
from engines.reference.generate import AbandonedError
from engines.reference.protocol import Bounds
from engines.reference.refusal import RefusalError
from engines.reference.routes import Engine, application
from engines.reference.sampling import Sampling
from engines.reference.tokens import TokenTable
from engines.reference.work import Generation, PromptRead, Step
from engines.reference.worker import ModelError, Worker

WANTED = Generation(max_tokens=3, sampling=Sampling())
EVENTS = [PromptRead(0, None), Step(0, 0, None, "a"), Step(0, 1, None, "b", 1, "length")]


class Tokenizer:
    """Letters are tokens."""

    chat_template = "{{ messages }}"

    def __call__(self, text, *, add_special_tokens):
        return {"input_ids": [ord(letter) for letter in text]}

    def apply_chat_template(self, messages, **arguments):
        raise ValueError("secret words of a template")


class Loaded:
    """What routes need of a loaded model."""

    tokenizer = Tokenizer()
    table = TokenTable((b"a", b"b"), frozenset())
    name = "small"
    facts = MappingProxyType({"engine": "parhelion-reference", "model": "somewhere"})


def serving(monkeypatch, script, use):
    """Serve ``script(job prompts, cancelled)`` as the model's events and let ``use(session, url)`` ask."""

    async def inside():
        monkeypatch.setattr(worker_module, "run", lambda loaded, prompts, wanted, cancelled: script(prompts, cancelled))
        worker = Worker(lambda: Loaded)
        loaded = await worker.start()
        engine = Engine(loaded, worker, Bounds(5, 1000, 100, Sampling()), "f", 1)
        runner = web.AppRunner(application(engine), handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            async with aiohttp.ClientSession() as session:
                return await use(session, f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()
            await worker.close()

    return asyncio.run(inside())


def broken(prompts, cancelled):
    yield from EVENTS[:2]
    raise RuntimeError("secret prompt words in an exception")


def test_a_failing_model_is_500_without_a_trace(monkeypatch):
    async def use(session, url):
        async with session.post(f"{url}/v1/completions", json={"prompt": "a"}) as answer:
            body = await answer.json()
        async with session.get(f"{url}/health") as health:
            return answer.status, body, health.status, "Server" in answer.headers

    status, body, health, banner = serving(monkeypatch, broken, use)
    assert (status, body["error"]["type"], health, banner) == (500, "InternalServerError", 200, False)
    assert "secret" not in json.dumps(body)


def test_a_model_that_fails_in_a_stream_says_so_inside_it(monkeypatch):
    async def use(session, url):
        async with session.post(f"{url}/v1/completions", json={"prompt": "a", "stream": True}) as answer:
            return answer.status, await answer.text()

    status, text = serving(monkeypatch, broken, use)
    assert status == 200
    events = text.split("\n\n")
    assert json.loads(events[0].removeprefix("data: "))["choices"][0]["text"] == "a"
    assert json.loads(events[-3].removeprefix("data: "))["error"]["code"] == 500
    assert events[-2] == "data: [DONE]"
    assert "secret" not in text


def test_a_template_that_refuses_is_400_without_its_words(monkeypatch):
    async def use(session, url):
        async with session.post(
            f"{url}/v1/chat/completions", json={"messages": [{"role": "user", "content": "hidden"}]}
        ) as answer:
            return answer.status, await answer.text()

    status, text = serving(monkeypatch, broken, use)
    assert status == 400
    assert "ValueError" in text
    assert "secret" not in text
    assert "hidden" not in text


def test_a_client_that_leaves_is_noticed(monkeypatch):
    left = threading.Event()

    def endless(prompts, cancelled):
        yield EVENTS[0]
        while True:
            yield Step(0, 0, None, "a")
            if cancelled():
                left.set()
                raise AbandonedError
            left.wait(0.01)

    async def use(session, url):
        answer = await session.post(f"{url}/v1/completions", json={"prompt": "a", "stream": True})
        await answer.content.readline()
        answer.close()
        return await asyncio.to_thread(left.wait, 10)

    assert serving(monkeypatch, endless, use)


@pytest.mark.parametrize("stream", [True, False])
def test_an_ordinary_reply(monkeypatch, stream):
    async def use(session, url):
        async with session.post(f"{url}/v1/completions", json={"prompt": "a", "stream": stream}) as answer:
            return answer.headers["content-type"], await answer.text()

    kind, text = serving(monkeypatch, lambda prompts, cancelled: iter(EVENTS), use)
    assert kind.startswith("text/event-stream" if stream else "application/json")
    assert text.count('"finish_reason":"length"') == 1


def collect(worker, **fields):
    async def inside():
        await worker.start()
        try:
            return [event async for event in worker.events(((1,),), WANTED)]
        finally:
            await worker.close()

    return asyncio.run(inside())


def test_a_worker_goes_on_after_a_failure(monkeypatch):
    scripts = iter([broken, lambda prompts, cancelled: iter(EVENTS)])
    monkeypatch.setattr(
        worker_module, "run", lambda loaded, prompts, wanted, cancelled: next(scripts)(prompts, cancelled)
    )

    async def inside():
        worker = Worker(lambda: Loaded)
        await worker.start()
        try:
            with pytest.raises(ModelError):
                async for _ in worker.events(((1,),), WANTED):
                    pass
            return [event async for event in worker.events(((1,),), WANTED)]
        finally:
            await worker.close()

    assert asyncio.run(inside()) == EVENTS


def test_what_loading_raises_is_raised(monkeypatch):
    def fail():
        raise OSError("no weights")

    with pytest.raises(OSError, match="no weights"):
        collect(Worker(fail))


def test_too_many_waiting_are_told_to_come_back(monkeypatch):
    monkeypatch.setattr(worker_module, "MAX_WAITING", 0)
    monkeypatch.setattr(worker_module, "run", lambda *_: iter(EVENTS))
    with pytest.raises(RefusalError) as caught:
        collect(Worker(lambda: Loaded))
    assert caught.value.status == 503


def test_closing_ends_the_work_under_way(monkeypatch):
    def endless(loaded, prompts, wanted, cancelled):
        while True:
            if cancelled():
                raise AbandonedError
            yield EVENTS[0]
            threading.Event().wait(0.01)

    monkeypatch.setattr(worker_module, "run", endless)

    async def inside():
        worker = Worker(lambda: Loaded)
        await worker.start()
        events = worker.events(((1,),), WANTED)
        await anext(events)
        await worker.close()
        with contextlib.suppress(ModelError):
            while True:
                await anext(events)
        return worker.alive

    assert asyncio.run(inside()) is False
