"""llama.cpp's own HTTP server out of the ``xllamacpp`` wheel, in the foreground: ``python -m engines.llama_server --model FILE --port N``.

One slot and one thread by default: with one slot two runs of the same requests give bit-equal numbers, and llama.cpp's threads spin, so that more of them than
idle cores make it many times slower. House rules: starts one server and waits; knows nothing of Parhelion.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import Any


def main() -> int:
    """Read the options, start the server, wait for SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        prog="python -m engines.llama_server", description="Start llama.cpp's server (extra: parhelion[llama])."
    )
    parser.add_argument("--model", required=True, help="a .gguf file")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alias", help="the model's name in replies")
    parser.add_argument("--context", type=int, default=2048, help="tokens of context a slot")
    parser.add_argument("--parallel", type=int, default=1, help="slots: requests handled at a time")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kv", choices=("f16", "f32"), default="f16", help="type of the KV cache")
    parser.add_argument(
        "--no-prompt-cache",
        action="store_true",
        help="evaluate every prompt anew unless a request asks for the cache: what a reply says then depends on nothing that was asked before",
    )
    parser.add_argument(
        "--embeddings", action="store_true", help="answer embedding requests too, with the last layer's mean"
    )
    options = parser.parse_args()
    if not os.path.isfile(options.model):  # noqa: PTH113 - no need of pathlib here
        print(f"parhelion: --model {options.model}: there is no such file", file=sys.stderr)  # noqa: T201 - a command's own words
        return 1
    try:
        import xllamacpp
    except ImportError:
        print("parhelion: xllamacpp is not installed: pip install 'parhelion[llama]'", file=sys.stderr)  # noqa: T201 - a command's own words
        return 1
    # Blocked before any thread exists, so that every thread of the server inherits it and only sigwait below sees them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    server = xllamacpp.Server(_parameters(xllamacpp, options))
    print(f"llama.cpp server ready: {server.listening_address}", flush=True)  # noqa: T201 - a command's own words
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    # Replies that are still open are cut, as a signal to llama-server cuts them; its destructor would wait for them.
    os._exit(0)


def _parameters(xllamacpp: Any, options: argparse.Namespace) -> Any:
    """Fill llama.cpp's parameters from our options."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = options.model
    parameters.model_alias = {options.alias or os.path.basename(options.model).removesuffix(".gguf")}  # noqa: PTH119 - as above
    parameters.hostnames = [options.host]
    parameters.port = options.port
    parameters.n_ctx = options.context * options.parallel
    parameters.n_parallel = options.parallel
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.endpoint_metrics = parameters.endpoint_props = parameters.endpoint_slots = True
    if options.no_prompt_cache:
        parameters.cache_prompt = False
        parameters.cache_ram_mib = 0
    if options.embeddings:
        parameters.embedding = True
        parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    if options.kv == "f32":
        parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    return parameters


if __name__ == "__main__":
    sys.exit(main())
