"""The reference engine as a server, on a real model."""

import http.client
import io
import json
import math
import time
import urllib.request
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import numpy as np
import openai
import pytest

from tests.engines.reference.asking import MODEL, QUESTIONS, ask, chat, complete, decode, score, stream, values

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]  # the first test may convert the weights
RECORDED = Path(__file__).parents[2] / "fixtures" / "vllm-cpu-fp32"
FRANCE = [504, 3575, 282, 4649, 314]


def test_scoring_in_one_pass_equals_decoding(reference_fp32):
    differences = []
    for question in QUESTIONS[1:4]:
        own = decode(reference_fp32, question, 24)
        rows = score(reference_fp32, own.prompt, own.ids, 5)
        differences += [abs(a - b) for a, b in zip(own.values, values(rows, own.ids), strict=True)]
        # Greedy: what was decoded is the first of the order at its place, and the alternatives are the same.
        assert all(row[str(token)]["rank"] == 1 for row, token in zip(rows, own.ids, strict=True))
        assert [[token for token, _ in top] for top in own.tops] == [[int(token) for token in row] for row in rows]
    assert len(differences) > 40
    assert max(differences) < 1e-4


def test_a_long_prompt_is_read_in_stretches_without_a_seam(reference_fp32):
    text = " ".join(f"Line {number}: the ferry leaves at {number % 24} o'clock." for number in range(40))
    prompt = ask(reference_fp32, "/tokenize", {"prompt": text})[1]["tokens"][:500]
    reply = complete(reference_fp32, prompt, max_tokens=24, logprobs=0, return_token_ids=True, ignore_eos=True)
    decoded, ids = reply["choices"][0]["logprobs"]["token_logprobs"], reply["choices"][0]["token_ids"]
    # Decoded one by one across the 512th token, scored in a stretch of 512 and one of 12.
    scored = values(score(reference_fp32, prompt, ids), ids)
    assert max(abs(a - b) for a, b in zip(decoded, scored, strict=True)) < 1e-4


@pytest.mark.parametrize("name", ["chat_logprobs", "chat_return_token_ids", "completions_prompt_logprobs"])
def test_it_says_what_a_recorded_vllm_said_in_fp32(reference_fp32, name):
    asked = json.loads((RECORDED / f"{name}.headers.json").read_text())["request"]
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    status, reply = ask(reference_fp32, asked["path"], asked["body"])
    assert status == 200
    assert reply["usage"]["completion_tokens"] == recorded["usage"]["completion_tokens"]
    assert reply["usage"]["prompt_tokens"] == recorded["usage"]["prompt_tokens"]
    assert reply.get("prompt_token_ids") == recorded.get("prompt_token_ids")
    assert reply["choices"][0]["finish_reason"] == recorded["choices"][0]["finish_reason"]
    assert reply["choices"][0]["token_ids"] == recorded["choices"][0]["token_ids"]
    mine, theirs = (_recorded_values(answer) for answer in (reply, recorded))
    assert [key for key, _ in mine] == [key for key, _ in theirs]
    differences = [abs(a - b) for (_, a), (_, b) in zip(mine, theirs, strict=True)]
    assert median(differences) < 2e-5  # another machine's fp32, and float32 normalisers
    assert max(differences) < 2e-4


def _recorded_values(reply):
    choice = reply["choices"][0]
    if choice.get("prompt_logprobs"):
        return sorted(
            (f"{place}:{key}", entry["logprob"])
            for place, row in enumerate(choice["prompt_logprobs"])
            if row
            for key, entry in row.items()
        )
    rows = choice["logprobs"]["content"]
    return sorted(
        (f"{place}:{entry['token']}", entry["logprob"])
        for place, row in enumerate(rows)
        for entry in row["top_logprobs"]
    )


def test_the_footprint(reference_fp32):
    _, facts = ask(reference_fp32, "/server_info")
    assert facts["engine"] == "parhelion-reference"
    assert (facts["dtype"], facts["device"], facts["accumulation"], facts["attention_backend"]) == (
        "float32",
        "cpu",
        "float32",
        "sdpa",
    )
    assert (facts["threads"], facts["logprob_mode"], facts["tie_break"]) == (1, "raw", "lowest id")
    assert len(facts["tokenizer_hash"]) == len(facts["chat_template_hash"]) == 16
    assert facts["sampling_defaults"]["temperature"] == 1.0
    assert ask(reference_fp32, "/version")[1]["engine"] == "parhelion-reference"
    assert ask(reference_fp32, "/v1/models")[1]["data"][0]["id"] == MODEL
    assert ask(reference_fp32, "/health") == (200, None)


