"""Checks that the model directories which folio writes load in transformers and compute the same there.

    python scripts/written_models.py FOLIO [--goldens] [CASE ...]

FOLIO is the program; Python needs torch, transformers, safetensors. Run it before each release. For every family, with every
switch at its default and away from it, transformers makes a tiny model whose numbers are all drawn. folio converts it to
a directory of Hugging Face, transformers loads that, and three sets of logits in float32 must agree within 1e-5 of
the largest: of transformers before, of folio, and of transformers after. Nothing may be missing or left over there. Then
folio trains tiny models of its own for a step, and adapters for them: their last/ and base/ must load in the same way.

With --goldens it writes tests/fixtures/families/written.json: the configuration that transformers saved, and the one that
folio wrote for it; of the first case of a family whole, of the others as JSON patches (RFC 6902) of that. The tests of
the model hold folio to these without Python.
"""

import copy, json, pathlib, subprocess, sys, tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/families/written.json"
BOUND, T = 1e-5, 37

SIZES = dict(vocab_size=97, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GPT2 = dict(vocab_size=97, n_embd=32, n_head=4, n_layer=3, n_positions=64, bos_token_id=1, eos_token_id=2)
FULL, WINDOW = "full_attention", "sliding_attention"

# Settings that every family but GPT-2 has.
COMMON = {
    "plain": {},
    "tied": dict(tie_word_embeddings=True),
    "untied": dict(tie_word_embeddings=False),
    "heads": dict(num_key_value_heads=4),
    "one_kv_head": dict(num_key_value_heads=1),
    "no_tokens": dict(bos_token_id=None, eos_token_id=None, pad_token_id=None),
    "ends": dict(eos_token_id=[5, 6]),
    "theta": dict(rope_theta=777.0),
    "linear": dict(rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=500.0)),
    "linear_by_one": dict(rope_parameters=dict(rope_type="linear", factor=1.0, rope_theta=500.0)),
    "llama3": dict(rope_parameters=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=16, rope_theta=500.0)),
    "llama3_away": dict(rope_parameters=dict(rope_type="llama3", factor=1.5, low_freq_factor=2.0, high_freq_factor=5.0,
                                             original_max_position_embeddings=64, rope_theta=500.0)),
    "yarn": dict(rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)),
    "yarn_by_one": dict(rope_parameters=dict(rope_type="yarn", factor=1.0, original_max_position_embeddings=64)),
    "yarn_away": dict(rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32,
                                           beta_fast=20.0, beta_slow=2.0, attention_factor=1.25)),
}
ACTIVATION = {"activation": dict(hidden_act="gelu"), "relu": dict(hidden_act="relu")}
RMS = {"epsilon": dict(rms_norm_eps=0.01)}
HEADS = {"head_dim": dict(head_dim=12)}
ATTENTION_BIAS = {"attention_bias": dict(attention_bias=True), "no_attention_bias": dict(attention_bias=False)}
MLP_BIAS = {"mlp_bias": dict(mlp_bias=True)}
ALL_WINDOWS = {"window": dict(sliding_window=7), "no_window": dict(sliding_window=None),
               "long_window": dict(sliding_window=64)}
QWEN = {
    "window": dict(use_sliding_window=True, sliding_window=7, max_window_layers=0),
    "upper_windows": dict(use_sliding_window=True, sliding_window=7, max_window_layers=2),
    "no_window": dict(use_sliding_window=False, sliding_window=7),
    "kinds": dict(use_sliding_window=True, sliding_window=7, layer_types=[WINDOW, FULL, FULL, WINDOW]),
}
GEMMA = {
    "activation": dict(hidden_activation="gelu"),
    "no_window": dict(layer_types=[FULL] * 4),
    "all_windows": dict(layer_types=[WINDOW] * 4, sliding_window=7),
    "kinds": dict(layer_types=[FULL, WINDOW, FULL, WINDOW], sliding_window=7),
    "long_window": dict(sliding_window=64),
    "scalar_of_heads": dict(query_pre_attn_scalar=8),
    "scalar": dict(query_pre_attn_scalar=11),
    "no_logit_cap": dict(final_logit_softcapping=None),
    "logit_cap": dict(final_logit_softcapping=3.0),
}
GEMMA_SIZES = SIZES | dict(head_dim=8, sliding_window=7, query_pre_attn_scalar=8)


