"""The client's request as the judge needs it: which route, what was asked, is it greedy.

House rules. Pure. The request is read leniently (the primary has already answered it; whether it was valid is the primary's
business) and not altered: ``body`` is the parsed JSON, and whoever wants another one makes a copy. But for one thing: where some gateways let a
body say whom to ask and with which key, that goes no further than here, neither to another engine nor into a record.
"""

from __future__ import annotations

from typing import TypeGuard

import orjson
from msgspec import Struct

from engines.dialect import Defaults, Endpoint, Json
from engines.ollama_native import ROUTES, as_openai
from proxy.exchange import Exchange
from proxy.judge.scope import out_of_scope
from proxy.ledger.record import RequestFacts
from proxy.traffic.content_coding import CodingError, decode_body
from proxy.traffic.routes import route_of

#: orjson reads 1,024 levels and writes 254; only a body with so many brackets can be that deep.
_DEEP = 250
#: Values in one body. Each costs some 60 bytes once parsed, twenty times what it costs in the capture; a prompt of 300,000 token ids still fits.
_MANY = 500_000


#: LiteLLM's and other gateways' words for a destination and its credentials. A mirrored body carries our key for the shadow: with a destination of the
#: client's choice beside it, a gateway there would send its provider's key to that address (CVE-2024-6587).
_DESTINATIONS = frozenset({
    "api_key", "api_base", "api_version", "base_url", "extra_headers", "extra_query", "azure_ad_token", "aws_access_key_id", "aws_secret_access_key",
    "aws_session_token", "aws_bedrock_runtime_endpoint", "vertex_credentials", "vertex_project", "vertex_location",
})  # fmt: skip


class Unreadable(Exception):
    """The request cannot be compared; ``reason`` is a bounded label."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Asked(Struct, frozen=True):
    """One readable request.

    ``temperature`` is the client's own value, None when omitted or, with ``temperature_known`` false, when it is there and no number (an engine
    may take "1" for 1, or refuse it).
    """

    endpoint: Endpoint
    path: str
    body: Json
    model: str
    temperature: float | None
    temperature_known: bool

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for."""
        return self.body.get("stream") is True

    @property
    def n(self) -> int:
        """How many choices for each prompt."""
        n = self.body.get("n")
        return n if isinstance(n, int) and n > 0 else 1

    @property
    def max_tokens(self) -> int | None:
        """The bound on each choice's length, None where the client set none."""
        for key in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
            value = self.body.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None

    @property
    def has_tools(self) -> bool:
        """Whether tools were offered."""
        return bool(self.body.get("tools") or self.body.get("functions"))

    @property
    def logprobs(self) -> bool:
        """Whether the client asked for logprobs itself."""
        value = self.body.get("logprobs") if self.endpoint.by_token else None
        return value is True or (isinstance(value, int) and self.endpoint is Endpoint.COMPLETIONS)

    def effective_temperature(self, defaults: Defaults) -> float | None:
        """What the engine used: the client's value, else the engine's default; None when neither is known, and where nothing is drawn."""
        if not self.endpoint.generates:
            return None
        if self.temperature is not None or not self.temperature_known:
            return self.temperature
        return defaults.temperature

    def greedy(self, defaults: Defaults, greedy_at: float) -> bool:
        """Whether the same request gives the same reply, but for noise: drawn greedily, or not drawn at all (embeddings, scores)."""
        if not self.endpoint.generates:
            return True
        temperature = self.effective_temperature(defaults)
        return temperature is not None and temperature <= greedy_at

    def unfiltered(self, defaults: Defaults) -> bool:
        """Whether the engine drew from its own distribution as it is: temperature 1, nothing cut, penalised, biased or prescribed.

        Unknown defaults count as filters: then k3 is a score and not an estimate of a KL (statistics: only then is it one).
        """
        cuts = (("top_p", 1.0, defaults.top_p), ("top_k", 0, defaults.top_k), ("min_p", 0.0, defaults.min_p))
        whole = all(
            (self.body[key] if self.body.get(key) is not None else default) == value for key, value, default in cuts
        )
        plain = whole and self._unbent() and not self.body.get("tools")
        return plain and self.effective_temperature(defaults) == 1.0

    def unprocessed(self, defaults: Defaults) -> bool:
        """Whether raw and processed logprobs are the same numbers: drawn as ``unfiltered`` says, or greedy without penalties, bias and grammar.

        A greedy request has no temperature, and engines that report processed values (SGLang, TGI, vLLM when started so) neither scale nor cut those of one.
        """
        forced_call = bool(self.body.get("tools")) and self.body.get("tool_choice") not in (None, "auto", "none")
        greedy = self.effective_temperature(defaults) == 0.0 and not forced_call and self._unbent()
        return greedy or self.unfiltered(defaults)

    def _unbent(self) -> bool:
        """Whether nothing is penalised, biased or prescribed."""
        neutral = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0}
        plain = all(self.body.get(key) is None or self.body[key] == value for key, value in neutral.items())
        return plain and not any(
            self.body.get(key)
            for key in ("logit_bias", "response_format", "guided_json", "structured_outputs", "grammar")
        )

    def out_of_scope(self) -> str | None:
        """Why no other engine's reply can be held against this one's, a bounded label; None when nothing is in the way."""
        return out_of_scope(self.endpoint, self.body)

    def stops(self) -> tuple[str, ...]:
        """The request's stop strings."""
        stop = self.body.get("stop_sequences" if self.endpoint is Endpoint.MESSAGES else "stop")
        if isinstance(stop, str):
            return (stop,)
        return tuple(text for text in stop if isinstance(text, str)) if isinstance(stop, list) else ()

    def facts(self, temperature: float | None) -> RequestFacts:
        """The part that goes into a record."""
        return RequestFacts(
            stream=self.stream,
            n=self.n,
            temperature=temperature,
            max_tokens=self.max_tokens,
            has_tools=self.has_tools,
            logprobs_asked=self.logprobs,
        )


