"""Records the PyTorch fixtures of the tests into test/fixtures: four ops alone, a tiny whole model with ten training
steps of AdamW and of Muon, the initial weights that torch.manual_seed(42) gives, and two models of the recipe "modern"
in training. One long file, because the ops and the models share the formulas at its beginning. Run by hand, its output
is committed:

    python -m venv ../venv && ../venv/bin/pip install torch==2.13.0 numpy
    ../venv/bin/python scripts/record-pytorch-reference.py [folder]

Inputs are fp32. Results are computed from them in float64 (gradients by autograd) and stored rounded to fp32. Names,
shapes and layouts are those of cuda/gpt2.h: linear weights [O,C], qkv [B,T,3C], lse [B,NH,T]. Same torch, same bytes.
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import torch

LAYERNORM_EPS = 1e-5
MATRICES = ("wte", "wpe", "qkvw", "attprojw", "fcw", "fcprojw")  # the decayed weights


# ---------------------------------------------------------------- the ops, in the order of gpt2.h


def embedding(tokens, wte, wpe):
    return wte[tokens] + wpe[: tokens.shape[1]]


def layernorm(x, weight, bias):
    """Returns (out, mean, rstd)."""
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    rstd = 1 / torch.sqrt(variance + LAYERNORM_EPS)
    return (x - mean) * rstd * weight + bias, mean.squeeze(-1), rstd.squeeze(-1)


def matmul(x, weight, bias=None):
    out = x @ weight.T
    return out if bias is None else out + bias


def attention(qkv, heads):
    """Returns (out [B,T,C], lse [B,NH,T])."""
    B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    head_size = C // heads
    q, k, v = (part.reshape(B, T, heads, head_size).transpose(1, 2) for part in qkv.split(C, dim=-1))
    scores = q @ k.transpose(-1, -2) / math.sqrt(head_size)
    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(later, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)
    out = torch.exp(scores - lse.unsqueeze(-1)) @ v
    return out.transpose(1, 2).reshape(B, T, C), lse


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def cross_entropy(logits, targets, vocabulary):
    """Losses [N]; columns from `vocabulary` on are padding and take no part."""
    real = logits[:, :vocabulary]
    return torch.logsumexp(real, dim=-1) - real.gather(1, targets.long().unsqueeze(1)).squeeze(1)


def global_norm(tensors):
    return math.sqrt(sum((t.double() ** 2).sum().item() for t in tensors))


def clip_scale(norm, max_norm):
    return max_norm / norm if max_norm > 0 and norm > max_norm else 1.0


def adamw(master, m, v, gradient, step, lr, clip, decay, beta1=0.9, beta2=0.95, eps=1e-8):
    """Returns (master, m, v) after the update number `step`, counted from 0."""
    g = gradient * clip
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat = m / (1 - beta1 ** (step + 1))
    v_hat = v / (1 - beta2 ** (step + 1))
    return master - lr * (m_hat / (torch.sqrt(v_hat) + eps) + decay * master), m, v


SAFETY = 1.01
POLAR_EXPRESS = [
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
]
ITERATIONS = {  # margin of the norm, steps
    "polar-express": (SAFETY, [(a / SAFETY, b / SAFETY**3, c / SAFETY**5) for a, b, c in POLAR_EXPRESS]),
    "quintic": (1.0, [(3.4445, -4.7750, 2.0315)] * 5),
    "cubic": (1.0, [(2.0, -1.5, 0.5)] * 12),
}


def orthogonalize(matrix, iteration):
    margin, steps = ITERATIONS[iteration]
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (margin * x.norm() + 1e-7)
    for a, b, c in steps:
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def muon(master, momentum, gradient, lr, clip, decay, iteration, mu=0.95):
    """Returns (master, momentum) after an update of one matrix."""
    g = gradient * clip
    momentum = torch.lerp(momentum, g, 1 - mu)
    direction = orthogonalize(torch.lerp(g, momentum, mu), iteration)
    height = max(1, master.shape[0] / master.shape[1]) ** 0.5
    return master * (1 - lr * decay) - lr * height * direction, momentum


# ---------------------------------------------------------------- files


def write_safetensors(path, tensors):
    """fp32 and int32 tensors as safetensors: u64 length of the header, JSON padded to 8 bytes, then the data."""
    header, data, position = {}, [], 0
    for name, tensor in tensors.items():
        is_integer = tensor.dtype in (torch.int32, torch.int64)
        array = tensor.detach().numpy().astype("<i4" if is_integer else "<f4")
        header[name] = {
            "dtype": "I32" if is_integer else "F32",
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        data.append(array.tobytes())
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def write_json(path, value):
    """Writes one line per top-level entry and per entry of a top-level object, for readable diffs."""

    def line(entry):
        return json.dumps(entry, separators=(", ", ": "))

    fields = []
    for key, entry in value.items():
        if isinstance(entry, dict):
            inner = ",\n".join(f"    {line(k)}: {line(v)}" for k, v in entry.items())
            fields.append(f"  {line(key)}: {{\n{inner}\n  }}")
        else:
            fields.append(f"  {line(key)}: {line(entry)}")
    path.write_text("{\n" + ",\n".join(fields) + "\n}\n")


def shortest(values):
    """fp32 values as the shortest decimals that read back the same."""
    return [float(str(value)) for value in values.numpy()]


def versions(note):
    return {"torch": torch.__version__.split("+")[0], "numpy": np.__version__, "computed": note}


# ---------------------------------------------------------------- a) op fixtures


class OpRecorder:
    """Collects cases; keys are op/case/tensor. Inputs are drawn from one seeded generator."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.tensors, self.cases = {}, {}

    def normal(self, *shape, scale=1.0, offset=0.0):
        return torch.randn(shape, generator=self.generator) * scale + offset

    def integers(self, *shape, below):
        return torch.randint(below, shape, generator=self.generator)

    def case(self, op, name, sizes, tensors):
        self.cases[f"{op}/{name}"] = {"op": op, "sizes": sizes}
        self.tensors.update({f"{op}/{name}/{key}": tensor for key, tensor in tensors.items()})