def scaled(full, window):
    """Both objects of Gemma 3."""
    return dict(rope_parameters={FULL: full, WINDOW: window})


LINEAR = dict(rope_type="linear", factor=4.0, rope_theta=500.0)
PLAIN = dict(rope_type="default", rope_theta=500.0)
GEMMA3_ROPE = {
    "theta": scaled(PLAIN, dict(rope_type="default", rope_theta=50.0)),
    "one_theta": scaled(PLAIN, PLAIN),
    "linear": scaled(LINEAR, dict(rope_type="default", rope_theta=50.0)),
    "linear_theta": scaled(LINEAR, PLAIN),
    "linear_both": scaled(LINEAR, LINEAR),
    "linear_no_window": scaled(LINEAR, PLAIN) | dict(layer_types=[FULL] * 7),
    "attention_cap": dict(attn_logit_softcapping=0.5),
}
LONG = dict(rope_type="longrope", rope_theta=500.0, original_max_position_embeddings=16,
            short_factor=[1.0, 1.05, 1.25, 1.5], long_factor=[1.1, 1.9, 5.5, 12.25])


def without(settings, *names):
    return {name: value for name, value in settings.items() if name not in names}


PARTS = {"part": dict(partial_rotary_factor=0.75), "whole": dict(partial_rotary_factor=1.0)}

# Of each family the class, the sizes, and the settings case by case.
FAMILIES = {
    "gpt2": ("GPT2Config", GPT2, {
        "plain": {}, "untied": dict(tie_word_embeddings=False), "inner": dict(n_inner=40),
        "activation": dict(activation_function="gelu"), "unscaled": dict(scale_attn_weights=False),
        "by_layer": dict(scale_attn_by_inverse_layer_idx=True), "upcast": dict(reorder_and_upcast_attn=True),
        "epsilon": dict(layer_norm_epsilon=0.01), "no_tokens": dict(bos_token_id=None, eos_token_id=None)}),
    "llama": ("LlamaConfig", SIZES, COMMON | ACTIVATION | RMS | HEADS | ATTENTION_BIAS | MLP_BIAS),
    "mistral": ("MistralConfig", SIZES, COMMON | ACTIVATION | RMS | HEADS | ALL_WINDOWS),
    "smollm3": ("SmolLM3Config", SIZES, COMMON | ACTIVATION | RMS | ATTENTION_BIAS | MLP_BIAS | {
        "every_second": dict(no_rope_layers=[1, 0, 1, 0]), "interval": dict(no_rope_layer_interval=3),
        "all_turn": dict(no_rope_layers=[1] * 4), "none_turns": dict(no_rope_layers=[0] * 4),
        "window": dict(use_sliding_window=True, sliding_window=7),
        "kinds": dict(use_sliding_window=True, sliding_window=7, layer_types=[WINDOW, FULL, FULL, WINDOW]),
        "unused": dict(use_sliding_window=False, sliding_window=7)}),
    "qwen2": ("Qwen2Config", SIZES, COMMON | ACTIVATION | RMS | QWEN),
    "qwen3": ("Qwen3Config", SIZES | dict(head_dim=8), COMMON | ACTIVATION | RMS | HEADS | ATTENTION_BIAS | QWEN),
    "gemma2": ("Gemma2Config", GEMMA_SIZES, COMMON | RMS | HEADS | ATTENTION_BIAS | GEMMA | {
        "no_attention_cap": dict(attn_logit_softcapping=None), "attention_cap": dict(attn_logit_softcapping=0.5),
        "no_caps": dict(attn_logit_softcapping=None, final_logit_softcapping=None)}),
    "gemma3": ("Gemma3TextConfig", GEMMA_SIZES | dict(num_hidden_layers=7),
               without(COMMON, "theta", "linear", "linear_by_one", "llama3", "llama3_away", "yarn", "yarn_by_one",
                       "yarn_away") | RMS | HEADS | ATTENTION_BIAS | GEMMA3_ROPE |
               {name: {key: (value * 2)[:7] if key == "layer_types" else value for key, value in case.items()}
                for name, case in GEMMA.items()}),
    "olmo2": ("Olmo2Config", SIZES, COMMON | ACTIVATION | RMS | ATTENTION_BIAS),
    "phi3": ("Phi3Config", SIZES, without(COMMON, "linear", "linear_by_one", "llama3", "llama3_away", "yarn",
                                          "yarn_by_one", "yarn_away") | ACTIVATION | RMS | PARTS | ALL_WINDOWS | {
        "long": dict(rope_parameters=LONG, original_max_position_embeddings=16),
        "long_factor": dict(rope_parameters=LONG | dict(factor=2.0), original_max_position_embeddings=16),
        "long_attention": dict(rope_parameters=LONG | dict(attention_factor=1.5),
                               original_max_position_embeddings=16),
        "short": dict(rope_parameters=LONG | dict(original_max_position_embeddings=64),
                      original_max_position_embeddings=64)}),
    "granite": ("GraniteConfig", SIZES, COMMON | ACTIVATION | RMS | ATTENTION_BIAS | MLP_BIAS | {
        "embedding": dict(embedding_multiplier=3.5), "residual": dict(residual_multiplier=0.7),
        "scale_of_heads": dict(attention_multiplier=8 ** -0.5), "attention": dict(attention_multiplier=0.2),
        "logits": dict(logits_scaling=0.7), "logits_by_three": dict(logits_scaling=3.0)}),
    "starcoder2": ("Starcoder2Config", SIZES, COMMON | ACTIVATION | ALL_WINDOWS | {
        "epsilon": dict(norm_epsilon=0.01), "no_bias": dict(use_bias=False)}),
    "gpt_neox": ("GPTNeoXConfig", without(SIZES, "num_key_value_heads"),
                 without(COMMON, "heads", "one_kv_head", "theta") | ACTIVATION | ATTENTION_BIAS | {
        "epsilon": dict(layer_norm_eps=0.01), "theta": dict(rotary_emb_base=777), "part": dict(rotary_pct=0.75),
        "whole": dict(rotary_pct=1.0)}),
    "phi": ("PhiConfig", SIZES, COMMON | ACTIVATION | PARTS | {"epsilon": dict(layer_norm_eps=0.01)}),
    "nanochat": ("NanoChatConfig", SIZES, COMMON | ACTIVATION | RMS | ATTENTION_BIAS | {
        "no_logit_cap": dict(final_logit_softcapping=None), "logit_cap": dict(final_logit_softcapping=3.0)}),
}