def header(headers: tuple[tuple[bytes, bytes], ...], name: bytes) -> str:
    """The first value of a header, or an empty text."""
    for key, value in headers:
        if key.lower() == name:
            return value.decode("latin-1")
    return ""


def read_request(exchange: Exchange, cap: int) -> Asked:
    """Read a captured request; ``cap`` bounds its decoded size in bytes. Raises Unreadable."""
    path = exchange.target.partition("?")[0]
    endpoint = endpoint_of(path)
    if endpoint is Endpoint.OTHER:
        raise Unreadable("endpoint")
    return asked(endpoint, path, read_body(exchange, cap))


def read_body(exchange: Exchange, cap: int) -> Json:
    """The request's JSON object. Raises Unreadable."""
    try:
        data, coding = exchange.request_body, header(exchange.request_headers, b"content-encoding")
        if coding or len(data) > cap:
            data = decode_body(coding, data, cap)
        if len(data) > _MANY and data.count(b",") + data.count(b"[") + data.count(b"{") > _MANY:
            raise Unreadable("request_too_complex")
        body = orjson.loads(data)
        if len(data) > 2 * _DEEP and data.count(b"[") + data.count(b"{") > _DEEP:
            orjson.dumps(body)  # what cannot be written again cannot be sent on
    except CodingError:
        raise Unreadable("request_encoding") from None
    except orjson.JSONDecodeError:
        raise Unreadable("request_not_json") from None
    except orjson.JSONEncodeError:
        raise Unreadable("request_too_deep") from None
    if not isinstance(body, dict):
        raise Unreadable("request_not_json")
    for name in _DESTINATIONS & body.keys():
        del body[name]
    return body


def endpoint_of(path: str) -> Endpoint:
    """The route class of a raw path, whatever prefix stands before it: the live path's own, where it is inference."""
    route = route_of(path.encode("latin-1", "replace"))
    return Endpoint(route.endpoint) if route.mirrored else Endpoint.OTHER


def asked(endpoint: Endpoint, path: str, body: Json) -> Asked:
    """Pick out of a parsed body what every exchange is looked at for. A body for Ollama's own routes says the same in other words, and is given OpenAI's too."""
    if path.endswith(ROUTES):
        body = as_openai(body)
    temperature, model = body.get("temperature"), body.get("model")
    number = float(temperature) if _is_number(temperature) else None
    known = number is not None or temperature is None
    return Asked(endpoint, path, body, model if isinstance(model, str) else "", number, known)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
