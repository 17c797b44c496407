"""Opens the weights that gpt2.ts has written with the public safetensors library, checks that names and shapes are
those of openai-community/gpt2, and compares the logits of a plain GPT-2 in PyTorch with those of the CPU library
(write-logits.ts), all in fp32:

    python3 -m venv ../venv && ../venv/bin/pip install torch==2.13.0 numpy safetensors
    PYTHON=../venv/bin/python scripts/check-logits RUN|CHECKPOINT [--sequence T]

Prints the largest difference; exit 1 if it is over 1e-4.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch.nn import functional as F

TOLERANCE = 1e-4
LAYERNORM_EPS = 1e-5


def newest_checkpoint(path):
    """A checkpoint itself, or the newest of a run."""
    if (path / "manifest.json").exists():
        return path
    found = sorted((path / "checkpoints").glob("step-*"))
    if not found:
        sys.exit(f"{path} is neither a checkpoint nor a run with one")
    return found[-1]


def expected_shapes(model):
    """Names and shapes of openai-community/gpt2's model.safetensors, without its causal masks, which are no weights."""
    C = model["channels"]
    shapes = {"wte.weight": [model["vocabularySize"], C], "wpe.weight": [model["context"], C]}
    for layer in range(model["layers"]):
        h = f"h.{layer}."
        for name, inputs, outputs in [
            ("attn.c_attn", C, 3 * C), ("attn.c_proj", C, C), ("mlp.c_fc", C, 4 * C), ("mlp.c_proj", 4 * C, C),
        ]:  # fmt: skip
            shapes |= {f"{h}{name}.weight": [inputs, outputs], f"{h}{name}.bias": [outputs]}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"{h}{name}.weight": [C], f"{h}{name}.bias": [C]}
    return shapes | {"ln_f.weight": [C], "ln_f.bias": [C]}


def read_weights(path, model):
    with safe_open(path, framework="pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}
    found, expected = {name: list(tensor.shape) for name, tensor in weights.items()}, expected_shapes(model)
    different = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
    if different:
        sys.exit(f"{path} has not GPT-2's names and shapes: {', '.join(different)}")
    if any(tensor.dtype != torch.float32 for tensor in weights.values()):
        sys.exit(f"{path} holds something other than fp32")
    return weights


def gpt2(weights, heads, tokens):
    """Logits [T,V] of a sequence. Linear weights are [in, out]."""

    def linear(x, name):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def layernorm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], LAYERNORM_EPS)

    T = len(tokens)
    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:T]
    layers = sum(name.endswith(".ln_1.weight") for name in weights)
    for layer in range(layers):
        h = f"h.{layer}."
        qkv = linear(layernorm(x, h + "ln_1"), h + "attn.c_attn")
        q, k, v = (part.view(T, heads, -1).transpose(0, 1) for part in qkv.chunk(3, dim=-1))
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(attention.transpose(0, 1).reshape(T, -1), h + "attn.c_proj")
        mlp = F.gelu(linear(layernorm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh")
        x = x + linear(mlp, h + "mlp.c_proj")
    return layernorm(x, "ln_f") @ weights["wte.weight"].T


def our_logits(checkpoint, tokens, vocabulary):
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "logits"
        command = ["node", "--import", "tsx", "scripts/write-logits.ts", str(checkpoint.resolve()), str(file)]
        subprocess.run(command, cwd=root, input=json.dumps(tokens.tolist()), text=True, check=True)
        return torch.from_numpy(np.fromfile(file, dtype="<f4").reshape(len(tokens), vocabulary))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint", type=Path, help="a run or a checkpoint")
    parser.add_argument("--sequence", type=int, help="tokens to run it on (default: the model's context)")
    options = parser.parse_args()

    checkpoint = newest_checkpoint(options.checkpoint)
    model = json.loads((checkpoint / "manifest.json").read_text())["model"]
    weights = read_weights(checkpoint / "model.safetensors", model)
    vocabulary = model["vocabularySize"]
    # Of the whole vocabulary, its first and its last token among them.
    generator = torch.Generator().manual_seed(42)
    tokens = torch.randint(vocabulary, (options.sequence or model["context"],), generator=generator)
    tokens[0], tokens[-1] = vocabulary - 1, 0

    with torch.inference_mode():
        theirs = gpt2(weights, model["heads"], tokens)
    ours = our_logits(checkpoint, tokens, vocabulary)
    difference = (ours - theirs).abs().max().item()
    largest = theirs.abs().max().item()
    print(f"{checkpoint}: {len(weights)} tensors of GPT-2's names and shapes")
    print(f"{len(tokens)} x {vocabulary} logits up to {largest:.3f}, max |difference| {difference:.2e}")
    # A NaN is no match either.
    sys.exit(0 if difference <= TOLERANCE else 1)


if __name__ == "__main__":
    main()
