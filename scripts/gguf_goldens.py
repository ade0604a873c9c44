"""Writes tests/fixtures/families/gguf.json: what llama.cpp's converter makes of the tiny models beside it.

    python scripts/gguf_goldens.py LLAMA_CPP     (a checkout of llama.cpp; torch, transformers, numpy)

Of each model all keys of its architecture, and of each tensor the shape (outermost first) and the CRC-32C of its
float32 bytes. `changes` are merged into the model's config.json first: GGUF has no place for some of what the models say,
and the converter takes a few numbers for what they are in the published models. `not_taken` are keys that it writes by such
a rule although the model says otherwise. The tokenizer, which these models lack, is left out.
"""

import json, pathlib, shutil, sys, tempfile

import numpy as np

LLAMA_CPP = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]
import conversion  # noqa: E402
import gguf  # noqa: E402

FAMILIES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/families"
THETA = {"rope_parameters": {"rope_theta": 10000.0}}
CHANGES = {
    "gemma2": THETA | {"query_pre_attn_scalar": 8},
    "gemma3": {"query_pre_attn_scalar": 4},
    "gpt_neox": THETA | {"rotary_pct": 0.5},
    "mistral": {"sliding_window": None},
    "phi": THETA,
    "starcoder2": {"sliding_window": None},
}
NOT_TAKEN = {"phi": ["phi2.attention.head_count_kv", "phi2.feed_forward_length"],
             "phi3": ["phi3.rope.scaling.original_context_length"],
             "phi3_short": ["phi3.rope.scaling.attn_factor"]}


def merged(config, changes):
    for key, value in changes.items():
        config[key] = merged(config[key], value) if isinstance(value, dict) else value
    return config


def crc32c(data):
    crc = np.uint32(0xFFFFFFFF)
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return int(crc) ^ 0xFFFFFFFF


def row(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [row(byte) for byte in range(256)]


def plain(field):
    value = field.contents()
    if field.types[0] == gguf.GGUFValueType.FLOAT32:
        return float(np.format_float_positional(np.float32(value), unique=True))
    return value


def golden(name, scratch):
    directory = scratch / name
    shutil.copytree(FAMILIES / name, directory)
    config = merged(json.loads((directory / "config.json").read_text()), CHANGES.get(name, {}))
    (directory / "config.json").write_text(json.dumps(config))
    # Gemma 3's embeddings are cut to the size of this vocabulary.
    vocabulary = {"model": {"vocab": {str(i): i for i in range(config["vocab_size"])}}, "added_tokens": []}
    (directory / "tokenizer.json").write_text(json.dumps(vocabulary))
    model_class = conversion.get_model_class(config["architectures"][0])
    without_vocabulary = type("Converter", (model_class,), {
        "model_arch": model_class.model_arch,
        "set_vocab": lambda self: self.gguf_writer.add_tokenizer_model("no_vocab")})
    out = scratch / f"{name}.gguf"
    converter = without_vocabulary(directory, gguf.LlamaFileType.ALL_F32, out, model_name=name)
    converter.hparams = config | converter.hparams  # older names that transformers reads and does not keep
    converter.write()
    reader = gguf.GGUFReader(out)
    arch = reader.fields["general.architecture"].contents()
    keys = {key: plain(field) for key, field in reader.fields.items() if key.startswith(arch + ".")}
    tensors = {tensor.name: [[int(d) for d in reversed(tensor.shape)], crc32c(tensor.data.tobytes())]
               for tensor in reader.tensors}
    return {"architecture": arch, "changes": CHANGES.get(name, {}), "not_taken": NOT_TAKEN.get(name, []), "keys": keys,
            "tensors": tensors}


with tempfile.TemporaryDirectory() as scratch:
    goldens = {path.name: golden(path.name, pathlib.Path(scratch))
               for path in sorted(FAMILIES.iterdir()) if path.is_dir()}
    if len(sys.argv) > 2:  # where to keep the files themselves
        for path in pathlib.Path(scratch).glob("*.gguf"):
            shutil.copy(path, sys.argv[2])
lines = []
for name, one in goldens.items():
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in one.items() if key != "tensors"]
    tensors = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in one["tensors"].items())
    lines.append(f'{json.dumps(name)}: {{\n {(",%s " % chr(10)).join(parts)},\n "tensors": {{\n{tensors}}}}}')
(FAMILIES / "gguf.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
