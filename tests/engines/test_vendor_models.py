"""What is sent is accepted by the vendors' own request types, and what their reply types write is read to the right tokens.

The types are those of the libraries ``openai``, ``together``, ``fireworks-ai``, ``ollama`` (for its own routes) and, for TGI, ``huggingface_hub``, which generates them from TGI's API
description. They live in an environment of their own.
"""

import json
import subprocess
from pathlib import Path

import pytest

from engines.dialect import Answer, Endpoint
from engines.registry import dialect
from tests import programs
from tests.engines.accents import TEXT, TOKENS, answer

SCRIPT = Path(__file__).with_name("vendor_models.py")
VENDORS = ("openai", "tgi", "together", "fireworks")
CHAT = Endpoint.CHAT
MESSAGES = [{"role": "user", "content": "Hi"}]
CLIENTS = [
    {},
    {"temperature": 0, "max_tokens": 8},
    {"temperature": 0.7, "top_p": 1.0, "seed": 1, "stop": ["\n"], "presence_penalty": 0.0, "frequency_penalty": 0.0},
    {"logprobs": True, "top_logprobs": 3},
]


@pytest.fixture(scope="module")
def held():
    """Give every request we would send to the vendors' types, and take the replies they write."""
    place = programs.need(programs.ALL["vendor-models"])
    asked = [
        [vendor, dialect(vendor).ask(CHAT, {"model": "m", "messages": MESSAGES, **client}, 5)]
        for vendor in VENDORS
        for client in CLIENTS
    ]
    asked.append(["tgi_tokenize", {"inputs": "The sea"}])
    for route, own in (("ollama_chat", {"messages": MESSAGES}), ("ollama_generate", {"prompt": "Hi", "raw": True})):
        body = {"model": "m", "options": {"temperature": 0, "num_predict": 4}, "stream": False, **own}
        asked.append([route, dialect("ollama").ask(CHAT, body, 5)])
    asked += [["tgi", {"messages": MESSAGES}], ["together", {"messages": MESSAGES, "model": "m", "logprobs": True}]]
    tokens = [[said.text, said.id, said.logprob, said.top] for said in TOKENS]
    done = subprocess.run(
        [str(place / "python"), str(SCRIPT)],
        input=json.dumps({"requests": asked, "tokens": tokens}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_their_types_take_what_we_send(held):
    """But for the last, which shows that they refuse what is wrong: a boolean is no number of alternatives."""
    assert [vendor for vendor, _ in held["refused"]] == ["together"]
    assert "logprobs" in held["refused"][0][1]


def check(seen, *, ids, tops):
    (choice,) = seen.choices
    assert (seen.error, choice.text, choice.finish_reason, choice.rows_missing) == (None, TEXT, "stop", False)
    assert (choice.count, seen.prompt_tokens) == (len(TOKENS), 11)
    assert [(token.text, token.logprob) for token in choice.tokens] == [(said.text, said.logprob) for said in TOKENS]
    assert [token.id for token in choice.tokens] == [said.id if ids else None for said in TOKENS]
    if tops:
        assert [sorted((one.text, one.logprob) for one in token.top) for token in choice.tokens] == [
            sorted(said.top) for said in TOKENS
        ]


@pytest.mark.parametrize("vendor", VENDORS)
def test_their_replies_are_read(held, vendor):
    seen = dialect(vendor).read(CHAT, {}, answer(held["replies"][vendor]))
    check(seen, ids=vendor in ("together", "fireworks"), tops=vendor != "together")


@pytest.mark.parametrize("vendor", VENDORS)
def test_their_streams_are_read(held, vendor):
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in held["events"][vendor])
    pieces = tuple((at, body[at : at + 7]) for at in range(0, len(body), 7))
    seen = dialect(vendor).read(CHAT, {}, Answer(200, (("content-type", "text/event-stream"),), pieces))
    check(seen, ids=vendor in ("together", "fireworks"), tops=True)


@pytest.mark.parametrize("route", ["ollama_chat", "ollama_generate"])
def test_ollamas_own_lines_are_read(held, route):
    body = b"".join(json.dumps(line).encode() + b"\n" for line in held["events"][route])
    seen = dialect("ollama").read(CHAT, {}, Answer(200, (("content-type", "application/x-ndjson"),), ((0, body),)))
    check(seen, ids=False, tops=True)
