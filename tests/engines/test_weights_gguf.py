"""The same weights in another layout."""

import json

import numpy as np
import pytest

from engines import weights_gguf
from engines.weights_gguf import ConversionError, huggingface_directories, huggingface_directory


def tensors(directory, kind):
    """The tensors of a safetensors file, bit patterns for bf16."""
    data = (directory / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return {
        name: np.frombuffer(data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]], kind).reshape(
            entry["shape"]
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_values_are_the_dequantised_ones_and_bf16_is_their_rounding(smollm2_q4, smollm2_directories):
    from gguf import GGUFReader
    from gguf.quants import dequantize

    full = tensors(smollm2_directories["fp32"], np.float32)
    narrow = tensors(smollm2_directories["bf16"], np.uint16)
    assert full.keys() == narrow.keys()
    original = {tensor.name: tensor for tensor in GGUFReader(smollm2_q4).tensors}
    for name, source in [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.layers.3.mlp.down_proj.weight", "blk.3.ffn_down.weight"),
        ("model.norm.weight", "output_norm.weight"),
    ]:
        expected = dequantize(original[source].data, original[source].tensor_type)
        assert np.array_equal(full[name], expected.reshape(full[name].shape))
    bits = full["model.embed_tokens.weight"].view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # to nearest, ties to even
    assert np.array_equal(narrow["model.embed_tokens.weight"], rounded)


@pytest.mark.torch
@pytest.mark.timeout(900)
def test_the_directory_speaks_of_no_quantisation_and_has_a_template(smollm2_directories):
    for dtype, name in (("fp32", "float32"), ("bf16", "bfloat16")):
        config = json.loads((smollm2_directories[dtype] / "config.json").read_text())
        assert (config["dtype"], config.get("quantization_config"), config["model_type"]) == (name, None, "llama")
        assert (smollm2_directories[dtype] / "tokenizer.json").is_file()
        assert "<|im_start|>" in (smollm2_directories[dtype] / "chat_template.jinja").read_text()


@pytest.mark.torch
@pytest.mark.slow
def test_a_file_that_is_no_gguf_leaves_nothing_behind(tmp_path, engine_interpreter):
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUX" + bytes(100))
    with pytest.raises(ConversionError, match="GGUF"):
        huggingface_directory(wrong, tmp_path / "cache", python=engine_interpreter)
    assert not list(tmp_path.rglob("*safetensors*"))
    assert not (tmp_path / "cache").exists()


def test_what_is_there_is_not_converted_again(tmp_path, monkeypatch):
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    written = []

    def pretend(gguf, targets):
        written.append(sorted(targets))
        for target in targets.values():
            target.mkdir()

    monkeypatch.setattr(weights_gguf, "convert", pretend)
    monkeypatch.setattr(weights_gguf.importlib.util, "find_spec", lambda name: object())
    first = huggingface_directory(file, tmp_path, dtype="bf16")
    both = huggingface_directories(file, tmp_path, ("fp32", "bf16"))
    assert both["bf16"] == first
    assert huggingface_directory(file, tmp_path) == both["fp32"]
    assert written == [["bf16"], ["fp32"]]
    file.write_bytes(b"GGUF another")
    assert huggingface_directory(file, tmp_path) != both["fp32"]


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(ConversionError, match="fp64: choose one of fp32, bf16, fp16"):
        huggingface_directory(tmp_path / "m.gguf", tmp_path, dtype="fp64")
    with pytest.raises(ConversionError, match=r"none.gguf: there is no such file"):
        huggingface_directory(tmp_path / "none.gguf", tmp_path)
