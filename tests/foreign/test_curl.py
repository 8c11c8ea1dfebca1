"""What curl gets through Parhelion is what it gets from the engine: status, headers in order and case, interim replies, body."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.engine_fixtures import MODEL
from tests.foreign.twice import Front, counted, counts, run, steady

pytestmark = [pytest.mark.slow, pytest.mark.llama, pytest.mark.vllm, pytest.mark.torch, pytest.mark.timeout(600)]

CHAT = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Wie heißt der Stern in der Mitte? 🌞"}],
    "temperature": 0,
    "max_tokens": 4,
}
JSON = ["-H", "Content-Type: application/json"]
#: A hop's own, or of the moment.
NOT_COMPARED = {"date", "connection", "keep-alive"}
WANTED = ("response_code", "content_type", "exitcode", "num_connects")


@dataclass(frozen=True)
class Case:
    """Words for curl and a path; ``calls`` to an inference route; ``folder`` in a word is where the files are."""

    words: tuple[str, ...]
    path: str
    calls: int = 0


CASES = {
    "plain": Case((*JSON, "-d", "@{folder}/chat.json"), "/v1/chat/completions", 1),
    "stream": Case((*JSON, "-N", "-d", "@{folder}/stream.json"), "/v1/chat/completions", 1),
    "http1.0": Case((*JSON, "--http1.0", "-d", "@{folder}/chat.json"), "/v1/chat/completions", 1),
    "http1.0 stream": Case((*JSON, "-N", "--http1.0", "-d", "@{folder}/stream.json"), "/v1/chat/completions", 1),
    "compressed": Case((*JSON, "--compressed", "-d", "@{folder}/chat.json"), "/v1/chat/completions", 1),
    "chunked": Case(
        (*JSON, "-H", "Transfer-Encoding: chunked", "-d", "@{folder}/chat.json"), "/v1/chat/completions", 1
    ),
    "continue": Case((*JSON, "-H", "Expect: 100-continue", "-d", "@{folder}/long.json"), "/v1/chat/completions", 1),
    "head": Case(("-I",), "/v1/models"),
    "options": Case(
        ("-X", "OPTIONS", "-H", "Origin: http://page.test", "-H", "Access-Control-Request-Method: POST"),
        "/v1/chat/completions",
    ),
    "audio": Case(
        ("-F", "file=@{folder}/speech.wav;type=audio/wav", "-F", "model=whisper-1"), "/v1/audio/transcriptions"
    ),
    "put": Case(("-T", "{folder}/speech.wav"), "/v1/files/speech.wav"),
    "delete": Case(("-X", "DELETE"), "/v1/files/none"),
    "nowhere": Case(("--path-as-is",), "/v1//..%2F/nowhere;x?q=%C3%A4&q=&&a=b%20c"),
    "not json": Case((*JSON, "-d", "{"), "/v1/chat/completions", 1),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("curl")
    (made / "chat.json").write_text(json.dumps(CHAT))
    (made / "stream.json").write_text(json.dumps(CHAT | {"stream": True, "stream_options": {"include_usage": True}}))
    # Unknown to every engine, ignored by all, and longer than any buffer on the way.
    (made / "long.json").write_text(json.dumps(CHAT | {"metadata": {"note": "n" * 1_500_000}}))
    (made / "speech.wav").write_bytes(b"RIFF" + bytes(range(256)) * 2000)
    return made


def test_from_the_reference_engine_curl_gets_the_same(reference: Front, folder: Path) -> None:
    gets_the_same(reference, folder)


def test_from_llama_cpp_curl_gets_the_same(llama: Front, folder: Path) -> None:
    gets_the_same(llama, folder)


def test_from_vllm_curl_gets_the_same(vllm: Front, folder: Path) -> None:
    gets_the_same(vllm, folder)


def gets_the_same(front: Front, folder: Path) -> None:
    """Every case twice, and what the mirror counted of them."""
    before = counts(front)
    for name, case in CASES.items():
        direct, through = (asked(url, case, folder) for url in (front.engine, front.proxy.clients))
        assert through == direct, name
    assert counts(front)["received", ""] - before["received", ""] == len(CASES)
    counted(front, before, sum(case.calls for case in CASES.values()), compared=1)


def test_a_connection_is_kept(llama: Front) -> None:
    """Two transfers of one curl share a connection, with the proxy as with the engine."""
    curl = programs.need(programs.ALL["curl"])
    for url in (llama.engine, llama.proxy.clients):
        one = ["-sS", "-m", "60", "-o", "/dev/null", "-w", "%{num_connects} ", f"{url}/v1/models"]
        assert run([curl, *one, "--next", *one]).split() == ["1", "0"], url


def asked(url: str, case: Case, folder: Path) -> dict[str, Any]:
    """One transfer: what curl says of it, the heads it got (interim ones too) and the body."""
    head, body = folder / "head", folder / "body"
    body.write_bytes(b"")
    words = [word.format(folder=folder) if "{folder}" in word else word for word in case.words]
    curl = programs.need(programs.ALL["curl"])
    said = json.loads(run([curl, "-sS", "-m", "60", "-D", head, "-o", body, "-w", "%{json}", *words, url + case.path]))
    content = b"" if "-I" in words else body.read_bytes()  # for a HEAD curl writes the head there
    timed = b'"timings"' in content
    heads = [fields(one, "--http1.0" in words, timed) for one in head.read_bytes().split(b"\r\n\r\n") if one]
    wanted = {name: said[name] for name in WANTED} | {"heads": heads, "body": read(content)}
    # curl stops sending when a refusal comes first, after as much as it happened to have sent.
    return wanted if said["response_code"] >= 400 else wanted | {"size_upload": said["size_upload"]}


def fields(head: bytes, old: bool, timed: bool) -> list[str]:
    """Status and reason without the version, which is each hop's own; then the end-to-end fields as they came.

    The length is left out where llama.cpp's timings are in the body, and framing for an HTTP/1.0 client, for whom it is each hop's own.
    """
    skipped = NOT_COMPARED | ({"content-length"} if timed else set()) | ({"transfer-encoding"} if old else set())
    status, *lines = head.decode("latin-1").split("\r\n")
    kept = [line for line in lines if line.partition(":")[0].lower() not in skipped]
    return [re.sub(r"^HTTP/1\.[01] ", "", status), *kept]


def read(content: bytes) -> Any:
    """JSON and events without what changes from call to call, all else as it is."""
    if content.startswith(b"data: "):
        lines = content.split(b"\n")
        return [steady(json.loads(line[6:])) if line.startswith(b"data: {") else line for line in lines]
    try:
        return steady(json.loads(content))
    except ValueError:
        return content
