"""Every writer by the name of its dialect.

House rules. The one file that knows all writers.
"""

from __future__ import annotations

from engines.scripted.engine import Writer
from engines.scripted.writers import (
    llama_cpp,
    lmdeploy,
    ollama,
    openai,
    reference,
    sglang,
    tensorrt_llm,
    tgi,
    transformers,
    vllm,
)

_WRITERS: dict[str, Writer] = {
    one.name: one
    for one in (
        vllm.WRITER,
        sglang.WRITER,
        llama_cpp.WRITER,
        ollama.WRITER,
        lmdeploy.WRITER,
        tensorrt_llm.WRITER,
        tgi.WRITER,
        transformers.WRITER,
        reference.WRITER,
        openai.WRITER,
    )
}

#: The dialects that can be spoken.
NAMES = tuple(sorted(_WRITERS))


def writer(name: str) -> Writer:
    """Return the writer of that name. Raises KeyError that lists the names."""
    found = _WRITERS.get(name)
    if found is None:
        raise KeyError(f"no dialect {name!r}: choose one of {', '.join(NAMES)}")
    return found