def test_tokenize_and_detokenize(reference_fp32):
    assert ask(reference_fp32, "/tokenize", {"prompt": "The capital of France is"})[1]["tokens"] == FRANCE
    assert ask(reference_fp32, "/detokenize", {"tokens": [*FRANCE, 2]})[1] == {
        "prompt": "The capital of France is<|im_end|>"
    }
    messages = [{"role": "user", "content": "Hello"}]
    _, whole = ask(reference_fp32, "/tokenize", {"messages": messages, "return_token_strs": True})
    _, bare = ask(reference_fp32, "/tokenize", {"messages": messages, "add_generation_prompt": False})
    assert (whole["token_strs"][0], whole["token_strs"][-1], whole["count"] - bare["count"]) == ("<|im_start|>", "Ċ", 4)
    assert whole["tokens"][: bare["count"]] == bare["tokens"]
    assert chat(reference_fp32, "Hello", max_tokens=1, return_token_ids=True)["prompt_token_ids"] == whole["tokens"]
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    assert ask(reference_fp32, "/tokenize", {"messages": messages, "tools": [tool]})[0] == 200


def test_the_end_is_a_row_and_no_text(reference_fp32):
    reply = chat(reference_fp32, max_tokens=30, logprobs=True, return_token_ids=True)
    choice = reply["choices"][0]
    assert choice["message"]["content"] == "The capital of France is Paris."
    assert (choice["finish_reason"], choice["stop_reason"], choice["token_ids"][-1]) == ("stop", None, 2)
    assert choice["logprobs"]["content"][-1]["token"] == "<|im_end|>"
    assert reply["usage"]["completion_tokens"] == len(choice["logprobs"]["content"]) == 8


def test_parts_of_characters_are_rows_with_their_bytes(reference_fp32):
    body = {
        "prompt": "Emoji list: 🎉 🥳 🚀 🎈 🎉",
        "max_tokens": 12,
        "temperature": 0,
        "logprobs": 2,
        "return_token_ids": True,
    }
    reply = complete(reference_fp32, **body)
    labels = reply["choices"][0]["logprobs"]["tokens"]
    assert any(label.startswith("bytes:") for label in labels)
    assert len(labels) == len(reply["choices"][0]["token_ids"]) == 12
    data = b"".join(
        bytes.fromhex(label.removeprefix("bytes:").replace("\\x", "")) if label.startswith("bytes:") else label.encode()
        for label in labels
    )
    assert data.decode(errors="ignore") == reply["choices"][0]["text"]
    assert "\ufffd" not in reply["choices"][0]["text"]


@pytest.mark.parametrize("in_chat", [True, False])
def test_a_stream_says_the_same(reference_fp32, in_chat):
    extra = {"max_tokens": 10, "return_token_ids": True, "temperature": 0}
    if in_chat:
        body = {"messages": [{"role": "user", "content": QUESTIONS[3]}], "logprobs": True, "top_logprobs": 3, **extra}
        path = "/v1/chat/completions"
    else:
        body, path = {"prompt": "One, two,", "logprobs": 3, "echo": True, **extra}, "/v1/completions"
    _, whole = ask(reference_fp32, path, body)
    chunks = stream(reference_fp32, path, {**body, "stream_options": {"include_usage": True}})
    choice = whole["choices"][0]
    parts = [chunk["choices"][0] for chunk in chunks[:-1]]
    assert [token for part in parts for token in part.get("token_ids") or []] == choice["token_ids"]
    assert chunks[-1]["usage"] == whole["usage"]
    if in_chat:
        assert "".join(part["delta"]["content"] for part in parts) == choice["message"]["content"]
        assert [row for part in parts if part["logprobs"] for row in part["logprobs"]["content"]] == choice["logprobs"][
            "content"
        ]
    else:
        assert "".join(part["text"] for part in parts) == choice["text"]
        assert [value for part in parts for value in part["logprobs"]["token_logprobs"]] == choice["logprobs"][
            "token_logprobs"
        ]
        assert choice["text"].startswith("One, two,")


