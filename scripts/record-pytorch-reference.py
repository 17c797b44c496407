"""Records the PyTorch fixtures in test/fixtures: a tiny GPT-2 trained with AdamW and with Muon, initial weights,
the recipe "modern". The models are in pytorch_model.py. Run this script by hand, and commit its output:

    python -m venv ../venv && ../venv/bin/pip install torch==2.13.0 numpy
    ../venv/bin/python scripts/record-pytorch-reference.py [folder]

Inputs are fp32. Results are computed from them in float64 (gradients by autograd) and stored rounded to fp32. The same
version of torch on the same CPU gives the same bytes; otherwise the last digits differ.
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from pytorch_model import MATRICES, MODERN, forward, initial_deviation, part, shapes_of, shuffles

TINY = {"layers": 2, "channels": 48, "heads": 3, "context": 32, "vocabulary": 61, "paddedVocabulary": 128}
TRAINING = {
    "steps": 10, "learningRate": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weightDecay": 0.1, "gradClip": 1.0,
}  # fmt: skip
MUON = {"learningRate": 0.02, "momentum": 0.95}
MODERN_TINY = {"layers": 2, "channels": 40, "heads": 2, "context": 32, "vocabulary": 300, "paddedVocabulary": 384}
MODERN_SMALL = {"layers": 4, "channels": 128, "heads": 2, "context": 64, "vocabulary": 499, "paddedVocabulary": 512}
MODERN_TRAINING = {
    "muon": {"learningRate": 0.025, "weightDecay": 0.025, "momentum": 0.95},
    "adamw": {"beta1": 0.8, "beta2": 0.95, "epsOfSums": 1e-10, "wte": 0.3, "headw": 1 / 320, "vectors": 0.01},
    "constantFraction": 0.3,
}  # fmt: skip

named = lambda kind, tensors: {f"{kind}/{name}": tensor for name, tensor in tensors.items()}
doubles = lambda weights: {name: weight.double().requires_grad_() for name, weight in weights.items()}
shortest = lambda values: [float(str(value)) for value in values.numpy()]  # decimals that read back as the same fp32


ITERATIONS = {  # by Muon's iteration: the factor on the norm, and (a, b, c) of each step
    "polar-express": (1.01, [(a / 1.01, b / 1.01**3, c / 1.01**5) for a, b, c in [
        (8.28721201814563, -23.595886519098837, 17.300387312530933),
        (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
        (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
        (3.3184196573706015, -2.488488024314874, 0.51004894012372),
        (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    ]]),
    "quintic": (1.0, [(3.4445, -4.7750, 2.0315)] * 5),
    "cubic": (1.0, [(2.0, -1.5, 0.5)] * 12),
}  # fmt: skip


def muon(master, momentum, gradient, lr, decay, iteration, mu=0.95):
    """Makes one Muon update of a matrix and its momentum, in place."""
    momentum.lerp_(gradient, 1 - mu)
    direction = torch.lerp(gradient, momentum, mu)
    margin, steps = ITERATIONS[iteration]
    is_tall = master.shape[0] > master.shape[1]
    x = direction.T if is_tall else direction
    x = x / (margin * x.norm() + 1e-7)
    for a, b, c in steps:
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    height = max(1, master.shape[0] / master.shape[1]) ** 0.5
    master.mul_(1 - lr * decay).sub_(lr * height * (x.T if is_tall else x))


def write(path, note, value, tensors=None, **versions):
    """Writes path.json, a line per top-level entry and per entry of a top-level object, for readable diffs; and tensors
    of fp32 and int32 as path.safetensors: u64 length of the header, JSON padded to 8 bytes, then the data."""

    def text(entry, indent):
        if not isinstance(entry, dict) or indent is None:
            return json.dumps(entry)
        inside = "  " if indent == "" else None
        inner = ",\n".join(f'{indent}  "{key}": {text(each, inside)}' for key, each in entry.items())
        return f"{{\n{inner}\n{indent}}}"

    versions = {"torch": torch.__version__.split("+")[0], "numpy": np.__version__, "computed": note} | versions
    path.with_suffix(".json").write_text(text({"recordedWith": versions} | value, "") + "\n")
    if tensors is None:
        return
    header, data = {}, bytearray()
    for name, tensor in tensors.items():
        dtype, start = "F32" if tensor.is_floating_point() else "I32", len(data)
        data += tensor.detach().numpy().astype({"F32": "<f4", "I32": "<i4"}[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [start, len(data)]}
    names = json.dumps(header, separators=(",", ":")).encode()
    names = names.ljust(len(names) + -len(names) % 8)
    path.with_suffix(".safetensors").write_bytes(struct.pack("<Q", len(names)) + names + data)


def loss_and_gradients(model, weights, tokens, targets):
    """Returns (losses [B,T], activations by name, gradients by name). For the recipe the only activation is the logits."""
    seen = {}
    logits = forward(model, weights, tokens, seen.setdefault)
    if "lnew" in weights:
        seen = {"logits": logits}  # also logits of padding tokens, which take part in the losses
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return losses.detach(), seen, dict(zip(weights, torch.autograd.grad(losses.mean(), weights.values())))


def train(model, weights, batches, factors, adamw, rates, muon_settings=None, clip=math.inf):
    """Trains weights (from `doubles`) in place with AdamW, whose options for a name `rates` returns. If `muon_settings`
    (lr, decay, iteration, mu) are set, Muon updates the matrices of the blocks. Returns (losses, norms, weights)."""
    is_muon = lambda name: muon_settings is not None and name.startswith("h.") and part(name) in MATRICES
    momenta = {name: torch.zeros_like(weight) for name, weight in weights.items() if is_muon(name)}
    groups = [{"params": [weight]} | rates(name) for name, weight in weights.items() if not is_muon(name)]
    optimizer = torch.optim.AdamW(groups, foreach=False, **adamw)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, (*factors, 0).__getitem__)
    losses, norms = [], []
    for batch, factor in zip(batches, factors):
        loss, _, gradients = loss_and_gradients(model, weights, *batch)
        losses.append(loss.mean().item())
        norms.append(math.sqrt(sum((gradient**2).sum().item() for gradient in gradients.values())))
        for name, gradient in gradients.items():
            weights[name].grad = gradient * (clip / norms[-1] if norms[-1] > clip else 1.0)
        optimizer.step()
        schedule.step()
        for name, momentum in momenta.items():
            lr, *constants = muon_settings
            # Muon updates query, key and value as three matrices.
            parts = 3 if name.endswith("qkvw") else 1
            tensors = (weights[name].detach(), momentum, weights[name].grad)
            for matrix in zip(*(tensor.chunk(parts) for tensor in tensors)):
                muon(*matrix, lr * factor, *constants)
    return losses, norms, weights


def check_muon():
    """Asserts that three updates by `muon` and by PyTorch's Muon, which iterates in bf16, differ by less than 1%."""
    generator = torch.Generator().manual_seed(7)
    for shape in [(48, 144), (144, 48)]:
        weight = torch.randn(shape, generator=generator)
        theirs, ours, momentum = torch.nn.Parameter(weight.clone()), weight.double(), torch.zeros(shape).double()
        optimizer = torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, adjust_lr_fn="original")
        for _ in range(3):
            theirs.grad = torch.randn(shape, generator=generator)
            optimizer.step()
            muon(ours, momentum, theirs.grad.double(), 0.02, 0.1, "quintic")
        error = ((theirs.detach() - ours).norm() / (weight - ours).norm()).item()
        assert error < 0.01, f"PyTorch's Muon differs by {error} of the update"