# Models that folio begins, by what is set in them, and adapters for them.
LIKE_LLAMA = ("model.norm=rms model.position_embedding=rotary model.mlp=gated model.activation_function=silu "
              "model.bias=false model.n_embd=32 model.n_head=4 model.n_kv_head=2 model.n_inner=40 model.n_layer=4 "
              "model.n_positions=32 model.tie_word_embeddings=true ")
LIKE_GEMMA = (LIKE_LLAMA.replace("=rms ", "=rms_one_plus ").replace("=silu", "=gelu_new") +
              f"model.norm_position=both model.embedding_scale={32 ** 0.5!r} ")
TRAINED = {
    "llama3": LIKE_LLAMA + "model.rope_scaling=llama3 model.rope_factor=8",
    "yarn": LIKE_LLAMA + "model.rope_scaling=yarn model.rope_factor=2",
    "gemma2": LIKE_GEMMA + "model.model_type=gemma2",
    "gemma3_text": LIKE_GEMMA + "model.model_type=gemma3_text model.qk_norm=head model.sliding_window=7 "
                                "model.layer_kinds=wwf",
    "phi3": LIKE_LLAMA + "model.model_type=phi3",
    "smollm3": LIKE_LLAMA + "model.model_type=smollm3 model.no_rope_every=3",
    "granite": LIKE_LLAMA + "model.model_type=granite model.residual_scale=0.5",
}


def cases():
    for family, (config_class, sizes, settings) in FAMILIES.items():
        for name, changes in settings.items():
            yield f"{family}.{name}", config_class, sizes | changes


def randomised(config):
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    generator = torch.Generator().manual_seed(11)
    for name, p in model.named_parameters():
        one = 1.0 if p.dim() == 1 and "norm" in name and not config.model_type.startswith("gemma") else 0.0
        p.data = torch.randn(p.shape, generator=generator) * (0.2 if p.dim() > 1 else 0.3) + one
    model.tie_weights()
    return model


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=ids).logits[0]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command[:3]))}: {done.stderr.strip()}")


