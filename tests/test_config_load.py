"""Configuration: every mistake is one line that names the key and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import config as declared
from proxy.config import Config
from proxy.config_file import ConfigError
from proxy.config_load import _SIZES, _TIMES, load

MINIMAL = {"primary": {"url": "http://127.0.0.1:9"}}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "parhelion.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(tree: dict[str, Any], environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(None, environment or {}, tree)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_flags_alone_are_enough() -> None:
    config = load(None, {}, MINIMAL)
    assert config.primary.url == "http://127.0.0.1:9"
    assert config.sampling.rate == 0.05


def test_the_contracts_example_loads(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
listen: 0.0.0.0:8000
admin: 127.0.0.1:8001
admin_token: ${PARHELION_ADMIN_TOKEN}
drain: 60s
primary: {url: "http://vllm:8000", host: rewrite, declare: {}, engine: auto, logprobs: client}
shadows:
  - name: sglang-h200
    role: candidate
    url: http://sglang:30000
    models: {llama-3.1-8b: meta-llama/Llama-3.1-8B-Instruct}
    api_key: ${SHADOW_KEY}
    modes: [free, forced]
    top_logprobs: 20
    deadline: 120s
    declare: {accumulation: fp32, gpu: H200}
sampling:
  rate: 0.05
  by: request
  salt: ${PARHELION_SALT}
  rules: [{match: {model: "llama-*", has_tools: true}, rate: 1.0}]
limits: {in_flight: 64, requests_per_second: null, tokens_per_day: null, capture_bytes: 8MiB, queue_bytes: 256MiB}
timeouts: {head: 10s, connect: 5s, idle: 300s}
models: []
records: {url: "sqlite:///parhelion.db", content: hash, keep: 7d, max_bytes: 5GB}
spool: {path: parhelion.spool, max_bytes: 1GiB}
handoff: local
verdict: {alpha: 0.01, margin: 0.01, allowance: 0.01, near_tie: auto}
drift: {mean_conversations_between_false_alarms: 1_000_000}
""",
    )
    config = load(path, {"PARHELION_ADMIN_TOKEN": "t", "SHADOW_KEY": "k", "PARHELION_SALT": "s"}, {})
    assert config.limits.capture_bytes == 8 << 20
    assert config.records.keep == 7 * 86400
    assert config.records.max_bytes == 5_000_000_000
    assert config.shadows[0].deadline == 120
    assert config.shadows[0].api_key == "k"
    assert config.sampling.highest == 1.0


def test_environment_goes_over_file_and_flags_over_both(tmp_path: Path) -> None:
    path = write(tmp_path, "primary: {url: http://file}\nsampling: {rate: 0.1}\nprocesses: 2\n")
    environment = {
        "PARHELION__SAMPLING__RATE": "0.2",
        "PARHELION__PROCESSES": "3",
        "PARHELION__TIMEOUTS__HEAD": "500ms",
    }
    config = load(path, environment, {"processes": 4})
    assert (config.sampling.rate, config.processes, config.timeouts.head) == (0.2, 4, 0.5)


