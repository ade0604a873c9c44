"""Prints what PEFT and transformers compute in twenty LoRA steps of a published model, for
 src/folio/formats/published_lora_test.cc.

    python scripts/peft_lockstep.py MODELS      (peft, transformers, torch, gguf)

MODELS holds SmolLM2-135M-Instruct.Q4_1.gguf, which is dequantised to float32, and smollm2-expected.json, of whose texts the
steps are made. Adapters begin with numbers of a formula, so that both programs can have them.
"""

import json, pathlib, sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

B, T, STEPS = 2, 40, 20
models = pathlib.Path(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(models, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf", dtype=torch.float32,
                                             attn_implementation="eager")
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules="all-linear"))
adapters = sorted((name, p) for name, p in model.named_parameters() if p.requires_grad)
for tensor, (name, p) in enumerate(adapters):
    at = torch.arange(p.numel(), dtype=torch.float64)
    p.data = (0.02 * torch.sin(0.7 * at + tensor) if "lora_A" in name else 0 * at).reshape(p.shape).float()

prompts = json.loads((models / "smollm2-expected.json").read_text())["prompts"]
rows = torch.tensor([(prompt["ids"] + prompt["greedy"])[:T] for prompt in prompts])
optimizer = torch.optim.AdamW([p for _, p in adapters], lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
losses = []
for step in range(STEPS):
    ids = rows[B * step % len(rows):][:B]
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(round(loss.item(), 6))
print(len(adapters), losses)
