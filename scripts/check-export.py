"""Exports a trained model and reads it with the programs it is for: transformers must give our logits and our greedy tokens
from the hf folder, the gguf package every tensor of the GGUF file.

    python3 -m venv ../venv && ../venv/bin/pip install torch==2.13.0 numpy transformers==5.18.0 gguf safetensors
    PYTHON=../venv/bin/python scripts/check-export RUN|CHECKPOINT [--tokens N]

All in fp32 on the CPU. Prints a line for each comparison; exit 1 if one fails: logits further apart than 1e-4, another token,
a tensor that differs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from safetensors.numpy import load_file
from transformers import AutoTokenizer, GPT2LMHeadModel

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-4
PROMPT = "ROMEO: What light"
# Names of llama.cpp for GPT-2, by those of the hf folder.
GGUF_NAMES = {
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip


def gpt2(*words, given=None):
    command = ["node", "--import", "tsx", "src/cli.ts", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, input=given, text=True, check=True, capture_output=True).stdout


def our_logits(model, tokens, vocabulary, folder):
    file = folder / "logits"
    command = ["node", "--import", "tsx", "scripts/write-logits.ts", str(model), str(file)]
    subprocess.run(command, cwd=ROOT, input=json.dumps(tokens), text=True, check=True)
    return np.fromfile(file, dtype="<f4").reshape(len(tokens), vocabulary)


def check_hf(model, folder, count):
    out = folder / "hf"
    gpt2("export", "--model", model, "--format", "hf", "--out", out)
    tokenizer, theirs = AutoTokenizer.from_pretrained(out), GPT2LMHeadModel.from_pretrained(out, dtype=torch.float32)
    theirs.eval()
    context = theirs.config.n_positions
    end = tokenizer.eos_token_id
    text = (ROOT / "README.md").read_text()
    tokens = [end, *tokenizer(text)["input_ids"]][: min(context, 512)]
    with torch.no_grad():
        logits = theirs(torch.tensor([tokens])).logits[0].numpy()
    worst = float(np.abs(logits - our_logits(model, tokens, logits.shape[1], folder)).max())
    print(f"hf: transformers' logits over {len(tokens)} positions differ by at most {worst:.1e} (limit {TOLERANCE})")

    greedy = ["--prompt", PROMPT, "--tokens", count, "--temperature", 0, "--device", "cpu", "--json"]
    ours = json.loads(gpt2("sample", "--model", model, *greedy))
    given = [end, *tokenizer(PROMPT)["input_ids"]]
    made = theirs.generate(
        torch.tensor([given]), max_new_tokens=count, do_sample=False, pad_token_id=end, attention_mask=torch.ones(1, len(given))
    )[0].tolist()[len(given) :]
    made = made[: made.index(end)] if end in made else made
    same = PROMPT + tokenizer.decode(made) == ours["text"] and len(made) == ours["tokens"]
    print(f"hf: {len(made)} greedy tokens {'are those of sample' if same else 'differ from those of sample'}")
    return worst <= TOLERANCE and same, load_file(out / "model.safetensors")


def check_gguf(model, folder, weights):
    out = folder / "model.gguf"
    gpt2("export", "--model", model, "--format", "gguf", "--out", out)
    tensors = {tensor.name: tensor for tensor in GGUFReader(out).tensors}
    different = []
    for name, values in weights.items():
        layer, rest = ("", name) if not name.startswith("h.") else (name.split(".")[1], name.split(".", 2)[2])
        module, kind = rest.rsplit(".", 1)
        theirs = tensors.pop(f"{'blk.' + layer + '.' if layer else ''}{GGUF_NAMES[module]}.{kind}", None)
        # llama.cpp keeps linear weights as [out, in].
        wanted = values.T if ".c_" in name and kind == "weight" else values
        if theirs is None or not np.array_equal(theirs.data.reshape(wanted.shape), wanted):
            different.append(name)
    # The head may be there as a tensor of its own.
    rest = [name for name in tensors if name != "output.weight"]
    print(f"gguf: {len(weights)} tensors, different: {different or 'none'}, of no parameter: {rest or 'none'}")
    return not different and not rest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    model = options.model.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fine, weights = check_hf(model, folder, options.tokens)
        fine = check_gguf(model, folder, weights) and fine
    sys.exit(0 if fine else 1)


main()