def test_environment_addresses_lists_by_number() -> None:
    environment = {
        "PARHELION__PRIMARY__URL": "http://p",
        "PARHELION__SHADOWS__0__NAME": "b",
        "PARHELION__SHADOWS__0__URL": "http://b",
        "PARHELION__SHADOWS__0__API_KEY": "0123",
    }
    shadow = load(None, environment, {}).shadows[0]
    assert (shadow.name, shadow.api_key) == ("b", "0123")  # a key is text even where it looks like a number


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({}, "primary.url: is required"),
        ({"primry": {}}, "primry: unknown key; did you mean primary?"),
        ({"a\nb": None}, "'a\\nb': unknown key; known here: listen, "),
        ({"primary": {"url": "http://a", "tls": 1}}, "primary.tls: unknown key; "),
        (MINIMAL | {"shadows": [{"name": "x"}]}, "shadows[0].url: is required; add it"),
        (
            MINIMAL | {"shadows": [{"name": "x", "url": "http://x", "modls": {}}]},
            "shadows[0].modls: unknown key; did you mean models?",
        ),
        (
            MINIMAL | {"shadows": [{"name": "x y", "url": "http://x"}]},
            "shadows[0].name = 'x y': give letters, digits, dots, dashes and underscores",
        ),
        (MINIMAL | {"shadows": [{"name": "x", "url": "http://x"}] * 2}, "shadows[1].name: 'x' is taken"),
        (MINIMAL | {"shadows": [{"name": "x", "url": "http://x", "modes": []}]}, "shadows[0].modes: "),
        (
            MINIMAL | {"shadows": [{"name": "x", "url": "ftp://x"}]},
            "shadows[0].url: 'ftp://x' is not an http:// or https:// URL",
        ),
        (MINIMAL | {"sampling": {"rate": 1.5}}, "sampling.rate = 1.5: give a share from 0 to 1"),
        (
            MINIMAL | {"sampling": {"by": "header"}},
            "sampling.by = 'header': give request, conversation or header:NAME",
        ),
        (MINIMAL | {"records": {"content": "all"}}, "records.content = 'all': give one of none, hash, text"),
        (
            MINIMAL | {"shadows": [{"name": "x", "url": "http://x", "modes": ["fre"]}]},
            "shadows[0].modes[0] = 'fre': give one of free, forced",
        ),
        (MINIMAL | {"spool": {"path": None}}, "spool.path = null: give a directory; to keep nothing on disk write `sp"),
        (
            MINIMAL | {"verdict": {"near_tie": "no"}},
            "verdict.near_tie = 'no': give nats above 0 (100 at most), or auto",
        ),
        (
            MINIMAL | {"verdict": {"near_tie": float("inf")}},
            "verdict.near_tie = inf: give nats above 0 (100 at most), or auto",
        ),
        (
            MINIMAL | {"verdict": {"alpha": "1e-3"}},
            "verdict.alpha = '1e-3': give a probability above 0 and below 0.5; to YAML this is text: write it with a dot and a sign, as 1.0e-3",
        ),
        (MINIMAL | {"limits": {"in_flight": "many"}}, "limits.in_flight = 'many': expected a whole number, got text"),
        (MINIMAL | {"processes": True}, "processes = true: expected a whole number, got true or false"),
        (
            MINIMAL | {"sampling": {"rules": [{"match": {"stream": "x"}, "rate": 1}]}},
            "sampling.rules[0].match.stream = 'x': expected true or false, got text",
        ),
        (
            MINIMAL | {"sampling": {"rules": [{"match": {"modle": "x"}, "rate": 1}]}},
            "sampling.rules[0].match.modle: unknown key; did you mean model?",
        ),
        (MINIMAL | {"timeouts": {"head": "10 parsecs"}}, "timeouts.head: '10 parsecs' is not a time such as"),
        (MINIMAL | {"limits": {"queue_bytes": "1Gib"}}, "limits.queue_bytes: '1Gib' is not a size such as"),
        (
            {"primary": {"url": "http://localhost:8000"}},
            "primary.url: http://localhost:8000 is where clients are listened for (0.0.0.0:8000)",
        ),
        (
            MINIMAL | {"listen": "10.0.0.1:80", "shadows": [{"name": "x", "url": "http://10.0.0.1"}]},
            "shadows[0].url: http://10.0.0.1 is where",
        ),
        (
            MINIMAL | {"shadows": [{"name": "x", "url": "http://x", "api_key": "a b"}]},
            "shadows[0].api_key: is empty, or holds a blank",
        ),
        (MINIMAL | {"admin_public": ["metrics", "nosuchpage"]}, "admin_public: 'nosuchpage' is no page; give any of "),
        (MINIMAL | {"listen": "8000"}, "listen: '8000' is not HOST:PORT"),
        (MINIMAL | {"drain": "sk-abcdefghijklmnopqrstuvwxyz"}, "drain: a text of 29 characters is not a time such as"),
        (MINIMAL | {"listen": "0.0.0.0:99999"}, "listen: '0.0.0.0:99999' is not HOST:PORT"),
        (MINIMAL | {"listen": "127.0.0.1:80", "admin": "127.0.0.1:80"}, "admin: shares port 80 with listen"),
        (
            MINIMAL | {"admin": "0.0.0.0:8001"},
            "admin_token: is required when admin is not a loopback address; write admin_token: ${PARHELION_ADMIN_TOKEN} in",
        ),
        (MINIMAL | {"handoff": "nats://x"}, "handoff: 'nats://x' is not available"),
        (
            MINIMAL | {"primary": {"url": "http://a", "logprobs": "all"}},
            "primary.logprobs = 'all': give one of client, ",
        ),
        (MINIMAL | {"records": {"url": "mysql://x"}}, "records.url: "),
        ({"primary": {"url": "http://u:p@h"}}, "primary.url: holds a credential"),
        ({"primary": {"url": "http://h:0"}}, "primary.url: "),
        ({"primary": {"url": "http://h:x"}}, "primary.url: is not a URL with a valid port"),
        ({"primary": {"url": "http://h/?q=1"}}, "primary.url: "),
        (
            {"primary": {"url": "${NOPE}"}},
            "primary.url: the environment variable NOPE is not set; export it, or delete the key",
        ),
        (
            MINIMAL | {"shadows": [{"name": c, "url": "http://x", "role": "control"} for c in "ab"]},
            "shadows: more than one",
        ),
    ],
)
def test_each_mistake_names_its_key(tree: dict[str, Any], expected: str) -> None:
    assert refused(tree).startswith(expected)


