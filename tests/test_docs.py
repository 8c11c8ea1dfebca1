"""What is documented exists, and what exists is documented: flags, keys, metrics, commands, reasons."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import msgspec
import pytest
import yaml
from cyclopts import App

from proxy import cli
from proxy.app.engine_commands import engine
from proxy.app.probes_command import probes
from proxy.config import Config, Drift, Shadow, Spool
from proxy.config_load import load
from proxy.ledger import reference
from proxy.ledger.metrics import METRICS
from proxy.ledger.pages import routes
from tests import screenshots

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GRAFANA = (ROOT / "grafana" / "README.md").read_text(encoding="utf-8")
COMMANDS = ["serve", "check", "footprint", "demo", "report", "export", "purge", "rollouts", "replay"]


def flags(function: object) -> set[str]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return {
        f"--{name.replace('_', '-')}"
        for name, one in signature.parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    }


def known_flags() -> set[str]:
    found = {"--help", "--version"}
    for app, names in ((cli.app, COMMANDS), (engine, ["reference", "vllm", "scripted"]), (probes, ["mine", "run"])):
        for name in names:
            found |= flags(app[name].default_command)
    return found


def test_every_command_is_in_the_readme() -> None:
    assert isinstance(cli.app, App)
    for name in [*COMMANDS, "engine reference", "engine vllm", "engine scripted", "probes mine", "probes run"]:
        assert f"parhelion {name}" in README


def test_every_flag_the_readme_names_exists() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", README))
    foreign = {"--enforce-eager"}  # vLLM's own
    assert named - foreign <= known_flags()


def test_every_flag_of_serve_is_in_the_readme() -> None:
    assert flags(cli.serve) <= set(re.findall(r"--[a-z-]+", README))


def test_every_parameter_of_every_command_is_explained() -> None:
    for app, names in ((cli.app, COMMANDS), (engine, ["reference", "vllm", "scripted"]), (probes, ["mine", "run"])):
        for name in names:
            function = app[name].default_command
            text = inspect.getdoc(function) or ""
            for parameter in inspect.signature(function).parameters:
                assert re.search(rf"^{parameter}$", text, re.MULTILINE), f"{name}: {parameter}"


@pytest.mark.parametrize("path", ["README.md", "grafana/README.md", "deploy/README.md"])
def test_every_metric_that_is_named_exists(path: str) -> None:
    known = {metric.name for metric in METRICS}
    known |= {
        f"{metric.name}_{suffix}"
        for metric in METRICS
        if metric.kind == "histogram"
        for suffix in ("bucket", "sum", "count")
    }
    assert set(re.findall(r"parhelion_[a-z_]+[a-z]", (ROOT / path).read_text(encoding="utf-8"))) <= known


def test_the_table_of_metrics_is_that_of_the_declarations() -> None:
    """Mend it with `python -m proxy.ledger.reference`."""
    assert reference.renewed(GRAFANA) == GRAFANA


def test_the_example_configuration_loads_and_shows_every_default() -> None:
    path = ROOT / "deploy" / "parhelion.yaml"
    config = load(path, {}, {})
    shown = yaml.safe_load(path.read_text(encoding="utf-8"))
    for field in msgspec.structs.fields(Config):
        if field.name == "handoff":  # accepted, and without effect in this version
            continue
        mentioned = field.name in shown or f"# {field.name}:" in path.read_text(encoding="utf-8")
        assert mentioned, field.name
        if field.name not in {"primary", "shadows", "admin_token", "verdict"}:
            assert getattr(config, field.name) == getattr(Config(), field.name), field.name
    text = path.read_text(encoding="utf-8")
    for field in msgspec.structs.fields(Shadow):
        assert re.search(rf"\b{field.name}:", text), field.name
    assert (config.spool, config.drift) == (Spool(), Drift())


def test_the_example_configuration_of_prometheus_is_yaml() -> None:
    assert yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]


def test_every_file_the_readmes_point_at_exists() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("*/README.md"), *ROOT.glob("proxy/*/README.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_the_picture_is_of_the_demo_as_it_runs_by_default() -> None:
    """Make it anew with `python -m proxy.demo.picture REPORT.json .github/demo-report.svg`."""
    default = inspect.signature(cli.demo).parameters["requests"].default
    picture = (ROOT / ".github" / "demo-report.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    assert f"requests: {default} received" in picture


def test_every_page_and_every_picture_is_in_the_readme() -> None:
    """Take the pictures anew with `make screenshots`."""
    pages = {one.path for one in routes.pages() if one.markup and one.method == "GET"} - {"/api", "/login"}
    assert {path.replace("{id}", "ID") for path in pages} <= set(re.findall(r", `(/[^`]*)` \|", README))
    pictures = {f".github/{path.name}" for path in (ROOT / ".github").iterdir() if path.suffix in (".png", ".svg")}
    assert pictures == set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README))
    assert {f".github/{name}.png" for name in screenshots.PICTURES} <= pictures


def test_every_test_that_the_threat_model_names_exists() -> None:
    text = (ROOT / ".github" / "THREAT_MODEL.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 60
    for path, test in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {test or 'test_'}", source, re.MULTILINE), f"{path}::{test}"


def test_every_row_of_the_threat_model_has_its_proof() -> None:
    text = (ROOT / ".github" / "THREAT_MODEL.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+\.\d+) \| ([STRIDE, ]+) \|.*$", text, re.MULTILINE)
    assert len(rows) > 45
    for line in text.splitlines():
        if re.match(r"\| (?!12\.)\d+\.\d+ \|", line):
            assert "`tests/" in line, line[:60]
