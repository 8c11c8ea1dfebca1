"""Every dialect by name, and which one an unknown engine speaks.

House rules. The one file that knows all dialects. Detection asks only harmless GET routes and believes what an engine says of itself;
the baseline is the answer when nothing tells.
"""

from __future__ import annotations

from engines import (
    hosted,
    llama_cpp,
    lmdeploy,
    ollama,
    openai,
    reference_dialect,
    sglang,
    tensorrt_llm,
    tgi,
    transformers,
    vllm,
)
from engines.dialect import Answer, Call, Dialect, DialectError, Fetch, Json
from engines.lenient_json import NotJson, loads

_DIALECTS: dict[str, Dialect] = {
    one.name: one
    for one in (
        openai.DIALECT,
        vllm.DIALECT,
        llama_cpp.DIALECT,
        transformers.DIALECT,
        reference_dialect.DIALECT,
        sglang.DIALECT,
        lmdeploy.DIALECT,
        ollama.DIALECT,
        tensorrt_llm.DIALECT,
        tgi.DIALECT,
        *hosted.DIALECTS,
    )
}

#: The names ``dialect`` knows.
NAMES = tuple(sorted(_DIALECTS))

#: ``owned_by`` in ``/v1/models``, where it names the engine.
_OWNERS = {
    "vllm": "vllm",
    "llamacpp": "llama_cpp",
    "parhelion": "reference",
    "sglang": "sglang",
    "lmdeploy": "lmdeploy",
    "library": "ollama",
    "tensorrt_llm": "tensorrt_llm",
    "local": "transformers",
}


def dialect(name: str) -> Dialect:
    """Return the dialect of that name. Raises KeyError that lists the names."""
    found = _DIALECTS.get(name)
    if found is None:
        raise KeyError(f"no dialect {name!r}: choose one of {', '.join(NAMES)}")
    return found


async def detect(fetch: Fetch) -> str:
    """Return the name of the dialect an engine speaks, ``openai`` when it is one but does not say which.

    Raises DialectError: the transport's label when it cannot be reached, ``status_401`` and the like when it refuses, ``not_an_engine``
    when no route answers as an engine does.
    """
    models = await fetch(Call("/v1/models", method="GET"))
    if models.failure is not None:
        raise DialectError(models.failure, "/v1/models")
    if ("server", "llama.cpp") in models.headers:
        return "llama_cpp"
    listed = _object(models)
    entries = listed.get("data") if listed else None
    entry = entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else {}
    owner = entry.get("owned_by")
    if isinstance(owner, str) and owner in _OWNERS:
        return _OWNERS[owner]
    for path, keys, name in (
        ("/props", {"default_generation_settings"}, "llama_cpp"),
        ("/info", {"model_id", "max_concurrent_requests"}, "tgi"),
        ("/model_info", {"model_path", "is_generation"}, "sglang"),  # before Ollama's route, which SGLang has too
        ("/get_model_info", {"model_path", "is_generation"}, "sglang"),
        ("/api/version", {"version"}, "ollama"),
        ("/version", {"version", "engine"}, "reference"),
        ("/version", {"version"}, "vllm"),
    ):
        answer = _object(await fetch(Call(path, method="GET")))
        if answer and keys <= answer.keys():
            return name
    if isinstance(entries, list):
        return "openai"
    if models.status in (401, 403):
        raise DialectError(f"status_{models.status}", "/v1/models: the engine wants an api_key")
    raise DialectError("not_an_engine", "no /v1/models, /props, /info or /version as engines have them")


def _object(answer: Answer) -> Json | None:
    if answer.failure is not None or answer.status != 200:
        return None
    try:
        value = loads(answer.body)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None