def differentiate(forward, inputs, dout, outputs=("out",)):
    """Returns by name: the inputs, the outputs in float64, the gradient of the first one, and the inputs' gradients."""
    leaves = {name: tensor.double().requires_grad_() for name, tensor in inputs.items()}
    results = forward(*leaves.values())
    results = results if isinstance(results, tuple) else (results,)
    results[0].backward(dout.double())
    gradients = {f"d{name}": leaf.grad for name, leaf in leaves.items()}
    return inputs | dict(zip(outputs, results)) | {"dout": dout} | gradients


def record_embedding(ops, name, B, T, C, V, Vp, positions):
    tokens = ops.integers(B, T, below=V)
    tokens[0, :3] = tokens[-1, -1]  # a repeated token
    tokens[0, -1] = V - 1
    wte, wpe, dout = ops.normal(Vp, C), ops.normal(positions, C), ops.normal(B, T, C)
    wte[V:] = 0
    tensors = differentiate(lambda wte, wpe: embedding(tokens, wte, wpe), {"wte": wte, "wpe": wpe}, dout)
    sizes = {"B": B, "T": T, "C": C, "V": V, "Vp": Vp, "positions": positions}
    ops.case("embedding", name, sizes, {"tokens": tokens} | tensors | {"dwpe": tensors["dwpe"][:T]})


def record_layernorm(ops, name, N, C, scale, offset):
    x = ops.normal(N, C, scale=scale) + ops.normal(N, 1) + offset
    weight, bias = ops.normal(C, scale=0.3, offset=1), ops.normal(C)
    dout, dresidual = ops.normal(N, C), ops.normal(N, C)
    tensors = differentiate(layernorm, {"in": x, "weight": weight, "bias": bias}, dout, ("out", "mean", "rstd"))
    residual = {"dresidual": dresidual, "dinWithResidual": tensors["din"] + dresidual.double()}
    ops.case("layernorm", name, {"N": N, "C": C}, tensors | residual)


def record_matmul(ops, name, N, C, O, with_bias):
    inputs = {"in": ops.normal(N, C), "weight": ops.normal(O, C, scale=0.3)}
    dout = ops.normal(N, O)
    if with_bias:
        inputs["bias"] = ops.normal(O)
    ops.case("matmul", name, {"N": N, "C": C, "O": O}, differentiate(matmul, inputs, dout))