def compared(folio, model, ids, expected=None):
    """The largest difference of transformers' logits and folio's from those expected, or from each other."""
    loaded, info = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32,
                                                                     output_loading_info=True)
    problems = {name: sorted(found) for name, found in info.items() if found}
    if problems:
        raise RuntimeError(f"transformers says {problems}")
    with tempfile.TemporaryDirectory() as directory:
        batch, dump = pathlib.Path(directory) / "batch", pathlib.Path(directory) / "dump"
        save_file({"tokens": torch.cat([ids, ids[:, :1]], 1).int()}, batch)  # the last is a target alone
        run(folio, "inspect", "dump", "--model", model, "--batch", batch, "--out", dump, "--threads", 1)
        dumped = load_file(dump)["logits"][0]
    theirs = logits_of(loaded.eval(), ids)
    expected = theirs if expected is None else expected
    return max((x - expected).abs().max().item() for x in (theirs, dumped)) / expected.abs().max().item()


def check_trained(folio, settings, directory):
    """The largest difference of a run of folio's, and of the model below its adapters; and the families."""
    text = directory / "text.txt"
    text.write_text("a small text about nothing much, and more of it. " * 200)
    steps = ["--data", text, "--max-steps", 1, "--batch", 2, "--eval-every", 0]
    run(folio, "train", *steps, "--out", directory / "run", *(f"--set={setting}" for setting in settings.split()))
    run(folio, "train", *steps, "--out", directory / "lora", "--init", directory / "run", "--lora", 2)
    ids = torch.arange(1, 20)[None]
    models = [directory / "run/last", directory / "lora/base"]
    families = {json.loads((model / "config.json").read_text())["model_type"] for model in models}
    return max(compared(folio, model, ids) for model in models), families


def check(folio, config_class, settings, directory):
    """The largest difference between the logits, relative to the largest of them, and both configurations."""
    ids = torch.arange(3, 3 + T)[None]
    # A copy, since the classes complete what they are given.
    model = randomised(getattr(transformers, config_class)(**copy.deepcopy(settings)))
    expected = logits_of(model, ids)
    model.save_pretrained(directory / "theirs")
    run(folio, "convert", directory / "theirs", directory / "ours", "--to", "hf", "--dtype", "f32")
    difference = compared(folio, directory / "ours", ids, expected)
    said = json.loads((directory / "theirs/config.json").read_text())
    written = json.loads((directory / "ours/config.json").read_text())
    return difference, {"said": said, "written": written}


def patch(before, after):
    """What changes one object into the other."""
    gone = [{"op": "remove", "path": f"/{key}"} for key in before if key not in after]
    return gone + [{"op": "add", "path": f"/{key}", "value": value} for key, value in after.items()
                   if key not in before or before[key] != value]


def main():
    arguments = sys.argv[1:]
    goldens = "--goldens" in arguments
    folio, *names = [argument for argument in arguments if argument != "--goldens"]
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    found, failed = {}, 0
    checks = {name: (check, config_class, settings) for name, config_class, settings in cases()}
    checks |= {f"trained.{name}": (check_trained, settings) for name, settings in TRAINED.items()}
    for name, (function, *settings) in checks.items():
        if names and name not in names and name.split(".")[0] not in names:
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                difference, found[name] = function(folio, *settings, pathlib.Path(directory))
                problem = None if difference < BOUND else "the logits differ"
                if function == check_trained and found[name] not in ({name.split(".")[1]}, {"llama"}):
                    problem = f"written as {found[name]}"
            except Exception as error:  # of any kind: the other cases are tried too
                difference, problem = float("nan"), f"{type(error).__name__}: {error}"
        failed += problem is not None
        print(f"{'FAILED' if problem else 'ok':7}{name:32}{difference:9.1e}  {problem or ''}", flush=True)
    print(f"{len(found)} models, {failed} failures")
    if goldens and not failed and not names:
        plain = {name.split(".")[0]: golden for name, golden in found.items() if name.endswith(".plain")}
        lines = []
        for name, golden in found.items():
            family = plain.get(name.split(".")[0])
            if family and golden != family:
                golden = {key: patch(family[key], value) for key, value in golden.items()}
            if family:
                lines.append(f"{json.dumps(name)}: {json.dumps(golden, sort_keys=True)}")
        GOLDENS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    sys.exit(failed > 0)


main()