def test_several_prompts_and_choices(reference_fp32):
    alone = complete(reference_fp32, max_tokens=4)["choices"][0]["text"]
    reply = complete(reference_fp32, ["The capital of France is", FRANCE, "2 + 2 ="], max_tokens=4, n=2)
    texts = [choice["text"] for choice in reply["choices"]]
    assert texts[:4] == [alone] * 4
    assert texts[4] == texts[5] != alone
    assert [choice["index"] for choice in reply["choices"]] == list(range(6))


def test_a_seed_repeats_and_choices_of_one_request_differ(reference_fp32):
    fields = {"temperature": 1.2, "seed": 11, "n": 3, "max_tokens": 12, "logprobs": True, "top_logprobs": 1}
    first, second = chat(reference_fp32, QUESTIONS[5], **fields), chat(reference_fp32, QUESTIONS[5], **fields)
    texts = [choice["message"]["content"] for choice in first["choices"]]
    assert texts == [choice["message"]["content"] for choice in second["choices"]]
    assert len(set(texts)) > 1
    assert first["choices"] == second["choices"]


def test_sampling_does_not_change_the_reported_values(reference_fp32):
    greedy = complete(reference_fp32, max_tokens=1, logprobs=5)["choices"][0]["logprobs"]["top_logprobs"][0]
    drawn = complete(reference_fp32, max_tokens=1, logprobs=5, temperature=1.7, top_k=2, seed=3, presence_penalty=1)[
        "choices"
    ][0]["logprobs"]["top_logprobs"][0]
    assert {key: drawn[key] for key in greedy} == greedy


def test_stop_strings_and_stop_ids(reference_fp32):
    cut = chat(reference_fp32, max_tokens=30, stop=["France"], logprobs=True)["choices"][0]
    assert (cut["message"]["content"], cut["finish_reason"], cut["stop_reason"]) == (
        "The capital of ",
        "stop",
        "France",
    )
    assert cut["logprobs"]["content"][-1]["token"] == " France"
    kept = chat(reference_fp32, max_tokens=30, stop="France", include_stop_str_in_output=True)["choices"][0]
    assert kept["message"]["content"] == "The capital of France"
    by_id = chat(reference_fp32, max_tokens=30, stop_token_ids=[4649], return_token_ids=True)["choices"][0]
    assert (by_id["message"]["content"], by_id["stop_reason"], by_id["token_ids"][-1]) == ("The capital of", 4649, 4649)


def test_ending_can_be_put_off(reference_fp32):
    assert chat(reference_fp32, max_tokens=12, ignore_eos=True)["usage"]["completion_tokens"] == 12
    longer = chat(reference_fp32, max_tokens=12, min_tokens=10, return_token_ids=True)["choices"][0]
    assert 2 not in longer["token_ids"][:10]


def test_a_bias_decides(reference_fp32):
    choice = complete(reference_fp32, max_tokens=3, logit_bias={"260": 100}, return_token_ids=True, logprobs=0)[
        "choices"
    ][0]
    assert choice["token_ids"] == [260, 260, 260]
    assert choice["logprobs"]["token_logprobs"][0] < -1  # raw, as if there were no bias


def test_many_alternatives_sum_to_one(reference_fp32):
    rows = complete(reference_fp32, FRANCE, max_tokens=1, logprobs=1000, return_tokens_as_token_ids=True)["choices"][0][
        "logprobs"
    ]
    top = rows["top_logprobs"][0]
    assert len(top) == 1000
    assert 0.95 < sum(math.exp(value) for value in top.values()) <= 1
    assert list(top.values()) == sorted(top.values(), reverse=True)


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        (
            "/v1/chat/completions",
            {"model": "no-such-model", "messages": [{"role": "user", "content": "a"}]},
            404,
            "model",
        ),
        ("/v1/chat/completions", {"messages": []}, 400, "messages"),
        ("/v1/chat/completions", {}, 400, "messages"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "a"}], "max_tokens": "abc"},
            400,
            "max_tokens",
        ),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 9000}]}, 400, "input_tokens"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "word " * 9000}], "stream": True},
            400,
            "input_tokens",
        ),
        ("/v1/completions", {"prompt": [504, 99999999]}, 400, "prompt"),
        ("/v1/completions", {"prompt": "a", "logprobs": 1001}, 400, "logprobs"),
        ("/v1/completions", {"prompt": "a", "temperature": -1}, 400, "temperature"),
        ("/detokenize", {"tokens": "abc"}, 400, "tokens"),
        ("/tokenize", {"prompt": ["a", "b"]}, 400, "prompt"),
    ],
)
def test_refusals(reference_fp32, path, body, status, param):
    code, reply = ask(reference_fp32, path, body)
    assert (code, reply["error"]["param"], reply["error"]["code"]) == (status, param, status)
    assert "Traceback" not in json.dumps(reply)
    assert "word word" not in json.dumps(reply)