def record_attention(ops, name, B, T, C, NH, scale):
    qkv, dout = ops.normal(B, T, 3 * C, scale=scale), ops.normal(B, T, C)
    tensors = differentiate(lambda qkv: attention(qkv, NH), {"qkv": qkv}, dout, ("out", "lse"))
    ops.case("attention", name, {"B": B, "T": T, "C": C, "NH": NH}, tensors)


def record_ops(folder):
    """Only ops whose gradients are easily wrong. The tiny model has every op, and src/op-cases its formula in double."""
    ops = OpRecorder(seed=1337)
    record_embedding(ops, "c24", B=2, T=9, C=24, V=53, Vp=64, positions=12)
    record_embedding(ops, "c37", B=3, T=5, C=37, V=11, Vp=16, positions=5)
    record_layernorm(ops, "c24", N=13, C=24, scale=1.0, offset=0.0)
    record_layernorm(ops, "c37", N=13, C=37, scale=0.3, offset=5.0)
    record_matmul(ops, "bias", N=13, C=24, O=37, with_bias=True)
    record_matmul(ops, "no-bias", N=17, C=37, O=24, with_bias=False)
    record_matmul(ops, "wide", N=33, C=40, O=70, with_bias=True)
    record_attention(ops, "t7-hs20", B=2, T=7, C=40, NH=2, scale=1.0)
    record_attention(ops, "t33-hs20", B=2, T=33, C=40, NH=2, scale=2.0)
    record_attention(ops, "t65-hs64", B=1, T=65, C=128, NH=2, scale=1.0)
    write_safetensors(folder / "ops.safetensors", ops.tensors)
    note = "float64 from the fp32 inputs in ops.safetensors; results stored as fp32"
    write_json(folder / "ops.json", {"recordedWith": versions(note), "cases": ops.cases})


# ---------------------------------------------------------------- b) a tiny whole model

TINY = {"layers": 2, "channels": 48, "heads": 3, "context": 32, "vocabulary": 61, "paddedVocabulary": 128}
TRAINING = {
    "steps": 10, "learningRate": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weightDecay": 0.1, "gradClip": 1.0,
}  # fmt: skip


def tiny_weights(generator):
    """Random everywhere, so that a wrong bias or layernorm shows. The query and key biases are large and the biases
    added to the residual stream small, so that attention is not uniform and qkvw's gradients weigh in every part."""
    C, V, Vp = TINY["channels"], TINY["vocabulary"], TINY["paddedVocabulary"]

    def normal(*shape, deviation, mean=0.0):
        return torch.randn(shape, generator=generator) * deviation + mean

    weights = {"wte": normal(Vp, C, deviation=0.02), "wpe": normal(TINY["context"], C, deviation=0.02)}
    weights["wte"][V:] = 0
    for layer in range(TINY["layers"]):
        for name, outputs, inputs, bias in [
            ("ln1", C, None, 0.1), ("qkv", 3 * C, C, 0.02), ("attproj", C, C, 0.01),
            ("ln2", C, None, 0.1), ("fc", 4 * C, C, 0.1), ("fcproj", C, 4 * C, 0.01),
        ]:  # fmt: skip
            is_layernorm = inputs is None
            shape, deviation, mean = ((outputs,), 0.1, 1.0) if is_layernorm else ((outputs, inputs), 0.02, 0.0)
            weights[f"h.{layer}.{name}w"] = normal(*shape, deviation=deviation, mean=mean)
            weights[f"h.{layer}.{name}b"] = normal(outputs, deviation=bias)
        weights[f"h.{layer}.qkvb"][: 2 * C] *= 50
    weights["lnfw"], weights["lnfb"] = normal(C, deviation=0.1, mean=1), normal(C, deviation=0.1)
    return weights