def record_tiny_model(folder):
    """All weights are random, so that a wrong bias or layernorm shows. The query and key biases are large and the biases
    added to the residual stream small: then attention is not uniform, and the query, key and value thirds of qkvw all
    have gradients that matter. The model is also trained once for each of ITERATIONS, with Muon for the blocks' matrices."""
    check_muon()
    generator = torch.Generator().manual_seed(2024)
    weights = {}
    for name, shape in shapes_of(TINY).items():
        is_vector = len(shape) == 1
        deviation = {"qkvb": 0.02, "attprojb": 0.01, "fcprojb": 0.01}.get(part(name), 0.1) if is_vector else 0.02
        mean = 1 if is_vector and name.endswith("w") else 0
        weights[name] = torch.randn(shape, generator=generator) * deviation + mean
        if name.endswith("qkvb"):
            weights[name][: 2 * TINY["channels"]] *= 50
    weights["wte"][TINY["vocabulary"] :] = 0
    stream = torch.randint(TINY["vocabulary"], (3, 18), generator=generator)
    stream[0, 3], stream[1, 5] = TINY["vocabulary"] - 1, 0
    tokens, targets = stream[:, :-1].contiguous(), stream[:, 1:].contiguous()

    steps, decay = TRAINING["steps"], TRAINING["weightDecay"]
    adamw = {"betas": (TRAINING["beta1"], TRAINING["beta2"]), "eps": TRAINING["eps"], "lr": TRAINING["learningRate"]}
    rates = lambda name: {"weight_decay": decay if part(name) in MATRICES else 0.0}
    final = lambda weights, kept: named("final", {name: weights[name] for name in kept})

    def trained(iteration=None):
        settings = iteration and (MUON["learningRate"], decay, iteration, MUON["momentum"])
        exact, batches = doubles(weights), [(tokens, targets)] * steps
        return train(TINY, exact, batches, [1] * steps, adamw, rates, settings, TRAINING["gradClip"])

    losses, activations, gradients = loss_and_gradients(TINY, doubles(weights), tokens, targets)
    trained_losses, norms, last = trained()
    tensors = {"tokens": tokens, "targets": targets, "losses": losses} | named("weight", weights)
    tensors |= named("activation", activations) | named("gradient", gradients)
    # Leave out qkvb: the key bias's gradient is 0 in exact arithmetic, so AdamW moves the key bias by rounding noise.
    tensors |= final(last, ["wpe", "h.0.ln1w", "h.0.attprojw", "h.0.fcb", "h.1.fcprojb", "lnfw"])
    recorded = {"model": TINY, "batch": dict(zip("BT", tokens.shape)), "training": TRAINING | {"decayed": MATRICES}}
    recorded["float64"] = {"losses": trained_losses, "norms": norms}
    write(folder / "tiny-model", "float64 from the fp32 weights", recorded, tensors)

    by_muon = {iteration: trained(iteration) for iteration in ITERATIONS}
    # Keep one matrix of each shape, and an embedding, which AdamW updates.
    kept = ["wpe", "h.0.qkvw", "h.0.attprojw", "h.1.fcw", "h.1.fcprojw"]
    losses = {iteration: result[0] for iteration, result in by_muon.items()}
    recorded = {"training": TRAINING | {"muon": MUON}, "losses": losses}
    write(folder / "muon", "float64 from the fp32 weights", recorded, final(by_muon["polar-express"][2], kept))


