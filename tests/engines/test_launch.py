"""How engines are started: command lines, environments, and the real llama.cpp and vLLM under guard."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from engines import launch
from engines.launch import VllmOptions
from engines.process import EngineError, answers, free_port


def test_the_command_line_of_vllm():
    options = VllmOptions(
        model="m", port=1234, dtype="bfloat16", max_model_len=99, served_model_name="s", python="py", extra=("--x", "1")
    )
    assert launch.vllm_command(options) == [
        *("py", "-m", "vllm.entrypoints.openai.api_server", "--model", "m", "--host", "127.0.0.1", "--port", "1234"),
        *(
            "--dtype",
            "bfloat16",
            "--max-logprobs",
            "20",
            "--served-model-name",
            "s",
            "--max-model-len",
            "99",
            "--x",
            "1",
        ),
    ]


def test_the_environment_of_vllm(tmp_path):
    assert launch.vllm_environment(VllmOptions(model="org/name"), {}) == {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_HOST_IP": "127.0.0.1",
    }
    local = launch.vllm_environment(
        VllmOptions(model=str(tmp_path), host="0.0.0.0", threads=3), {"VLLM_CPU_KVCACHE_SPACE": "8"}
    )
    assert local == {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "3",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }


@pytest.mark.parametrize(
    ("host", "is_one"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("gpu-7", False)]
)
def test_loopback(host, is_one):
    assert launch.is_loopback(host) is is_one


def test_the_interpreter_is_the_one_asked_for_then_the_variable_then_the_environment_here(monkeypatch, tmp_path):
    monkeypatch.setenv("PARHELION_VLLM_PYTHON", "from-variable")
    assert launch.engine_python("asked") == "asked"
    assert launch.engine_python() == "from-variable"
    monkeypatch.delenv("PARHELION_VLLM_PYTHON")
    monkeypatch.setattr(launch, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert launch.engine_python() == sys.executable
    built = tmp_path / ".venv-vllm" / "bin" / "python"
    built.parent.mkdir(parents=True)
    built.touch()
    assert launch.engine_python() == str(built)


def test_an_interpreter_without_the_engine_is_refused_with_the_remedy(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(EngineError, match=r"vLLM is not installed for .*make vllm-env.*--python"):
        launch.start_vllm("m", python=str(bare))
    with pytest.raises(EngineError, match=r"torch is not installed for .*parhelion\[reference\]"):
        launch.start_reference("m", python=str(bare))
    with pytest.raises(EngineError, match="No such file"):
        launch.start_vllm("m", python=str(tmp_path / "none"))


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """An interpreter whose vLLM is a small server of ours."""
    package = tmp_path / "packages" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    (package / "api_server.py").write_text(
        "import http.server, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers()\n"
        "port = int(sys.argv[sys.argv.index('--port') + 1])\n"
        "http.server.HTTPServer(('127.0.0.1', port), H).serve_forever()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    return sys.executable


def test_a_port_in_use_is_refused_before_anything_starts(pretended):
    with launch.start_vllm("m", python=pretended) as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(EngineError, match=f"cannot listen on 127.0.0.1:{port}: .*choose another --port"):
            launch.start_vllm("m", python=pretended, port=port)
        assert answers(first.url, "/health")


def test_the_foreground_command_ends_its_engine_on_a_signal(pretended):
    said = []
    options = VllmOptions(model="m", python=pretended, port=free_port())

    def tell(words):
        said.append(words)
        if "ready" in words:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()

    before = signal.getsignal(signal.SIGTERM)
    assert launch.run_vllm(options, tell) == 0
    assert said == [f"vLLM ready: http://127.0.0.1:{options.port}", "stopping vLLM"]
    assert not answers(f"http://127.0.0.1:{options.port}", "/health")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.llama
def test_llama_cpp_starts_answers_and_stops(smollm2_q4, tmp_path):
    with launch.start_llama(smollm2_q4, alias="small", log=tmp_path / "llama.log") as engine:
        assert all(answers(engine.url, path) for path in ("/health", "/props", "/slots", "/metrics", "/v1/models"))
        process = engine.pid
        assert engine.stop() == 0
    assert not Path(f"/proc/{process}").exists()


@pytest.mark.llama
def test_a_model_that_is_no_file_is_said_with_the_log(tmp_path):
    with pytest.raises(EngineError, match=r"llama.cpp ended with status 1 .*llama.log:\n.*there is no such file"):
        launch.start_llama(tmp_path / "none.gguf", log=tmp_path / "llama.log")


@pytest.mark.torch
def test_the_reference_engine_says_what_is_wrong_with_its_model(engine_interpreter, tmp_path):
    with pytest.raises(EngineError, match="no such directory"):
        launch.start_reference(tmp_path / "none", python=engine_interpreter, log=tmp_path / "reference.log")


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_vllm_stopped_while_it_starts_leaves_no_process(smollm2_directories, engine_interpreter, tmp_path):
    log = tmp_path / "vllm.log"
    engine = launch.start_vllm(smollm2_directories["bf16"], python=engine_interpreter, log=log, wait=False)
    limit = time.monotonic() + 300
    # Its engine core is a process of its own: stop when that one is there.
    while "EngineCore pid=" not in log.read_text(errors="replace"):
        assert engine.running, log.read_text()
        assert time.monotonic() < limit
        time.sleep(0.2)
    pids = descendants(engine.pid)
    engine.stop()
    assert len(pids) >= 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def descendants(pid):
    """A process and all that descend from it."""
    children = [
        int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()
    ]
    return [pid, *(found for child in children for found in descendants(child))]
