"""GPT-2 and the model of the recipe "modern" in PyTorch, for the scripts record-pytorch-*.py. Names, shapes and layouts are as in
cuda/gpt2.h: linear weights [O,C], qkv [B,T,3C]."""

import math

import numpy as np
import torch
from torch.nn import functional as F

MATRICES = ("wte", "wpe", "qkvw", "attprojw", "fcw", "fcprojw")  # the weights with weight decay
MODERN = {"attentionScale": 0.12, "softcap": 15, "rotaryBase": 1024}

part = lambda name: name.split(".")[-1]  # a parameter's name without its layer: "h.0.fcw" becomes "fcw"


def rotary(x):
    """Rotates the pairs (i, i + HS/2) of x [B,T,NH,HS]. Pairs from i = HS/4 on are not rotated."""
    T, half = x.shape[1], x.shape[3] // 2
    moving = MODERN["rotaryBase"] ** -torch.linspace(0, 1, half // 2, dtype=x.dtype)
    angles = torch.outer(torch.arange(T, dtype=x.dtype), torch.cat([moving, torch.zeros_like(moving)]))[:, None]
    (first, second), cos, sin = x.chunk(2, dim=-1), angles.cos(), angles.sin()
    return torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)


def shapes_of(model, is_modern=False):
    """Shapes of the parameters by name, in the order of `parameterTable` (src/model/parameters.ts)."""
    C, rows = model["channels"], model.get("paddedVocabulary", model["vocabulary"])
    norm = lambda name: {f"{name}w": (C,)} | ({} if is_modern else {f"{name}b": (C,)})
    linear = lambda name, outputs, inputs: {f"{name}w": (outputs, inputs), f"{name}b": (outputs,)}
    block = norm("ln1") | linear("qkv", 3 * C, C) | linear("attproj", C, C)
    block |= norm("ln2") | linear("fc", 4 * C, C) | linear("fcproj", C, 4 * C)
    shapes = {"wte": (rows, C)} | ({"lnew": (C,)} if is_modern else {"wpe": (model["context"], C)})
    for layer in range(model["layers"]):
        shapes |= {f"h.{layer}.{name}": shape for name, shape in block.items()}
    return shapes | norm("lnf") | (linear("head", rows, C) if is_modern else {})


def initial_deviation(model, name):
    return 0.02 / math.sqrt(2 * model["layers"]) if name.endswith("projw") else 0.02


def forward(model, weights, tokens, keep=lambda name, tensor: tensor):
    """Returns the logits, and calls `keep` with each activation. If the weights have lnew, the model is the recipe's."""
    is_modern = "lnew" in weights
    linear = lambda x, name: F.linear(x, weights[name + "w"], weights[name + "b"])

    def norm(x, name):
        if is_modern:
            # The default eps of F.rms_norm for fp32 and bf16 inputs; here inputs may be fp64.
            return F.rms_norm(x, x.shape[-1:], name and weights[name + "w"], torch.finfo(torch.float32).eps)
        return F.layer_norm(x, x.shape[-1:], weights[name + "w"], weights[name + "b"])

    x = weights["wte"][tokens]
    x = keep("encoded", norm(x, "lne") if is_modern else x + weights["wpe"][: tokens.shape[1]])
    for layer in range(model["layers"]):
        h, heads = f"h.{layer}.", model["heads"]
        ln1 = keep(h + "ln1", norm(x, h + "ln1"))
        qkv = keep(h + "qkv", linear(ln1, h + "qkv"))
        q, k, v = (each.unflatten(-1, (heads, -1)) for each in qkv.chunk(3, dim=-1))
        if is_modern:
            q, k = (rotary(norm(each, None)) for each in (q, k))
        operands, scale = (each.transpose(1, 2) for each in (q, k, v)), MODERN["attentionScale"] if is_modern else None
        attended = F.scaled_dot_product_attention(*operands, is_causal=True, scale=scale)
        atty = keep(h + "atty", attended.transpose(1, 2).flatten(2))
        x = keep(h + "residual2", x + linear(atty, h + "attproj"))
        ln2 = keep(h + "ln2", norm(x, h + "ln2"))
        fch = keep(h + "fch", linear(ln2, h + "fc"))
        activated = keep(h + "fch_gelu", fch.relu() ** 2 if is_modern else F.gelu(fch, approximate="tanh"))
        x = keep(h + "residual3", x + linear(activated, h + "fcproj"))
    lnf = keep("lnf", norm(x, "lnf"))
    logits = linear(lnf, "head") if is_modern else F.linear(lnf, weights["wte"])[..., : model["vocabulary"]]
    if is_modern:
        logits = MODERN["softcap"] * logits / torch.sqrt(logits**2 + MODERN["softcap"] ** 2)
    return logits


def shuffles(seed, counts):
    """Shuffles 0 to count - 1 for each count: Fisher-Yates from the end, j = draw mod (i + 1), by one MT19937 after init_genrand(seed)."""
    twister, results = np.random.MT19937(), [list(range(count)) for count in counts]
    twister._legacy_seeding(seed)
    for values in results:
        for i in range(len(values) - 1, 0, -1):
            j = int(twister.random_raw()) % (i + 1)
            values[i], values[j] = values[j], values[i]
    return results