def gpt2(weights, tokens, targets):
    """Returns (losses [B,T], activations by name)."""
    B, T = tokens.shape
    seen = {}

    def keep(name, tensor):
        seen[name] = tensor
        return tensor

    x = keep("encoded", embedding(tokens, weights["wte"], weights["wpe"]))
    for layer in range(TINY["layers"]):
        h = f"h.{layer}."
        w = {name.removeprefix(h): tensor for name, tensor in weights.items() if name.startswith(h)}
        ln1 = keep(h + "ln1", layernorm(x, w["ln1w"], w["ln1b"])[0])
        qkv = keep(h + "qkv", matmul(ln1, w["qkvw"], w["qkvb"]))
        atty = keep(h + "atty", attention(qkv, TINY["heads"])[0])
        x = keep(h + "residual2", x + matmul(atty, w["attprojw"], w["attprojb"]))
        ln2 = keep(h + "ln2", layernorm(x, w["ln2w"], w["ln2b"])[0])
        fch = keep(h + "fch", matmul(ln2, w["fcw"], w["fcb"]))
        fch_gelu = keep(h + "fch_gelu", gelu(fch))
        x = keep(h + "residual3", x + matmul(fch_gelu, w["fcprojw"], w["fcprojb"]))
    lnf = keep("lnf", layernorm(x, weights["lnfw"], weights["lnfb"])[0])
    logits = matmul(lnf, weights["wte"])
    losses = cross_entropy(logits.flatten(0, 1), targets.flatten(), TINY["vocabulary"])
    return losses.reshape(B, T), seen


def loss_and_gradients(weights, tokens, targets, model=gpt2):
    weights = {name: tensor.detach().requires_grad_() for name, tensor in weights.items()}
    losses, activations = model(weights, tokens, targets)
    losses.mean().backward()
    return losses.detach(), activations, {name: tensor.grad for name, tensor in weights.items()}


def train(weights, tokens, targets):
    """Returns (losses, norms, weights after the last update), everything in float64."""
    state = {name: (weight, torch.zeros_like(weight), torch.zeros_like(weight)) for name, weight in weights.items()}
    losses, norms = [], []
    for step in range(TRAINING["steps"]):
        loss, _, gradients = loss_and_gradients({name: s[0] for name, s in state.items()}, tokens, targets)
        norm = global_norm(gradients.values())
        clip = clip_scale(norm, TRAINING["gradClip"])
        for name, gradient in gradients.items():
            decay = TRAINING["weightDecay"] if name.split(".")[-1] in MATRICES else 0.0
            state[name] = adamw(*state[name], gradient, step, TRAINING["learningRate"], clip, decay)
        losses.append(loss.mean().item())
        norms.append(norm)
    return losses, norms, {name: s[0] for name, s in state.items()}


def tiny_model_and_batch():
    """Returns (weights, tokens, targets)."""
    B, T = 3, 17
    generator = torch.Generator().manual_seed(2024)
    weights = tiny_weights(generator)
    stream = torch.randint(TINY["vocabulary"], (B, T + 1), generator=generator)
    stream[0, 3], stream[1, 5] = TINY["vocabulary"] - 1, 0
    return weights, stream[:, :-1].contiguous(), stream[:, 1:].contiguous()


def record_tiny_model(folder):
    weights, tokens, targets = tiny_model_and_batch()
    B, T = tokens.shape

    exact = {name: weight.double() for name, weight in weights.items()}
    losses, activations, gradients = loss_and_gradients(exact, tokens, targets)
    trained_losses, norms, final = train(exact, tokens, targets)

    tensors = {"tokens": tokens, "targets": targets, "losses": losses}
    tensors.update({f"weight/{name}": tensor for name, tensor in weights.items()})
    tensors.update({f"activation/{name}": tensor for name, tensor in activations.items()})
    tensors.update({f"gradient/{name}": tensor for name, tensor in gradients.items()})
    # Without qkvb: the key bias has no gradient in theory, so AdamW moves it by rounding noise.
    kept = ["wpe", "h.0.ln1w", "h.0.attprojw", "h.0.fcb", "h.1.fcprojb", "lnfw"]
    tensors.update({f"final/{name}": final[name] for name in kept})
    write_safetensors(folder / "tiny-model.safetensors", tensors)

    write_json(
        folder / "tiny-model.json",
        {
            "recordedWith": versions("float64 from the fp32 weights"),
            "model": TINY,
            "batch": {"B": B, "T": T},
            "training": TRAINING | {"decayed": MATRICES},
            "float64": {"losses": trained_losses, "norms": norms},
        },
    )


MUON = {"learningRate": 0.02, "momentum": 0.95}


def is_block_matrix(name):
    return name.startswith("h.") and name.split(".")[-1] in MATRICES


