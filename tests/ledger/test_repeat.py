"""The commands that repeat a record: bash makes the same bytes of them whatever they hold, no secret is in them, and each missing thing is said."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.compare.comparison import FlipClass
from proxy.config import Config, Primary, Shadow
from proxy.ledger.detail import ChoiceDetail, Detail, Sent, Side
from proxy.ledger.record import Record
from proxy.ledger.repeat import RepeatError, quoted, shell
from proxy.ledger.repeat_script import SCRIPT

SIDE = Side((-0.1,) * 5, total=5)
HARM = "'; touch harmed; echo \"$(id)`id`\\ \u202e\x1b[31m\x7f\u2028 !! é\U0001f600 $HOME\t"


def bash(script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        ["bash", "-u", "-c", script], capture_output=True, timeout=60, check=False, env=path | environment
    )


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")))
def test_bash_makes_the_same_bytes_of_every_text(text: str) -> None:
    assert bash(f"printf '%s' {quoted(text)}").stdout == text.encode()


def test_bash_makes_the_same_bytes_of_what_means_harm_and_nothing_of_it_reaches_a_terminal() -> None:
    assert bash(f"printf '%s' {quoted(HARM)}").stdout == HARM.encode()
    assert quoted(HARM).isprintable()
    assert quoted("a\nb'c") == "'a\nb'\\''c'"
    with pytest.raises(ValueError, match=r"U\+0000"):
        quoted("\0")


def test_a_body_longer_than_any_argument_may_be() -> None:
    long = "é'" * 200_000
    assert (
        subprocess.run(
            ["bash"], input=f"printf '%s' {quoted(long)}".encode(), capture_output=True, check=True, timeout=60
        ).stdout
        == long.encode()
    )


def test_the_script_is_python_that_a_shell_can_hold_in_single_quotes() -> None:
    compile(SCRIPT, "script", "exec")
    assert "'" not in SCRIPT
    assert SCRIPT.replace("\n", "").isprintable()


def config(url: str, **more: str) -> Config:
    return Config(
        primary=Primary(url=f"{url}/p/", **more),
        shadows=(Shadow("candidate", f"{url}/s", api_key=more.get("api_key")),),
    )


def detail(path: str = "/v1/chat/completions") -> Detail:
    sent = [Sent(path, orjson.dumps({"who": who, "harm": HARM}).decode()) for who in ("primary", "shadow")]
    return Detail((ChoiceDetail(0, SIDE, SIDE),), sent[0], (sent[1],))


@pytest.fixture
def record(make) -> Record:
    return make.record(1, make.free(FlipClass.GENUINE))


@contextmanager
def engines(*replies: bytes) -> Iterator[tuple[str, list[tuple[str, str | None, bytes]]]]:
    """An engine that says these in turn and remembers what it was sent."""
    came: list[tuple[str, str | None, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.path, self.headers["Authorization"], body))
            reply = replies[len(came) - 1]
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()
            thread.join(10)


def chat(*tokens: str) -> bytes:
    rows = [{"token": one, "logprob": -0.5} for one in tokens]
    return orjson.dumps({"choices": [{"index": 0, "logprobs": {"content": rows}}]})


def events(*tokens: str) -> bytes:
    return b"".join(b"data: " + chat(one) + b"\n\n" for one in tokens) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("stream", [False, True])
def test_both_engines_get_what_they_got_and_the_token_is_shown(tmp_path: Path, record: Record, stream: bool) -> None:
    says = events if stream else chat
    with engines(says("a", "b\u2028", "c"), says("a", "b\u2028", "\u202ed", "e")) as (url, came):
        script = shell(record, detail("/v1/x'y$HOME"), config(url))
        done = bash(f"cd {tmp_path}; {script}")
    assert done.stderr == b""
    assert (
        done.stdout.decode()
        == 'position 2: primary "c" (id None, logprob -0.5), shadow "\\u202ed" (id None, logprob -0.5)\n'
    )
    assert [body for _, _, body in came] == [detail().primary.body.encode(), detail().shadow[0].body.encode()]
    assert [key for _, key, _ in came] == [None, None]
    assert [path.split("/")[1] for path, _, _ in came] == ["p", "s"]
    assert list(tmp_path.iterdir()) == []  # nothing of the text was run
    assert "(recorded: token 3 of choice 0)" in script
    assert script.replace("\n", "").isprintable()


def test_keys_are_named_and_come_from_the_environment(record: Record) -> None:
    with engines(chat("a"), chat("b")) as (url, came):
        script = shell(record, detail(), config(url, api_key="the-secret"))
        assert "the-secret" not in script
        assert script.startswith("# export PRIMARY_KEY and SHADOW_KEY first")
        done = bash(script, PRIMARY_KEY="one", SHADOW_KEY="two words")
    assert (done.returncode, done.stderr) == (0, b"")
    assert [key for _, key, _ in came] == ["Bearer one", "Bearer two words"]


SCORED = {
    "vllm": {"choices": [{"prompt_logprobs": [None, {"7": {"logprob": -1.0, "decoded_token": "x"}}, {"5": {"logprob": -2.0}, "9": {"logprob": -0.25, "decoded_token": "best"}}, {"1": {"logprob": -1.0}}]}]},
    "llama.cpp": {"completion_probabilities": [{"token": "forced", "id": 5, "logprob": -2.0, "top_logprobs": [{"token": "best", "id": 9, "logprob": -0.25}, {"token": "forced", "id": 5, "logprob": -2.0}]}]},
    "sglang": {"meta_info": {"input_top_logprobs": [None, [[-1.0, 7, "x"]], [[-2.0, 5, "y"], [-0.25, 9, "best"]], [[-1.0, 1, "z"]]]}},
}  # fmt: skip


@pytest.mark.parametrize("engine", SCORED)
def test_what_a_shadow_would_have_said_is_read_off_its_scores(make, engine: str) -> None:
    flipped = make.forced(FlipClass.NEAR_TIE)
    (choice,) = flipped.choices
    one = make.record(1, replace(flipped, choices=(replace(choice, flips=(replace(choice.flips[0], index=3),)),)))
    with engines(chat("a", "b", "c", "d", "e"), orjson.dumps(SCORED[engine])) as (url, _):
        done = bash(shell(one, detail(), config(url)))
    assert (
        done.stdout.decode()
        == 'position 3: primary "d" (id None, logprob -0.5), shadow would say "best" (id 9, logprob -0.25)\n'
    )


def test_a_difference_of_text_alone_and_one_that_is_gone_are_said(record: Record) -> None:
    def text(said: str) -> bytes:
        return orjson.dumps({"choices": [{"index": 0, "message": {"content": said}}]})

    with engines(text("one two"), text("one too"), chat("a"), chat("a"), chat("a"), chat("a", "b")) as (url, _):
        said = [bash(shell(record, detail(), config(url))).stdout.decode() for _ in range(3)]
    assert said == [
        'character 5: primary "wo", shadow "oo"\n',
        "no difference in 1 tokens\n",
        'position 1: primary the end, shadow "b" (id None, logprob -0.5)\n',
    ]


def test_nothing_that_an_engine_answers_reaches_a_terminal_as_it_is(record: Record) -> None:
    harm = "\x1b]0;title\x07\u202e"
    row = {"token": harm, "id": harm, "logprob": harm}
    bad = orjson.dumps({"choices": [{"index": 0, "logprobs": {"content": [row]}}]})
    with engines(bad, chat("b")) as (url, _):
        said = bash(shell(record, detail(), config(url))).stdout.decode()
    assert said.startswith("position 0: primary ")
    assert said.rstrip("\n").isprintable()


def test_what_is_missing_is_said(record: Record) -> None:
    known = config("http://e")
    for given_detail, given_config, why in (
        (None, known, "records.content: text"),
        (replace(detail(), primary=None), known, "records.content: text"),
        (replace(detail(), primary=None, redacted=True), known, "records.redact has withheld"),
        (replace(detail(), shadow=()), known, "nothing was sent"),
        (detail(), Config(primary=Primary(url="http://p")), "not configured any more"),
    ):
        with pytest.raises(RepeatError, match=why):
            shell(record, given_detail, given_config)
    assert shell(record, replace(detail(), redacted=True), known).startswith("# records.redact has changed")
