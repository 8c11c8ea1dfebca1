"""The client's request as the judge reads it."""

from __future__ import annotations

import gzip

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.dialect import Defaults, Endpoint
from proxy.exchange import Ended, Exchange
from proxy.judge.request import Unreadable, asked, endpoint_of, read_request


def exchange(body: bytes, target: str = "/v1/chat/completions", **headers: str) -> Exchange:
    pairs = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return Exchange("id", "t0", 0.0, 0.1, "POST", target, pairs, body, 200, (), (), 0, 0, Ended.COMPLETE)


def chat(**fields: object) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/v1/chat/completions", Endpoint.CHAT),
        ("/team/a/v1/chat/completions", Endpoint.CHAT),
        ("/v1/completions", Endpoint.COMPLETIONS),
        ("/v1/embeddings", Endpoint.EMBEDDINGS),
        ("/api/chat", Endpoint.CHAT),
        ("/api/generate", Endpoint.CHAT),
        ("/classify", Endpoint.OTHER),
        ("/v1/chat/completions/batch", Endpoint.OTHER),
    ],
)
def test_route(path: str, endpoint: Endpoint) -> None:
    assert endpoint_of(path) is endpoint


def test_query_is_not_part_of_the_route() -> None:
    assert read_request(exchange(orjson.dumps(chat()), "/v1/chat/completions?x=1"), 1000).path == "/v1/chat/completions"


def test_a_destination_and_its_keys_go_no_further() -> None:
    named = {
        "api_key": "sk-1",
        "api_base": "http://evil.test",
        "base_url": "http://evil.test",
        "extra_headers": {"Authorization": "x"},
    }
    assert read_request(exchange(orjson.dumps({**chat(), **named})), 1000).body == chat()


def test_what_is_looked_at() -> None:
    found = asked(
        Endpoint.CHAT,
        "/v1/chat/completions",
        chat(stream=True, n=3, temperature=0, max_completion_tokens=7, tools=[{}], logprobs=True),  # type: ignore[arg-type]
    )
    assert (
        found.model,
        found.stream,
        found.n,
        found.temperature,
        found.max_tokens,
        found.has_tools,
        found.logprobs,
    ) == (
        "m",
        True,
        3,
        0.0,
        7,
        True,
        True,
    )


def test_ollamas_own_words_are_understood() -> None:
    options = {"temperature": 0, "num_predict": 7, "stop": ["x"]}
    body = orjson.dumps({"model": "m", "prompt": "hi", "options": options})
    seen = read_request(exchange(body, "/api/generate"), 1 << 20)
    assert (seen.temperature, seen.max_tokens, seen.stops(), seen.stream) == (0.0, 7, ("x",), True)
    assert seen.body["options"] == options
    other = asked(Endpoint.CHAT, "/v1/chat/completions", {"options": {"temperature": 0}})
    assert (other.temperature, other.stream) == (None, False)


def test_effective_temperature_is_the_clients_else_the_engines_else_unknown() -> None:
    given_ = asked(Endpoint.CHAT, "/", chat(temperature=0))  # type: ignore[arg-type]
    omitted = asked(Endpoint.CHAT, "/", chat())  # type: ignore[arg-type]
    assert given_.effective_temperature(Defaults(temperature=0.8)) == 0.0
    assert omitted.effective_temperature(Defaults(temperature=0.8)) == 0.8
    assert omitted.effective_temperature(Defaults()) is None


@pytest.mark.parametrize("value", ["1", "0", True, [], {}])
def test_a_temperature_that_is_no_number_is_unknown_and_never_the_default(value: object) -> None:
    found = asked(Endpoint.CHAT, "/", chat(temperature=value))  # type: ignore[arg-type]
    assert found.effective_temperature(Defaults(temperature=0.0)) is None


def test_a_body_too_deep_to_be_written_again_is_said_so() -> None:
    body = b'{"model": "m", "x": ' + b"[" * 300 + b"]" * 300 + b"}"
    with pytest.raises(Unreadable, match="request_too_deep"):
        read_request(exchange(body), 10_000)
    assert read_request(exchange(b'{"model": "m", "x": ' + b"[" * 200 + b"]" * 200 + b"}"), 10_000).model == "m"


def test_a_body_of_very_many_values_is_not_unfolded_in_memory() -> None:
    body = b'{"x": [' + b"[]," * 300_000 + b"[]]}"
    with pytest.raises(Unreadable, match="request_too_complex"):
        read_request(exchange(body), 1 << 24)
    ids = b'{"prompt": [' + b"11," * 300_000 + b"1]}"
    assert len(read_request(exchange(ids, "/v1/completions"), 1 << 24).body["prompt"]) == 300_001


def test_unfiltered_needs_temperature_one_and_nothing_that_bends_the_distribution() -> None:
    plain = Defaults(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0)
    assert asked(Endpoint.CHAT, "/", chat()).unfiltered(plain)  # type: ignore[arg-type]
    assert not asked(Endpoint.CHAT, "/", chat(top_p=0.9)).unfiltered(plain)  # type: ignore[arg-type]
    assert not asked(Endpoint.CHAT, "/", chat(logit_bias={"1": 5})).unfiltered(plain)  # type: ignore[arg-type]
    assert not asked(Endpoint.CHAT, "/", chat(temperature=0.7)).unfiltered(plain)  # type: ignore[arg-type]
    assert not asked(Endpoint.CHAT, "/", chat(temperature=1)).unfiltered(Defaults(top_p=0.95, top_k=40))  # type: ignore[arg-type]


def test_coded_bodies_are_read_within_the_bound() -> None:
    body = gzip.compress(orjson.dumps(chat()))
    assert read_request(exchange(body, content_encoding="gzip"), 1000).model == "m"
    with pytest.raises(Unreadable, match="request_encoding"):
        read_request(exchange(gzip.compress(b" " * 10_000), content_encoding="gzip"), 1000)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"null"])
def test_what_is_no_json_object_is_said_so(body: bytes) -> None:
    with pytest.raises(Unreadable, match="request_not_json"):
        read_request(exchange(body), 1000)


def test_other_routes_are_named() -> None:
    with pytest.raises(Unreadable, match="endpoint"):
        read_request(exchange(b"{}", "/classify"), 1000)


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(
    st.sampled_from(
        [
            "model",
            "messages",
            "prompt",
            "n",
            "temperature",
            "stream",
            "max_tokens",
            "tools",
            "logprobs",
            "stop",
            "top_p",
        ]
    ),
    json,
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # how fast inputs are made depends on who else uses the machine
@given(fields)
def test_any_json_object_is_read(body: dict[str, object]) -> None:
    found = read_request(exchange(orjson.dumps(body)), 1 << 20)
    assert found.n >= 1
    assert found.unfiltered(Defaults()) in {True, False}
    assert all(isinstance(text, str) for text in found.stops())
