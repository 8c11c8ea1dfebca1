"""What a shadow is asked: the client's body with the declared changes only."""

from __future__ import annotations

from dataclasses import replace

from engines import openai
from engines.dialect import Defaults, Endpoint
from proxy.judge.request import asked
from proxy.judge.shape import WITHHELD, shadow_body

PLAIN = replace(openai.DIALECT, ask=lambda endpoint, body, top: body | {"asked_top": top})
DEFAULTS = Defaults(temperature=0.8, top_p=0.95, top_k=40, min_p=0.05, max_tokens_completions=16)


def shape(
    body: dict[str, object],
    *,
    endpoint: Endpoint = Endpoint.CHAT,
    models: dict[str, str] | None = None,
    name: str = "openai",
    top: int = 20,
):  # type: ignore[no-untyped-def]
    request = asked(endpoint, "/v1/chat/completions", dict(body))
    return shadow_body(request, replace(PLAIN, name=name), models=models or {}, defaults=DEFAULTS, top_logprobs=top)


def test_the_clients_body_is_never_changed() -> None:
    body = {"model": "m", "user": "u", "messages": []}
    before = dict(body)
    shape(body)
    assert body == before


def test_model_is_renamed_and_identity_is_withheld() -> None:
    body = {"model": "m", "messages": [], **dict.fromkeys(WITHHELD, "x")}
    sent = shape(body, models={"m": "org/M"})
    assert sent["model"] == "org/M"
    assert not WITHHELD & set(sent)


def test_a_body_without_a_model_gets_none() -> None:
    assert "model" not in shape({"messages": []})


def test_defaults_are_made_explicit_only_where_omitted_and_understood() -> None:
    assert shape({"messages": []}) == {"messages": [], "temperature": 0.8, "top_p": 0.95, "asked_top": 20}
    assert shape({"messages": []}, name="vllm")["top_k"] == 40
    assert shape({"messages": [], "temperature": 0.3, "top_p": 0.5}, name="vllm")["top_p"] == 0.5
    greedy = shape({"messages": [], "temperature": 0}, name="vllm")
    assert greedy == {"messages": [], "temperature": 0, "asked_top": 20}


def test_completions_get_the_primarys_length_default() -> None:
    assert shape({"prompt": "x", "temperature": 0}, endpoint=Endpoint.COMPLETIONS)["max_tokens"] == 16
    assert shape({"prompt": "x", "temperature": 0, "max_tokens": 5}, endpoint=Endpoint.COMPLETIONS)["max_tokens"] == 5


def test_as_many_alternatives_are_asked_for_as_the_shadow_is_to_give() -> None:
    assert shape({"messages": []}, top=7)["asked_top"] == 7
