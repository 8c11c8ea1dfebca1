"""TGI's ``/info``."""

import asyncio

from engines.facts.gather import gather
from engines.tgi import DIALECT

INFO = {
    "model_id": "/data/Llama-3.1-8B-Instruct",
    "model_sha": "0e9e39f",
    "max_concurrent_requests": 128,
    "max_total_tokens": 8192,
    "max_input_tokens": 8191,
    "router": "text-generation-router",
    "version": "3.3.6-dev0",
    "sha": "db931fc",
    "docker_label": None,
}


def collect(scripted, info):
    return asyncio.run(gather(scripted({"/info": info}), "tgi", {"id": "m"}, DIALECT.defaults))


def test_what_it_shows(scripted):
    facts = collect(scripted, INFO)
    assert facts.probed == {
        "engine": "tgi",
        "model": "Llama-3.1-8B-Instruct",
        "version": "3.3.6-dev0",
        "revision": "0e9e39f",
        "dtype": None,
        "config_hash": "db931fc",
    }
    assert facts.context_length == 8192


def test_earlier_versions_tell_the_number_format(scripted):
    assert collect(scripted, {**INFO, "model_dtype": "torch.float16"}).probed["dtype"] == "torch.float16"


def test_without_the_route_nothing_is_known(scripted):
    facts = asyncio.run(gather(scripted({}), "tgi", {"id": "m"}, DIALECT.defaults))
    assert (facts.probed["model"], facts.probed["version"], facts.context_length) == ("m", None, None)