def record_init(folder):
    def draw(model, edge):
        """The first and last `edge` values of each matrix, in the order in which the matrices are drawn."""
        torch.manual_seed(42)
        drawn = {}
        for name, shape in shapes_of(model).items():
            if part(name) in MATRICES:
                values = torch.empty(shape).normal_(0.0, initial_deviation(model, name)).flatten()
                drawn[name] = {"first": shortest(values[:edge]), "last": shortest(values[-edge:])}
        return drawn

    def draw_sequence(seed):
        """All values of several normal_ calls on one generator. Some counts are no multiple of 16."""
        torch.manual_seed(seed)
        draws = [(16, 0, 1), (17, 0, 1), (16, 0, 1), (31, 0, 0.02), (100, 3, 0.5), (32, 0, 1), (203, -1, 2)]
        keys = ("count", "mean", "standardDeviation", "values")
        return [dict(zip(keys, (n, *normal, shortest(torch.empty(n).normal_(*normal))))) for n, *normal in draws]

    d6 = {"layers": 6, "channels": 384, "vocabulary": 50257, "context": 1024}
    tiny = {key: TINY[key] for key in d6}
    recorded = {
        **{"seed": 42, "tinyModel": tiny, "tiny": draw(tiny, edge=16), "d6Model": d6, "d6": draw(d6, edge=4)},
        "normals": {f"seed{seed}": draw_sequence(seed) for seed in (42, 0, 4294967295)},
        "shuffle": {
            f"seed{seed}": {"seed": seed, "counts": counts, "permutations": shuffles(seed, counts)}
            for seed, counts in ((42, [1, 2, 23, 100]), (43, [23, 23, 700]))
        },
    }
    note = "torch.manual_seed(seed), then Tensor.normal_ in fp32 on the CPU, one call a tensor, in this order"
    write(folder / "init", note, recorded, cpuCapability=torch.backends.cpu.get_cpu_capability())


