"""Footprints: origins, one id for one stack, differences that are sure and those that are not, nothing secret."""

import pytest

from engines.footprint import FIELDS, Fact, Origin, changes, difference, make, redact


def test_declared_beats_probed_beats_inferred():
    footprint = make({"dtype": "bf16", "gpu": "H100"}, {"dtype": "fp16", "tensor_parallel": 1}, {"gpu": "H200"})
    assert footprint.fact("dtype") == Fact("bf16", Origin.PROBED)
    assert footprint.fact("gpu") == Fact("H200", Origin.DECLARED)
    assert footprint.fact("tensor_parallel") == Fact(1, Origin.INFERRED)
    assert footprint.fact("driver") == Fact(None, Origin.UNKNOWN)
    assert footprint.value("driver") == ""
    assert footprint.value("tensor_parallel") == "1"
    assert set(footprint.as_json()) == set(FIELDS)
    assert footprint.origins()["driver"] == "unknown"


@pytest.mark.parametrize("nothing", [None, "", "auto", "None", " null ", "unknown"])
def test_values_that_say_nothing_are_unknown(nothing):
    assert make({"dtype": nothing}, {}, {}).fact("dtype").origin is Origin.UNKNOWN


def test_other_names_and_foreign_fields():
    footprint = make({"tp_size": 4, "random_seed": 7, "port": 8000, "api_key": "x"}, {}, {"quantisation": "awq"})
    assert (footprint.value("tensor_parallel"), footprint.value("quantization")) == ("4", "awq")
    assert "7" not in str(footprint.as_json())


@pytest.mark.parametrize(
    ("named", "kept"), [("bfloat16", "bf16"), ("torch.float32", "fp32"), ("F16", "fp16"), ("fp8_e4m3", "fp8_e4m3")]
)
def test_number_formats_have_one_name(named, kept):
    assert make({"dtype": named, "model": named}, {}, {}).value("dtype") == kept


def test_a_field_that_came_later_renames_no_stack_that_does_not_have_it():
    # The id that this stack had when ``planted`` was no field yet: records carry it.
    assert make({"engine": "vllm", "version": "1"}, {}, {}).id == "26bb57f3afabd40e"
    assert make({"engine": "vllm", "version": "1", "planted": "ties=highest"}, {}, {}).id != "26bb57f3afabd40e"


def test_the_id_is_the_stacks_and_not_the_starts():
    one = make({"dtype": "bf16", "random_seed": 1}, {}, {})
    again = make({"random_seed": 2, "dtype": "bf16"}, {}, {})
    other = make({"dtype": "fp16"}, {}, {})
    assert one.id == again.id != other.id
    assert len(one.id) == 16
    assert make({}, {"dtype": "bf16"}, {}).id == one.id  # how a thing is known does not change what it is


def test_differences():
    one = make({"engine": "vllm", "version": "1", "dtype": "bf16", "config_hash": "a", "gpu": "H200"}, {}, {})
    other = make({"engine": "vllm", "version": "2", "dtype": "fp16", "config_hash": "b"}, {}, {})
    found = {each.field: each.sure for each in difference(one, other)}
    assert found == {"version": True, "dtype": True, "gpu": False}
    same = make({"engine": "vllm", "version": "1", "dtype": "bf16", "config_hash": "b", "gpu": "H200"}, {}, {})
    assert [each.field for each in difference(one, same)] == ["config_hash"]
    assert difference(one, one) == ()


def test_secrets_are_left_out_however_deep_they_are():
    shown = {"a": {"api_key": "one", "bits": 4}, "b": [{"auth_token": "two"}]}
    assert make({"quantization": shown}, {}, {}).value("quantization") == '{"a":{"bits":4},"b":[{}]}'


@pytest.mark.parametrize(
    "odd", [float("nan"), float("inf"), 1 << 70, {"a": 1 << 70}, {"a": "\ud800"}, {1: {2: {3: object()}}}]
)
def test_what_cannot_be_compared_is_unknown(odd):
    footprint = make({"tensor_parallel": odd}, {}, {})
    assert footprint == make({}, {}, {})
    assert footprint.id == make({}, {}, {}).id


def test_a_text_has_to_be_text_and_is_looked_through_in_part():
    assert make({"version": "1\ud800"}, {}, {}).value("version") == "1?"
    assert make({"version": "a-" * 500_000}, {}, {}).value("version") == "a-" * 200


def test_nothing_secret_is_kept():
    key = "sk-" + "a" * 20
    assert redact(f"http://me:secret@host/x {key} Bearer abc.def") == "http://[redacted]@host/x [redacted] [redacted]"
    footprint = make({"model": f"https://user:{key}@host/model", "version": "x" * 5000}, {}, {})
    assert key not in str(footprint.as_json())
    assert len(footprint.value("version")) == 400


def test_mappings_are_kept_in_one_order():
    one = make({"sampling_defaults": {"top_p": 1.0, "temperature": 0.8}}, {}, {})
    assert one.value("sampling_defaults") == '{"temperature":0.8,"top_p":1.0}'


@pytest.mark.parametrize(
    "text",
    [
        "https://hub/model?token=abcdef&rev=1",
        "s3://b/m?X-Amz-Signature=abcdef",
        "--api-key=abcdef",
        "password=abcdef",
    ],
)
def test_values_of_telling_names_are_not_kept(text):
    assert "abcdef" not in redact(text)
    assert "[redacted]" in redact(text)


def test_what_an_engine_shows_of_itself_beside_its_stack_is_not_kept():
    shown = {
        "api_key": "abcdef",
        "admin_api_key": "abcdef",
        "ssl_keyfile_password": "abcdef",
        "vllm_env": {"HF_TOKEN": "abcdef"},
        "random_seed": 123456,
        "port": 34567,
        "pid": 45678,
        "start_time": 1764520000,
    }
    footprint = make(shown | {"sampling_defaults": {"top_p": 1.0, "api_key": "abcdef", "max_new_tokens": 9}}, {}, shown)
    kept = str(footprint.as_json())
    assert not any(word in kept for word in ("abcdef", "123456", "34567", "45678", "1764520000"))
    assert footprint.value("sampling_defaults") == '{"max_new_tokens":9,"top_p":1.0}'
    assert footprint.id == make({"sampling_defaults": {"max_new_tokens": 9, "top_p": 1.0}}, {}, {}).id


def test_every_word_of_a_footprint_has_an_origin():
    assert set(make({}, {}, {}).origins().values()) == {"unknown"}
    footprint = make({}, {"logit_step": "bf16"}, {"accumulation": "float32"})
    assert footprint.fact("logit_step") == Fact("bf16", Origin.INFERRED)
    assert footprint.fact("accumulation") == Fact("fp32", Origin.DECLARED)


def test_changes_of_one_stack():
    before = make({"dtype": "bf16", "version": "1", "gpu": "H200"}, {"logit_step": "bf16"}, {})
    after = make({"dtype": "fp16", "version": "1", "kv_cache_dtype": "fp8"}, {"tensor_parallel": 1}, {})
    assert [one.field for one in changes(before, after)] == ["dtype", "kv_cache_dtype"]
    assert changes(after, after) == ()
    assert [one.field for one in changes(before, make({"version": "2"}, {}, {}))] == ["version"]