def muon_by_part(name, master, momentum, gradient, *constants):
    """Returns (master, momentum); query, key and value are three matrices."""
    parts = 3 if name.endswith("qkvw") else 1
    matrices = zip(master.chunk(parts), momentum.chunk(parts), gradient.chunk(parts))
    return tuple(torch.cat(tensors) for tensors in zip(*(muon(*matrix, *constants) for matrix in matrices)))


def train_with_muon(weights, tokens, targets, iteration):
    """Like train, with Muon for the matrices of the blocks."""
    state = {name: (weight, torch.zeros_like(weight), torch.zeros_like(weight)) for name, weight in weights.items()}
    losses = []
    for step in range(TRAINING["steps"]):
        loss, _, gradients = loss_and_gradients({name: s[0] for name, s in state.items()}, tokens, targets)
        clip = clip_scale(global_norm(gradients.values()), TRAINING["gradClip"])
        for name, gradient in gradients.items():
            decay = TRAINING["weightDecay"] if name.split(".")[-1] in MATRICES else 0.0
            if not is_block_matrix(name):
                state[name] = adamw(*state[name], gradient, step, TRAINING["learningRate"], clip, decay)
                continue
            rate, mu = MUON["learningRate"], MUON["momentum"]
            updated = muon_by_part(name, *state[name][:2], gradient, rate, clip, decay, iteration, mu)
            state[name] = (*updated, state[name][2])
        losses.append(loss.mean().item())
    return losses, {name: s[0] for name, s in state.items()}


def check_muon():
    """PyTorch's own Muon, which iterates in bf16, moves a matrix as ours does."""
    generator = torch.Generator().manual_seed(7)
    for shape in [(48, 144), (144, 48)]:
        weight = torch.randn(shape, generator=generator)
        theirs, ours, momentum = torch.nn.Parameter(weight.clone()), weight.double(), torch.zeros(shape).double()
        optimizer = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, adjust_lr_fn="original")
        for _ in range(3):
            theirs.grad = torch.randn(shape, generator=generator)
            optimizer.step()
            ours, momentum = muon(ours, momentum, theirs.grad.double(), 0.02, 1.0, 0.1, "quintic")
        error = ((theirs.detach() - ours).norm() / (weight - ours).norm()).item()
        assert error < 0.01, f"PyTorch's Muon differs by {error} of the update"


def record_muon(folder):
    """The model and batch are those of the tiny model."""
    check_muon()
    weights, tokens, targets = tiny_model_and_batch()
    exact = {name: weight.double() for name, weight in weights.items()}
    losses, tensors = {}, {}
    for iteration in ITERATIONS:
        losses[iteration], final = train_with_muon(exact, tokens, targets, iteration)
        # One of each shape, and an embedding, which AdamW updates.
        kept = ["wpe", "h.0.qkvw", "h.0.attprojw", "h.1.fcw", "h.1.fcprojw"] if iteration == "polar-express" else []
        tensors.update({f"final/{name}": final[name] for name in kept})
    write_safetensors(folder / "muon.safetensors", tensors)
    write_json(
        folder / "muon.json",
        {"recordedWith": versions("float64 from the fp32 weights"), "training": TRAINING | {"muon": MUON}, "losses": losses},
    )


# ---------------------------------------------------------------- c) init


def init_tensors(layers, channels, vocabulary, context):
    """(name, shape, standard deviation) in the order in which the weights are drawn."""
    C, projection = channels, 0.02 / math.sqrt(2 * layers)
    order = [("wte", (vocabulary, C), 0.02), ("wpe", (context, C), 0.02)]
    for layer in range(layers):
        order += [
            (f"h.{layer}.qkvw", (3 * C, C), 0.02), (f"h.{layer}.attprojw", (C, C), projection),
            (f"h.{layer}.fcw", (4 * C, C), 0.02), (f"h.{layer}.fcprojw", (C, 4 * C), projection),
        ]  # fmt: skip
    return order


def draw_init(order, edge):
    torch.manual_seed(42)
    drawn = {}
    for name, shape, deviation in order:
        values = torch.empty(shape).normal_(0.0, deviation).flatten()
        drawn[name] = {"first": shortest(values[:edge]), "last": shortest(values[-edge:])}
    return drawn