def test_a_secret_is_never_shown() -> None:
    tree = MINIMAL | {"shadows": [{"name": "x", "url": "http://x", "api_key": 81726354}]}
    assert "81726354" not in refused(tree)
    assert "hunter2" not in refused({"primary": {"url": "http://user:hunter2@host"}})


def test_who_only_reads_records_needs_no_keys(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "admin: 0.0.0.0:8001\nadmin_token: ${NOT_SET}\nprimary: {url: 'http://a', api_key: '${NOT_SET}'}\nrecords: {url: 'sqlite:///${HERE}.db'}\n",
    )
    with pytest.raises(ConfigError, match="NOT_SET is not set"):
        load(path, {"HERE": "x"}, {})
    assert load(path, {"HERE": "x"}, {}, secrets=False).records.url == "sqlite:///x.db"
    with pytest.raises(ConfigError, match=r"records\.url: the environment variable HERE is not set"):
        load(path, {}, {}, secrets=False)


@pytest.mark.parametrize(
    ("section", "values", "said"),
    [
        ("verdict", {"alpha": 0}, "above 0 and below 0.5"),
        ("verdict", {"alpha": 0.5}, "above 0 and below 0.5"),
        ("verdict", {"margin": 1.0}, "above 0 and below 1"),
        ("verdict", {"allowance": -0.1}, "above 0 and below 1"),
        ("drift", {"mean_conversations_between_false_alarms": 5}, "from 100 on"),
    ],
)
def test_terms_that_no_verdict_can_have_are_refused(section: str, values: dict[str, float], said: str) -> None:
    (key,) = values
    with pytest.raises(ConfigError, match=rf"{section}\.{key}.*{said}"):
        load(None, {}, MINIMAL | {section: values})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "is not YAML"),
        ("- a\n", "must be a mapping"),
        ("listen: a:1\nlisten: b:2\n", "line 2: the key 'listen' is given twice"),
        ("1: x\n", "line 1: the key 1 is not text"),
        ("a: !!python/object/apply:os.system [true]\n", "is not YAML"),
        ("a: &a [*a]\n", "more than 100,000 values once its aliases are written out"),
        (
            "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{'*a' + str(n - 1) + ', '}*a{n - 1}]\n" for n in range(1, 40)),
            "more than 100,000 values once its aliases are written out",
        ),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=r"parhelion\.yaml") as caught:
        load(write(tmp_path, text), {}, {})
    assert expected in str(caught.value)


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "99999999999999999999", '"\\ud800"'])
def test_what_no_stack_can_be_is_not_declared(tmp_path, value):
    text = f"primary: {{url: 'http://a'}}\nshadows: [{{name: s, url: 'http://b', declare: {{top_k: {value}}}}}]\n"
    with pytest.raises(
        ConfigError, match=r"^shadows\[0\]\.declare\.top_k = .*: give a finite number of at most 64 bits"
    ):
        load(write(tmp_path, text), {}, {})
    with pytest.raises(ConfigError, match=r"^primary\.declare\.gpu = "):
        load(write(tmp_path, f"primary: {{url: 'http://a', declare: {{gpu: {value}}}}}\n"), {}, {})


def test_an_alias_says_a_part_again(tmp_path: Path) -> None:
    text = "primary: {url: 'http://a', declare: &same {gpu: H200}}\nshadows: [{name: s, url: 'http://b', declare: *same}]\n"
    assert load(write(tmp_path, text), {}, {}).shadows[0].declare == {"gpu": "H200"}


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.yaml", {}, {})


def test_every_time_and_size_of_the_model_takes_units() -> None:
    """The tables of the loader and the annotations of the model say the same."""
    units = {"Seconds": _TIMES, "Bytes": _SIZES}
    seen = set()

    def walk(kind: type, path: str) -> None:
        for field in msgspec.structs.fields(kind):
            text = kind.__annotations__[field.name]
            here = f"{path}{field.encode_name}"
            if text in units:
                seen.add(here)
                assert units[text].match(here), here
            else:
                assert not any(pattern.match(here) for pattern in units.values()), here
            inner = getattr(
                declared, str(text).removeprefix("tuple[").removesuffix(", ...]").removesuffix(" | None"), None
            )
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                walk(inner, f"{here}[0]." if str(text).startswith("tuple") else f"{here}.")

    walk(Config, "")
    assert len(seen) == 12


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3),
    )
)
def test_any_tree_gives_a_configuration_or_one_line(tree: Any) -> None:
    said = "nothing"
    try:
        load(None, {}, tree if isinstance(tree, dict) else {"primary": tree})
    except ConfigError as error:
        said = str(error)
    assert said
    assert "\n" not in said