@pytest.mark.parametrize(
    ("raw", "kind"), [(b'{"messages": [', "application/json"), (b"", "application/json"), (b"{}", "text/plain")]
)
def test_bodies_that_are_no_json(reference_fp32, raw, kind):
    code, reply = ask(reference_fp32, "/v1/chat/completions", raw=raw, kind=kind)
    assert (code, reply["error"]["type"]) == (400, "BadRequestError")


def test_unknown_paths_and_methods(reference_fp32):
    assert ask(reference_fp32, "/v1/nothing")[0] == 404
    assert ask(reference_fp32, "/v1/completions")[0] == 405


def test_a_client_that_leaves_stops_the_work(reference_fp32):
    place = urlsplit(reference_fp32)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    body = {"prompt": "Count:", "max_tokens": 2000, "ignore_eos": True, "temperature": 0, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    assert answer.readline().startswith(b"data: ")
    answer.close()
    connection.close()
    begun = time.monotonic()
    complete(reference_fp32, max_tokens=1)
    assert time.monotonic() - begun < 30  # 2,000 tokens would take minutes


def test_the_official_client_reads_it(reference_fp32):
    with openai.OpenAI(base_url=f"{reference_fp32}/v1", api_key="none") as client:
        reply = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "What is the capital of France?"}],
            temperature=0,
            logprobs=True,
            top_logprobs=2,
            max_tokens=20,
        )
        assert reply.choices[0].message.content == "The capital of France is Paris."
        assert reply.choices[0].logprobs.content[0].top_logprobs[0].token == "The"
        with client.completions.create(
            model=MODEL, prompt="One, two,", temperature=0, max_tokens=4, stream=True
        ) as chunks:
            assert len([chunk for chunk in chunks if chunk.choices]) == 4


def test_a_planted_fault_is_the_same_decoded_and_scored_and_begins_where_it_is_said(reference_fp32):
    faulty = f"{reference_fp32}/planted/logit-noise=0.5,noise-seed=2,from-position=5"
    own = decode(faulty, QUESTIONS[1], 16)
    scored = values(score(faulty, own.prompt, own.ids), own.ids)
    assert max(abs(a - b) for a, b in zip(own.values, scored, strict=True)) < 1e-4
    healthy = values(score(reference_fp32, own.prompt, own.ids), own.ids)
    differences = [abs(a - b) for a, b in zip(own.values, healthy, strict=True)]
    assert max(differences[:5]) < 1e-4
    assert median(differences[5:]) > 1e-2  # a token that is all but certain hardly moves
    assert ask(faulty, "/server_info")[1]["planted"] == "logit-noise=0.5,noise-seed=2,from-position=5"
    assert ask(reference_fp32, "/server_info")[1]["planted"] is None
    assert ask(f"{reference_fp32}/planted/noise=1", "/server_info")[0] == 400


def test_the_whole_vocabulary_is_what_rows_show(reference_fp32):
    prompt = ask(reference_fp32, "/tokenize", {"prompt": "The capital of France is Paris"})[1]["tokens"]
    body = json.dumps({"tokens": prompt, "start": 2}).encode()
    request = urllib.request.Request(f"{reference_fp32}/full_logprobs", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        whole = np.load(io.BytesIO(answer.read()))
    assert np.exp(whole).sum(axis=1) == pytest.approx([1.0] * (len(prompt) - 2), abs=1e-9)
    for values_, row in zip(whole, score(reference_fp32, prompt[:2], prompt[2:], 20), strict=True):
        assert {int(token): entry["logprob"] for token, entry in row.items()} == {
            int(token): pytest.approx(values_[int(token)], abs=1e-9) for token in row
        }