def draw_sequence(seed, draws):
    """Several normal_ calls on one generator, every value kept; counts that are no multiple of 16 among them."""
    torch.manual_seed(seed)
    return [
        {"count": count, "mean": mean, "standardDeviation": deviation,
         "values": shortest(torch.empty(count).normal_(mean, deviation))}
        for count, mean, deviation in draws
    ]  # fmt: skip


def shuffles(seed, counts):
    """Fisher-Yates from the end with j = draw mod (i + 1); the draws are numpy's MT19937 under init_genrand(seed)."""
    twister = np.random.MT19937()
    twister._legacy_seeding(seed)
    results = []
    for count in counts:
        values = list(range(count))
        for i in range(count - 1, 0, -1):
            j = int(twister.random_raw()) % (i + 1)
            values[i], values[j] = values[j], values[i]
        results.append(values)
    return {"seed": seed, "counts": counts, "permutations": results}


def record_init(folder):
    d6 = {"layers": 6, "channels": 384, "vocabulary": 50257, "context": 1024}
    tiny = {key: TINY[key] for key in ("layers", "channels", "vocabulary", "context")}
    normals = [(16, 0, 1), (17, 0, 1), (16, 0, 1), (31, 0, 0.02), (100, 3, 0.5), (32, 0, 1), (203, -1, 2)]
    note = "torch.manual_seed(seed), then Tensor.normal_ in fp32 on the CPU, one call a tensor, in this order"
    write_json(
        folder / "init.json",
        {
            "recordedWith": versions(note) | {"cpuCapability": torch.backends.cpu.get_cpu_capability()},
            "seed": 42,
            "tinyModel": tiny,
            "tiny": draw_init(init_tensors(**tiny), edge=16),
            "d6Model": d6,
            "d6": draw_init(init_tensors(**d6), edge=4),
            "normals": {f"seed{seed}": draw_sequence(seed, normals) for seed in (42, 0, 4294967295)},
            "shuffle": {"seed42": shuffles(42, [1, 2, 23, 100]), "seed43": shuffles(43, [23, 23, 700])},
        },
    )


# ---------------------------------------------------------------- d) the recipe "modern"

MODERN_TINY = {"layers": 2, "channels": 40, "heads": 2, "context": 32, "vocabulary": 300, "paddedVocabulary": 384}
MODERN_SMALL = {"layers": 4, "channels": 128, "heads": 2, "context": 64, "vocabulary": 499, "paddedVocabulary": 512}
MODERN = {"attentionScale": 0.12, "softcap": 15, "rotaryBase": 1024}
MODERN_TRAINING = {
    "muon": {"learningRate": 0.025, "weightDecay": 0.025, "momentum": 0.95},
    "adamw": {"beta1": 0.8, "beta2": 0.95, "epsOfSums": 1e-10, "wte": 0.3, "headw": 1 / 320, "vectors": 0.01},
    "constantFraction": 0.3,
}  # fmt: skip
RMSNORM_EPS = torch.finfo(torch.float32).eps  # F.rms_norm's default, for bf16 inputs too


def rmsnorm(x, weight=1):
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + RMSNORM_EPS) * weight


def rotary(x):
    """Of x [B,T,NH,HS], turns the pairs (i, i + HS/2); the slower half of the pairs stands still."""
    T, half = x.shape[1], x.shape[3] // 2
    moving = MODERN["rotaryBase"] ** -torch.linspace(0, 1, half // 2, dtype=x.dtype)
    angles = torch.outer(torch.arange(T, dtype=x.dtype), torch.cat([moving, torch.zeros_like(moving)]))[:, None]
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)


def attention_scaled(q, k, v, heads):
    head_size = q.shape[-1] // heads
    factor = MODERN["attentionScale"] * math.sqrt(head_size)  # attention divides by the root
    return attention(torch.cat([q * factor, k, v], dim=-1), heads)[0]


