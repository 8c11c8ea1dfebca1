"""The engines' own models, each in a process of its own Python."""

import json
import os
import select
import subprocess
from pathlib import Path

import pytest

from tests import programs

HERE = Path(__file__).parent
#: Importing takes seconds, on a busy machine half a minute.
SECONDS = 180


class Models:
    """One engine's models: ``models("accept", model=..., body=...)`` is the answer of that job there."""

    def __init__(self, python, script):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTEST"))}
        self.process = subprocess.Popen(
            [python, str(HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment,
        )
        assert self._answer() == "ready"

    def __call__(self, do, **what):
        self.process.stdin.write(json.dumps({"do": do, **what}) + "\n")
        self.process.stdin.flush()
        answer = self._answer()
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def _answer(self):
        assert select.select([self.process.stdout], [], [], SECONDS)[0], "no answer"
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait(SECONDS)}"
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(SECONDS)


def _models(name):
    models = Models(str(programs.need(programs.ALL[name]) / "python"), f"{name}_models.py")
    yield models
    models.close()


@pytest.fixture(scope="session")
def sglang():
    yield from _models("sglang")


@pytest.fixture(scope="session")
def lmdeploy():
    yield from _models("lmdeploy")