def draw_modern(model, seed, is_initial):
    """Draws each parameter that has a deviation by one normal_, and fills others with their mean. Padding rows of wte are 0.
    Without `is_initial` the values reveal more errors: the softcap bends logits, and RMSNorm's eps matters in embeddings."""

    def distribution(name, shape):
        if len(shape) == 1:
            return (0.0 if name.endswith("b") else 1.0), (0 if is_initial else 0.3)
        if not is_initial:
            return 0.0, {"wte": 0.03, "headw": 1.0}.get(name, 1 / math.sqrt(shape[1]))
        is_zero = name == "headw" or name.endswith("projw")
        return 0.0, 0 if is_zero else 1.0 if name == "wte" else math.sqrt(0.33 / shape[1])

    torch.manual_seed(seed)
    weights = {name: torch.zeros(shape) for name, shape in shapes_of(model, is_modern=True).items()}
    draws = {name: distribution(name, weight.shape) for name, weight in weights.items()}
    for name, (mean, deviation) in draws.items():
        real = weights[name][: model["vocabulary"]] if name == "wte" else weights[name]
        real.normal_(mean, deviation) if deviation else real.fill_(mean)
    return weights, draws


def record_modern(folder):
    def trained(recorded, weights, stream, repeats=1):
        """Trains on the stream, cut into batches. Returns the schedule's factors with the losses, weights, the first batch."""
        size, shape = recorded["B"] * recorded["T"], (recorded["B"], recorded["T"])
        starts = range(0, len(stream) - size, size)
        batches = [tuple(stream[at + shift :][:size].reshape(shape) for shift in (0, 1)) for at in starts] * repeats
        of_muon, of_adamw, steps = MODERN_TRAINING["muon"], MODERN_TRAINING["adamw"], len(batches)
        factors = [min(1, (1 - step / steps) / (1 - MODERN_TRAINING["constantFraction"])) for step in range(steps)]
        # The recipe's eps is for gradients summed over a step's tokens, but ours are means.
        adamw = {"betas": (of_adamw["beta1"], of_adamw["beta2"]), "eps": of_adamw["epsOfSums"] / size}
        rates = lambda name: {"lr": of_adamw.get(name, of_adamw["vectors"]), "weight_decay": 0.0}
        settings = (of_muon["learningRate"], of_muon["weightDecay"], "cubic", of_muon["momentum"])
        losses, _, final = train(recorded["model"], doubles(weights), batches, factors, adamw, rates, settings)
        return {"factors": factors, "losses": losses}, final, batches[0]

    tiny = {"model": MODERN_TINY, "B": 3, "T": 17, "seed": 2025}
    weights, tiny["draws"] = draw_modern(MODERN_TINY, tiny["seed"], is_initial=False)
    stream = torch.randint(MODERN_TINY["vocabulary"], (3 * 17 + 1,))
    training, final, batch = trained(tiny, weights, stream, repeats=10)
    losses, activations, gradients = loss_and_gradients(MODERN_TINY, doubles(weights), *batch)
    tensors = dict(zip(("tokens", "targets", "losses", "logits"), (*batch, losses, activations["logits"][-1, -1])))
    tensors |= named("gradient", gradients) | named("final", final)

    small = {"model": MODERN_SMALL, "B": 4, "T": 64, "seed": 42}
    weights, draws = draw_modern(MODERN_SMALL, small["seed"], is_initial=True)
    drawn = {name: weights[name].flatten() for name, (_, deviation) in draws.items() if deviation}
    small["drawn"] = {name: {"first": shortest(of[:4]), "norm": of.norm().item()} for name, of in drawn.items()}
    recorded = {"parts": MODERN, "training": MODERN_TRAINING, "tiny": tiny | training}
    stream = torch.arange(20 * 4 * 64 + 1) ** 2 % MODERN_SMALL["vocabulary"]
    recorded["small"] = small | trained(small, weights, stream)[0]
    note = "float64 from the fp32 weights, which torch.manual_seed(seed) and a Tensor.normal_ for each parameter draw"
    write(folder / "modern", note, recorded, tensors)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "test" / "fixtures"
    folder.mkdir(parents=True, exist_ok=True)
    for record in (record_tiny_model, record_init, record_modern):
        record(folder)