def modern_gpt(model):
    """Returns a function like gpt2; its only activation is the limited logits."""

    def forward(weights, tokens, targets):
        x = rmsnorm(weights["wte"][tokens], weights["lnew"])
        for layer in range(model["layers"]):
            h = f"h.{layer}."
            w = {name.removeprefix(h): tensor for name, tensor in weights.items() if name.startswith(h)}
            q, k, v = matmul(rmsnorm(x, w["ln1w"]), w["qkvw"], w["qkvb"]).chunk(3, dim=-1)
            q, k = (rotary(rmsnorm(part.unflatten(-1, (model["heads"], -1)))).flatten(2) for part in (q, k))
            atty = attention_scaled(q, k, v, model["heads"])
            x = x + matmul(atty, w["attprojw"], w["attprojb"])
            fch = matmul(rmsnorm(x, w["ln2w"]), w["fcw"], w["fcb"])
            x = x + matmul(fch.relu() ** 2, w["fcprojw"], w["fcprojb"])
        logits = matmul(rmsnorm(x, weights["lnfw"]), weights["headw"], weights["headb"])
        logits = MODERN["softcap"] * logits / torch.sqrt(logits**2 + MODERN["softcap"] ** 2)
        # Logits of padding take part.
        losses = cross_entropy(logits.flatten(0, 1), targets.flatten(), model["paddedVocabulary"])
        return losses.reshape(tokens.shape), {"logits": logits}

    return forward


def modern_shapes(model):
    """Shapes by name, in the order of our table."""
    C, Vp = model["channels"], model["paddedVocabulary"]
    shapes = {"wte": (Vp, C), "lnew": (C,)}
    for layer in range(model["layers"]):
        of_layer = {
            "ln1w": (C,), "qkvw": (3 * C, C), "qkvb": (3 * C,), "attprojw": (C, C), "attprojb": (C,),
            "ln2w": (C,), "fcw": (4 * C, C), "fcb": (4 * C,), "fcprojw": (C, 4 * C), "fcprojb": (C,),
        }  # fmt: skip
        shapes.update({f"h.{layer}.{name}": shape for name, shape in of_layer.items()})
    return shapes | {"lnfw": (C,), "headw": (Vp, C), "headb": (Vp,)}


def draw_modern(model, seed, distribution):
    """One normal_ for each parameter with a deviation; the others are their mean. Padding rows of wte are 0."""
    torch.manual_seed(seed)
    weights = {}
    for name, shape in modern_shapes(model).items():
        weights[name] = torch.zeros(shape)
        mean, deviation = distribution(name, shape)
        rows = model["vocabulary"] if name == "wte" else shape[0]
        weights[name][:rows] = torch.empty(rows, *shape[1:]).normal_(mean, deviation) if deviation else mean
    return weights


def drawn_everywhere(name, shape):
    """Values that show an error: logits that the softcap bends, and embeddings so small that RMSNorm's eps weighs."""
    if len(shape) == 1:
        return (0.0 if name.endswith("b") else 1.0), 0.3
    return 0.0, {"wte": 0.03, "headw": 1.0}.get(name, 1 / math.sqrt(shape[1]))


def initial_of_modern(name, shape):
    if len(shape) == 1:
        return (0.0 if name.endswith("b") else 1.0), 0
    if name == "headw" or name.endswith("projw"):
        return 0.0, 0
    return 0.0, 1.0 if name == "wte" else math.sqrt(0.33 / shape[1])


def train_modern(model, weights, batches):
    """Returns (losses, the schedule's factors, weights after the last update), in the weights' dtype."""
    of_muon, of_adamw = MODERN_TRAINING["muon"], MODERN_TRAINING["adamw"]
    decay, mu, beta1, beta2 = of_muon["weightDecay"], of_muon["momentum"], of_adamw["beta1"], of_adamw["beta2"]
    eps = of_adamw["epsOfSums"] / batches[0][0].numel()  # our gradients are means over a step's tokens
    steps, constant = len(batches), MODERN_TRAINING["constantFraction"]
    factors = [min(1, (1 - step / steps) / (1 - constant)) for step in range(steps)]
    state = {name: (weight, torch.zeros_like(weight), torch.zeros_like(weight)) for name, weight in weights.items()}
    losses = []
    for step, (tokens, targets) in enumerate(batches):
        current = {name: s[0] for name, s in state.items()}
        loss, _, gradients = loss_and_gradients(current, tokens, targets, modern_gpt(model))
        for name, gradient in gradients.items():
            if is_block_matrix(name):
                lr = of_muon["learningRate"] * factors[step]
                updated = muon_by_part(name, *state[name][:2], gradient, lr, 1.0, decay, "cubic", mu)
                state[name] = (*updated, state[name][2])
            else:
                lr = of_adamw.get(name, of_adamw["vectors"]) * factors[step]
                state[name] = adamw(*state[name], gradient, step, lr, 1.0, 0.0, beta1, beta2, eps)
        losses.append(loss.mean().item())
    return losses, factors, {name: s[0] for name, s in state.items()}


