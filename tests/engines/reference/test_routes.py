"""The routes and the worker without a model: what a client sees when things go wrong inside."""

import asyncio
import contextlib
import io
import json
import threading
from types import MappingProxyType

import aiohttp
import numpy as np
import pytest
from aiohttp import web

from engines.reference import worker as worker_module
from engines.reference.generate import AbandonedError
from engines.reference.planted import Plant
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
    begin = 7
    opening = (8, 9)
    facts = MappingProxyType({"engine": "parhelion-reference", "model": "somewhere"})


def serving(monkeypatch, script, use, given=None, **options):
    """Serve ``script(job prompts, cancelled)`` as the model's events and let ``use(session, url)`` ask; ``given`` takes down each job."""

    def run(loaded, prompts, wanted, cancelled):
        if given is not None:
            given.append((prompts, wanted))
        return script(prompts, cancelled)

    async def inside():
        monkeypatch.setattr(worker_module, "run", run)
        worker = Worker(lambda: Loaded)
        loaded = await worker.start()
        engine = Engine(loaded, worker, Bounds(5, 1000, 100, Sampling()), "f", 1, **options)
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


def planting(monkeypatch, use, **options):
    """Serve an engine that notes the prompts and the work it is given; (what ``use`` returns, those)."""
    given = []

    def script(prompts, cancelled):
        return iter([PromptRead(0, None, np.log(np.full((1, 4), 0.25))), *EVENTS[1:]])

    return serving(monkeypatch, script, use, given, **options), given


async def status(session, url, **body):
    async with session.post(url, json=body) as answer:
        return answer.status, await answer.read()


@pytest.mark.parametrize("below", ["/planted/extra-bos=true,ties=highest", ""])
def test_a_fault_is_planted_by_address_or_by_option_and_only_there(monkeypatch, below):
    async def use(session, url):
        first = await status(session, f"{url}{below}/v1/completions", prompt="a")
        ids = await status(session, f"{url}{below}/v1/completions", prompt=[3, 4])
        rendered = await status(session, f"{url}{below}/tokenize", prompt="a")
        plain = await status(session, f"{url}{below}/tokenize", prompt="a", add_special_tokens=False)
        async with session.get(f"{url}{below}/server_info") as answer:
            info = await answer.json()
        return first, ids, json.loads(rendered[1])["tokens"], json.loads(plain[1])["tokens"], info

    plant = Plant(extra_bos=True, ties="highest")
    options = {"planted_routes": True} if below else {"plant": plant}
    (first, ids, rendered, plain, info), given = planting(monkeypatch, use, **options)
    assert (first[0], ids[0]) == (200, 200)
    assert [prompts for prompts, _ in given] == [((7, 97),), ((3, 4),)]
    assert {(wanted.plant, wanted.opening) for _, wanted in given} == {(plant, (8, 9))}
    assert (rendered, plain) == ([7, 97], [97])
    assert (info["planted"], info["tie_break"]) == ("ties=highest,extra-bos=true", "highest id")
    assert info["system_fingerprint"] == json.loads(first[1])["system_fingerprint"] == "f.planted"


def test_an_address_says_all_there_is_and_what_cannot_be_planted_is_refused(monkeypatch):
    async def use(session, url):
        await status(session, f"{url}/planted/ties=random/v1/completions", prompt="a")
        await status(session, f"{url}/v1/completions", prompt="a")
        return await status(session, f"{url}/planted/noise=1/v1/completions", prompt="a")

    plant = Plant(logit_noise=1.0)
    refused, given = planting(monkeypatch, use, planted_routes=True, plant=plant)
    assert [wanted.plant for _, wanted in given] == [Plant(ties="random"), plant]
    assert refused[0] == 400
    assert "planted: noise=1: " in json.loads(refused[1])["error"]["message"]


def test_nothing_of_it_is_there_unless_it_was_asked_for(monkeypatch):
    async def use(session, url):
        paths = ("/planted/ties=highest/v1/completions", "/full_logprobs")
        answers = [await status(session, f"{url}{path}", prompt="a") for path in paths]
        async with session.get(f"{url}/server_info") as answer:
            return [code for code, _ in answers], await answer.json()

    (codes, info), given = planting(monkeypatch, use)
    assert (codes, given, info["planted"]) == ([404, 404], [], None)


def test_every_tokens_value_comes_as_an_array(monkeypatch):
    async def use(session, url):
        path = f"{url}/planted/round-logits=bf16/full_logprobs"
        whole = await status(session, path, tokens=[1, 2, 3, 4], start=3)
        return whole, [
            await status(session, path, **body) for body in ({"tokens": [1]}, {"tokens": [1, 2], "start": 2})
        ]

    (whole, refused), given = planting(monkeypatch, use, planted_routes=True, full_vocabulary=True)
    assert np.exp(np.load(io.BytesIO(whole[1]))).tolist() == [[0.25] * 4]
    ((prompts, wanted),) = given
    assert (prompts, wanted.whole_from, wanted.max_tokens, wanted.top) == (((1, 2, 3, 4),), 3, 0, None)
    assert (wanted.plant, wanted.opening) == (Plant(round_logits="bf16"), (8, 9))
    assert [code for code, _ in refused] == [400, 400]
    assert b"start must be between 1 and 1" in refused[1][1]
