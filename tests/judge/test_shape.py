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
    defaults: Defaults = DEFAULTS,
    own: Defaults | None = None,
):  # type: ignore[no-untyped-def]
    request = asked(endpoint, "/v1/chat/completions", dict(body))
    return shadow_body(
        request, replace(PLAIN, name=name), models=models or {}, defaults=defaults, top_logprobs=top, own=own
    )


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


def test_a_length_default_of_chats_is_made_explicit_where_it_is_a_number() -> None:
    body = {"messages": [], "temperature": 0}
    assert "max_tokens" not in shape(body)
    assert shape(body, defaults=replace(DEFAULTS, max_tokens_chat=1024))["max_tokens"] == 1024
    limited = body | {"max_completion_tokens": 5}
    assert "max_tokens" not in shape(limited, defaults=replace(DEFAULTS, max_tokens_chat=1024))


def test_a_penalty_is_said_to_an_engine_that_would_use_another() -> None:
    body, mine = {"messages": [], "temperature": 0}, replace(DEFAULTS, repetition_penalty=1.1, presence_penalty=0.0)
    assert shape(body, name="vllm", defaults=mine)["repetition_penalty"] == 1.1
    assert shape(body, name="llama_cpp", defaults=mine)["repeat_penalty"] == 1.1
    assert "repetition_penalty" not in shape(body, name="openai", defaults=mine)
    neutral = replace(DEFAULTS, repetition_penalty=1.0, presence_penalty=0.0)
    assert not {"repetition_penalty", "presence_penalty"} & shape(body, name="vllm", defaults=neutral).keys()
    other = Defaults(repetition_penalty=1.2)
    assert shape(body, name="vllm", defaults=neutral, own=other)["repetition_penalty"] == 1.0
    assert "presence_penalty" not in shape(body, name="tgi", defaults=replace(DEFAULTS, presence_penalty=0.5))


def test_a_repetition_penalty_is_said_under_the_shadows_own_name() -> None:
    body = {"messages": [], "temperature": 0, "repetition_penalty": 1.3}
    sent = shape(body, name="llama_cpp")
    assert (sent["repeat_penalty"], "repetition_penalty" in sent) == (1.3, False)
    back = shape({"messages": [], "temperature": 0, "repeat_penalty": 1.3}, name="vllm")
    assert (back["repetition_penalty"], "repeat_penalty" in back) == (1.3, False)


def test_a_declared_template_argument_is_made_explicit() -> None:
    thinking = replace(DEFAULTS, enable_thinking=False)
    assert shape({"messages": []}, name="vllm", defaults=thinking)["chat_template_kwargs"] == {"enable_thinking": False}
    own = {"messages": [], "chat_template_kwargs": {"enable_thinking": True, "x": 1}}
    assert shape(own, name="vllm", defaults=thinking)["chat_template_kwargs"] == own["chat_template_kwargs"]
    assert "chat_template_kwargs" not in shape({"messages": []}, name="openai", defaults=thinking)
    assert "chat_template_kwargs" not in shape(
        {"prompt": "x"}, name="vllm", defaults=thinking, endpoint=Endpoint.COMPLETIONS
    )
