"""The evaluation harness gives an engine behind Parhelion the scores it gives the engine itself, to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import programs
from tests.engine_fixtures import MODEL
from tests.foreign.twice import HERE, Front, counted, counts, results

pytestmark = [pytest.mark.slow, pytest.mark.llama, pytest.mark.torch, pytest.mark.timeout(600)]

QUESTIONS, CHOICES = 4, 3


def test_the_scores_are_the_same(reference: Front, smollm2_directories: dict[str, Path], tmp_path: Path) -> None:
    before = counts(reference)
    python = programs.need(programs.ALL["lm-eval"]) / "python"
    command = [python, "-P", HERE / "lm_eval_client.py", MODEL, smollm2_directories["fp32"], "sky_choice,sky_recall"]
    direct, through = results(command, reference, {"HF_HOME": str(tmp_path)})
    assert through == direct
    choice, recall = (direct[name]["scores"] for name in ("sky_choice", "sky_recall"))
    assert choice["acc,none"] >= 0.5  # the model knows what the sun is
    assert 0 < recall["exact_match,stripped"] < 1
    likelihoods = [score for reply in direct["sky_choice"]["replies"] for score, _ in reply[1]]
    assert len(likelihoods) == QUESTIONS * CHOICES
    assert all(-30 < score < 0 for score in likelihoods)
    print(
        f"\nlm-eval: acc {choice['acc,none']:.3f}, exact match {recall['exact_match,stripped']:.3f}, the same both ways"
    )
    counted(reference, before, QUESTIONS * (CHOICES + 1), compared=QUESTIONS)
