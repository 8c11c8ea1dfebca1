"""What LMDeploy's routes say of its stack. Options are named as in LMDeploy 0.18's engine configurations."""

import asyncio
import json

from engines.dialect import Answer, Defaults
from engines.facts.gather import gather
from engines.footprint import make


def text(body):
    return Answer(200, (("content-type", "text/plain"),), ((0, body.encode()),))


def collect(scripted, routes):
    return asyncio.run(gather(scripted(routes), "lmdeploy", {"id": "m", "root": "m"}, Defaults()))


METRIC = (
    "# HELP lmdeploy:backend_config_info information of backend_config\n"
    "# TYPE lmdeploy:backend_config_info gauge\n"
    'lmdeploy:backend_config_info{{dtype="bfloat16",tp="2",session_len="4096",enable_prefix_caching="False",eager_mode="True",'
    'quant_policy="{quant}",logprobs_mode="raw_logprobs",block_size="64",model_format="None",revision="None",download_dir="/x/secret"}} 1.0\n'
    'lmdeploy:num_requests_running{{engine="0",model_name="m"}} 0.0\n'
)


def test_the_metric(scripted):
    facts = collect(scripted, {"/metrics": text(METRIC.format(quant="8"))})
    known = make(facts.probed, facts.inferred, {}).as_json()
    assert {name: value for name, value in known.items() if value is not None} == {
        "engine": "lmdeploy",
        "model": "m",
        "dtype": "bf16",
        "kv_cache_dtype": "int8",
        "prefix_caching": False,
        "graph_capture": False,
        "tensor_parallel": 2,
        "logprob_mode": "raw",
        "config_hash": known["config_hash"],
    }
    assert facts.context_length == 4096
    assert "secret" not in str(facts)


def test_how_keys_and_values_are_kept(scripted):
    for quant, kept in (
        ("0", None),
        ("QuantPolicy.NONE", None),
        ("4", "int4"),
        ("QuantPolicy.INT8", "int8"),
        ("17", "fp8_e5m2"),
    ):
        assert collect(scripted, {"/metrics": text(METRIC.format(quant=quant))}).probed["kv_cache_dtype"] == kept


def test_a_metric_without_labels_as_0_18_leaves_it(scripted):
    facts = collect(scripted, {"/metrics": text("lmdeploy:backend_config_info 1.0\n")})
    assert make(facts.probed, facts.inferred, {}).origins()["dtype"] == "unknown"
    assert "config_hash" not in facts.probed


def test_json_in_a_json_text(scripted):
    inner = json.dumps({"tp_size": 4, "dp_size": 1, "block_size": 64})
    assert collect(scripted, {"/distserve/engine_info": text(json.dumps(inner))}).probed["tensor_parallel"] == 4
    assert collect(scripted, {"/distserve/engine_info": text(inner)}).probed["tensor_parallel"] == 4
    for other in ("[1]", '"x', '"[1]"', "7", ""):
        assert collect(scripted, {"/distserve/engine_info": text(other)}).probed["tensor_parallel"] is None