def check_modern():
    """The formulas in fp32 are those of PyTorch's functions."""
    generator = torch.Generator().manual_seed(11)
    small = torch.randn(5, 40, generator=generator) * 1e-3  # eps weighs
    torch.testing.assert_close(rmsnorm(small), torch.nn.functional.rms_norm(small, (40,)))
    q, k, v = (torch.randn(2, 9, 40, generator=generator) for _ in range(3))
    by_head = [part.unflatten(-1, (2, -1)).transpose(1, 2) for part in (q, k, v)]
    theirs = torch.nn.functional.scaled_dot_product_attention(*by_head, is_causal=True, scale=MODERN["attentionScale"])
    torch.testing.assert_close(attention_scaled(q, k, v, heads=2), theirs.transpose(1, 2).flatten(2))


def sequences(stream, batch, length):
    """Cuts a stream into batches, each as (tokens, targets) [batch,length]."""
    per_batch = batch * length
    starts = range(0, len(stream) - per_batch, per_batch)
    return [tuple(stream[start + shift :][:per_batch].reshape(batch, length) for shift in (0, 1)) for start in starts]


def record_modern_tiny(folder):
    recorded = {"model": MODERN_TINY, "B": 3, "T": 17, "seed": 2025}
    weights = draw_modern(MODERN_TINY, recorded["seed"], drawn_everywhere)
    exact = {name: weight.double() for name, weight in weights.items()}
    stream = torch.randint(MODERN_TINY["vocabulary"], (recorded["B"] * recorded["T"] + 1,))
    [(tokens, targets)] = sequences(stream, recorded["B"], recorded["T"])
    token_losses, activations, gradients = loss_and_gradients(exact, tokens, targets, modern_gpt(MODERN_TINY))
    losses, factors, final = train_modern(MODERN_TINY, exact, [(tokens, targets)] * 10)
    tensors = {"tokens": tokens, "targets": targets, "losses": token_losses, "logits": activations["logits"][-1, -1]}
    tensors.update({f"gradient/{name}": tensor for name, tensor in gradients.items()})
    tensors.update({f"final/{name}": tensor for name, tensor in final.items()})
    write_safetensors(folder / "modern.safetensors", tensors)
    draws = {name: drawn_everywhere(name, shape) for name, shape in modern_shapes(MODERN_TINY).items()}
    return recorded | {"draws": draws, "factors": factors, "losses": losses}


def record_modern_small():
    recorded = {"model": MODERN_SMALL, "B": 4, "T": 64, "seed": 42}
    weights = draw_modern(MODERN_SMALL, recorded["seed"], initial_of_modern)
    exact = {name: weight.double() for name, weight in weights.items()}
    stream = torch.arange(20 * recorded["B"] * recorded["T"] + 1) ** 2 % MODERN_SMALL["vocabulary"]
    losses, factors, _ = train_modern(MODERN_SMALL, exact, sequences(stream, recorded["B"], recorded["T"]))
    drawn = {name: weight.flatten() for name, weight in weights.items() if initial_of_modern(name, weight.shape)[1]}
    ends = {name: {"first": shortest(values[:4]), "norm": values.norm().item()} for name, values in drawn.items()}
    return recorded | {"drawn": ends, "factors": factors, "losses": losses}


def record_modern(folder):
    check_modern()
    note = "float64 from the fp32 weights, which torch.manual_seed(seed) and a Tensor.normal_ for each parameter draw"
    write_json(
        folder / "modern.json",
        {
            "recordedWith": versions(note),
            "parts": MODERN,
            "training": MODERN_TRAINING,
            "tiny": record_modern_tiny(folder),
            "small": record_modern_small(),
        },
    )


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "test" / "fixtures"
    folder.mkdir(parents=True, exist_ok=True)
    record_ops(folder)
    record_tiny_model(folder)
    record_muon(folder)
    record_init(folder)
    record_modern(folder)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:9d} {path}")


if __name__ == "__main__":
    main()
